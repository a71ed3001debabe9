"""Does the advice pick the fastest index? Every type is timed on workloads that its costs were not fitted to.

A workload is a table (rows in files of equal size, filters in the footers, HASH index files), and a batch:

    random    keys are random; every file may hold every key; known keys are drawn from all of them
    ordered   keys begin with a time; a file holds a stretch of it; nine tenths of the known keys, or all, are of the newest
    hot       keys are random; nearly all known keys are from one hundredth of the table, which stands in one file

    python -m bench.bench_advice [--calibrate [--types NAME,...]] [--plots DIR] [--rounds 3] [--scale 1.0] [--only NAME,...]

Seconds are CPU seconds of all threads, the least of some rounds: other work on the machine disturbs them little. They are
those of tagging, of a batch's own filters (bloom), and of writing new locations (state). Predictions are for one core.
What the state takes is given twice: for one batch, and in the long run, where what some batches take for each location that they
write counts as often as one is written until it has got into the oldest run. Predictions and advice are of the long run.
The advice is asked for with several needs; it passes where the type it picks takes no more than 1.2 times what the fastest
type that meets the needs takes. The run fails when it does not pass everywhere.

--calibrate times the workloads for fitting instead, and prints the costs that fit best (`lakeidx.key_index.advice.model.Costs`); of
some types only: the costs of the others stay as they are.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.optimize import nnls

from bench.advice_plots import Case, draw_all
from bench.clock import best_of
from bench.keyed_table import FPP, KeyedTable, batch_of, id_texts, mixed, write_keyed_table
from lakeidx.api.table import Table
from lakeidx.batch.key_state.index import StateKeyIndex
from lakeidx.format.data_file import EMPTY_ROW
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.key_index.advice.advise import measure_workload, profile_of, recommend
from lakeidx.key_index.advice.measures import Measures, Needs
from lakeidx.key_index.advice.model import Costs, Machine, predict, times_written
from lakeidx.key_index.bloom.footer import BloomFooterBuilder
from lakeidx.key_index.bucket.bucket_index import BucketKeyIndex
from lakeidx.key_index.locations import CommitInfo, KeyBatch
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.port import ExternalState, IndexContext, Locator
from lakeidx.key_index.registry import index_types, make_locator
from lakeidx.key_index.simple import SimpleKeyIndex
from lakeidx.table.commit.changes import CommitRequest, TableChanges
from lakeidx.table.commit.commit_changes import commit_changes
from lakeidx.tasks.runner import LocalRunner
from tests.kit.metered_store import MeteredStore
from tests.kit.told_index import tell_index

TYPES = ("hash", "bucket", "bloom", "simple", "global-bloom", "global-simple", "state")
NEEDS = {
    "any": Needs(),
    "other writers": Needs(other_writers=True),
    "nothing kept outside": Needs(other_writers=True, stateless=True),
    "keys move": Needs(moves=True),
    "keys move, nothing kept outside": Needs(moves=True, stateless=True),
}
TOLERANCE = 1.2
#: Batches whose locations are written into the state, one after another.
UPDATES = 6
LONG_RUN = "in the long run"
ONE_CORE = Machine(cores=1, latency_ms=0.0, bytes_per_s=math.inf)


@dataclass(frozen=True, slots=True)
class Spec:
    """One workload.

    batch    keys of a batch, known of them are in the table
    numeric  BIGINT keys instead of 18-byte texts
    late     ordered keys: share of the known ones that are older than the newest stretch
    """

    name: str
    order: str
    rows: int
    files: int
    batch: int
    known: float = 0.9
    numeric: bool = False
    late: float = 0.1


HELD_OUT = (
    Spec("random keys, small table", "random", 600_000, 6, 60_000),
    Spec("time-ordered keys, small table", "ordered", 600_000, 6, 60_000),
    Spec("hot-set keys, small table", "hot", 600_000, 6, 60_000),
    Spec("random keys, large table", "random", 6_000_000, 24, 200_000),
    Spec("time-ordered keys, large table", "ordered", 6_000_000, 24, 200_000),
    Spec("hot-set keys, large table", "hot", 6_000_000, 24, 200_000),
    Spec("time-ordered keys, none late, large table", "ordered", 6_000_000, 24, 100_000, known=0.6, late=0.0),
    Spec("time-ordered keys, none late, large table, small batch", "ordered", 6_000_000, 24, 5_000, late=0.0),
)
CALIBRATION = (
    Spec("c1", "random", 300_000, 3, 150_000, known=0.5),
    Spec("c2", "ordered", 1_000_000, 20, 100_000, known=0.95),
    Spec("c3", "hot", 2_000_000, 8, 20_000),
    Spec("c4", "random", 3_000_000, 12, 400_000),
    Spec("c5", "ordered", 3_000_000, 30, 30_000, known=0.6, late=0.0),
    Spec("c6", "random", 1_500_000, 5, 100_000, numeric=True),
    Spec("c7", "ordered", 4_000_000, 8, 300_000, numeric=True),
    Spec("c8", "random", 150_000, 4, 10_000),
    Spec("c9", "ordered", 2_500_000, 40, 3_000, known=0.5, late=0.0),
    # States that do not fit in their cache.
    Spec("c10", "random", 7_500_000, 15, 10_000),
    Spec("c11", "ordered", 5_000_000, 10, 100_000, known=0.8, late=0.3),
)


@dataclass(frozen=True, slots=True)
class Made:
    """A workload, and its table and batch."""

    spec: Spec
    table: KeyedTable

    def context(self, options: dict[str, str]) -> IndexContext:
        """Return a fresh view of the table, one thread."""
        return self.table.context(options, LocalRunner(1))


def keys_of(spec: Spec, numbers: npt.NDArray[np.int64]) -> pa.Array:
    """Return keys of running numbers: the number itself (ordered), or the number mixed."""
    values = numbers if spec.order == "ordered" else (mixed(numbers) >> np.uint64(15)).astype(np.int64)
    return pa.array(values) if spec.numeric else id_texts(values)


def make(spec: Spec, folder: Path) -> Made:
    """Write and commit the table, and draw the batch."""
    table = write_keyed_table(
        str(folder / "bench.db" / spec.name.replace(" ", "-").replace(",", "")),
        spec.name,
        rows=spec.rows,
        buckets=spec.files,
        batch=draw(spec),
        keys_of=partial(keys_of, spec),
        key_type="BIGINT NOT NULL" if spec.numeric else "STRING NOT NULL",
    )
    return Made(spec, table)


def draw(spec: Spec, seed: int = 11) -> npt.NDArray[np.int64]:
    """Return the numbers of the batch's keys; those from `spec.rows` on are new."""
    rng = np.random.default_rng(seed)
    known = int(spec.batch * spec.known)
    if spec.order == "ordered":
        stretch = spec.rows // spec.files
        recent = rng.choice(
            np.arange(spec.rows - stretch, spec.rows), min(round(known * (1 - spec.late)), stretch), replace=False
        )
        old = rng.choice(spec.rows - stretch, known - len(recent), replace=False)
        numbers = np.concatenate([recent, old])
    elif spec.order == "hot":
        # One hundredth of the table, or as many keys as the batch needs, from the middle of one file.
        start = spec.rows // spec.files * (spec.files // 2)
        hot = np.arange(start, start + max(spec.rows // 100, min(known, spec.rows // spec.files)))
        recent = rng.choice(hot, min(known * 99 // 100, len(hot)), replace=False)
        rest = np.setdiff1d(rng.choice(spec.rows, known, replace=False), recent)[: known - len(recent)]
        numbers = np.concatenate([recent, rest])
    else:
        numbers = rng.choice(spec.rows, known, replace=False)
    return rng.permutation(np.concatenate([numbers, np.arange(spec.rows, spec.rows + spec.batch - known)]))


def _cpu(task: Callable[[], object], rounds: int = 1) -> float:
    return best_of(rounds, task, prepare=gc.collect)[1]


@dataclass(frozen=True, slots=True)
class Seconds:
    """CPU seconds of one type, the least of some rounds, upkeep included.

    batch   one batch; of the state with the update that comes next
    long    a batch in the long run
    """

    batch: float
    long: float


def time_type(made: Made, kind: str, rounds: int) -> Seconds:
    """Time one type; locations are checked first."""
    options = {
        "index.type": kind,
        "hoodie.bucket.index.num.buckets": "256",
    }
    # Type hash looks keys up as type bucket does.
    key_index = make_locator(IndexOptions(options)) or BucketKeyIndex()
    try:
        if kind != "bucket":
            found = key_index.tag(made.table.fresh_batch(), made.context(options))
            made.table.check(found.bucket, kind)
        best = min(_one_round(made, key_index, kind, options) for _ in range(rounds))
        upkeep = _upkeep(made, key_index, kind, options)
        return Seconds(best + upkeep.batch, best + upkeep.long)
    finally:
        if isinstance(key_index, StateKeyIndex):
            key_index.close()


def _one_round(made: Made, key_index: Locator, kind: str, options: dict[str, str]) -> float:
    context, batch = made.context(options), made.table.fresh_batch()
    if kind == "bucket":
        # Placing says it all; `tag` would do it a second time.
        return _cpu(lambda: key_index.place_inserts(batch, context))
    return _cpu(lambda: key_index.tag(batch, context))


def _upkeep(made: Made, key_index: Locator, kind: str, options: dict[str, str]) -> Seconds:
    """Time what the index adds to the commit of the batch; for the state the last thing that is done with it."""
    if "bloom" in kind:
        context = made.context(options)
        seconds = _cpu(lambda: _write_filter(made, context), 2)
        return Seconds(seconds, seconds)
    if kind != "state":
        return Seconds(0.0, 0.0)
    folder = made.table.index_folder
    of_key = sum(f.stat().st_size for f in folder.rglob("data-*")) / made.spec.rows
    told = [_update_state(made, key_index, options, seed) for seed in range(UPDATES)]
    # What each update costs, and each key that it writes.
    written = np.array([[1.0, size / of_key] for _, size in told])
    (update, each), _ = nnls(written / [[1.0, 1e6]], np.array([seconds for seconds, _ in told]))
    long = float(update + each / 1e6 * len(made.table.batch) * times_written(made.spec.rows, len(made.table.batch)))
    return Seconds(told[0][0], long)


def _update_state(made: Made, key_index: Locator, options: dict[str, str], seed: int) -> tuple[float, int]:
    """Commit another batch; return what the state takes to follow, and the bytes that it writes."""
    batch = batch_of(made.table.handle, keys_of(made.spec, draw(made.spec, seed)))
    context = made.context(options)
    was = key_index.tag(batch, context)
    metadata = Table.open(str(made.table.handle.paths.root)).metadata
    changes = TableChanges(append=_copy_of_a_file(context, made, seed))
    request = CommitRequest(commit_user=f"again-{seed}", changes=changes, check_sequences=False)
    result = commit_changes(metadata, request)
    after = made.context(options)
    store = MeteredStore(after.store)
    after = dataclasses.replace(after, store=store)
    commit = CommitInfo(
        instant=request.commit_user,
        snapshot_id=result.snapshot_ids[-1],
        base_id=context.view.snapshot_id,
        batch=batch,
        partition=np.zeros(len(batch), np.int32),
        bucket=np.where(was.known, was.bucket, 0).astype(np.int32),
        partitions=batch.partitions,
        was=was,
    )
    # Another process may follow than the one that located the keys.
    follower = make_locator(IndexOptions(options))
    assert isinstance(follower, ExternalState)
    seconds = _cpu(lambda: tell_index(follower, commit, after))
    return seconds, store.counts["put"].bytes


def _write_filter(made: Made, context: IndexContext) -> None:
    builder = BloomFooterBuilder(made.table.batch.keys.column_names, context.options)
    builder.add(made.table.batch.keys)
    builder.finish()


def _copy_of_a_file(context: IndexContext, made: Made, number: int) -> tuple[ManifestEntry, ...]:
    """Write the file that a new snapshot needs; what is in it does not matter to what is timed."""
    file = context.view.files(None)[0]
    meta = dataclasses.replace(file.meta, file_name=f"copy-{number}-{file.meta.file_name}", level=0)
    shutil.copy(file.path, Path(file.path).with_name(meta.file_name))
    return (ManifestEntry(kind=FileKind.ADD, partition=EMPTY_ROW, bucket=file.bucket, total_buckets=-1, file=meta),)


def measures_of(made: Made, sample: int = 20_000) -> Measures:
    """Return what the advice is based on: measures from a sample of the batch."""
    b = made.table.batch
    rows = np.sort(np.random.default_rng(3).choice(len(b), min(sample, len(b)), replace=False))
    part = KeyBatch(b.partitions, b.partition[rows], b.keys.take(pa.array(rows)), b.key_types, b.hashes[rows])
    context = made.context({})
    located = SimpleKeyIndex().tag(part, context)
    files = context.view.files(None)
    footer = pq.read_metadata(files[0].path).row_group(0)
    key_column = next(i for i in range(footer.num_columns) if footer.column(i).path_in_schema == "id")
    key_bytes = footer.column(key_column).total_compressed_size / footer.num_rows
    return measure_workload(part, located, files, batch_rows=len(b), key_column_bytes=key_bytes)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A workload's measured seconds by type, its measures, and how the advice did by need."""

    spec: Spec
    measures: Measures
    timed: dict[str, Seconds]

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by type in the long run."""
        return {kind: timed.long for kind, timed in self.timed.items()}

    def picks(self) -> dict[str, tuple[str, str, float]]:
        """Need -> (advised type, fastest type, how many times the fastest's seconds)."""
        out = {}
        for name, needs in NEEDS.items():
            advice = recommend(self.measures, needs, ONE_CORE, fpp=FPP)
            able = [p.index_type for p in advice.predictions if not p.why_not and p.index_type in self.seconds]
            fastest = min(able, key=self.seconds.__getitem__)
            out[name] = (advice.index_type, fastest, self.seconds[advice.index_type] / self.seconds[fastest])
        return out


def run(spec: Spec, rounds: int, folder: Path, types: Sequence[str] = TYPES) -> Outcome:
    """Make a workload and time types on it."""
    made = make(spec, folder)
    try:
        measures = measures_of(made)
        # The state goes last: its upkeep commits to the table.
        return Outcome(spec, measures, {kind: time_type(made, kind, rounds) for kind in types})
    finally:
        for place in (made.table.index_folder, made.table.handle.paths.root):
            shutil.rmtree(place, ignore_errors=True)


def fit(outcomes: list[Outcome], types: Sequence[str] = TYPES) -> Costs:
    """Fit costs by the least squares of relative errors, none negative; of some types only those that have their name."""
    names = [f.name for f in dataclasses.fields(Costs) if not f.name.startswith("hbase")]
    if set(types) != set(TYPES):
        names = [n for n in names if n.partition("_")[0] in types]
    zero = {f.name: 0.0 for f in dataclasses.fields(Costs)}
    rest = dataclasses.replace(Costs(), **dict.fromkeys(names, 0.0))
    models = {t.name: profile.work for t in index_types() if (profile := profile_of(t)) is not None}
    rows, right = [], []
    for outcome in outcomes:
        for kind, seconds in outcome.seconds.items():
            parts = []
            for name in names:
                costs = Costs(**{**zero, name: 1e-9})
                parts.append(predict(kind, models[kind], outcome.measures, ONE_CORE, fpp=FPP, costs=costs).seconds)
            rows.append(np.array(parts) / seconds)
            told = predict(kind, models[kind], outcome.measures, ONE_CORE, fpp=FPP, costs=rest).seconds
            right.append(1.0 - told / seconds)
    # The present costs pull a little, so that what the workloads do not tell apart stays where it was.
    prior = Costs()
    for i, name in enumerate(names):
        if not getattr(prior, name):
            continue
        row = np.zeros(len(names))
        row[i] = 0.03 / (getattr(prior, name) * 1e9)
        rows.append(row)
        right.append(0.03)
    found, _ = nnls(np.array(rows), np.array(right))
    return dataclasses.replace(prior, **{n: float(f"{v * 1e-9:.2g}") for n, v in zip(names, found, strict=True)})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calibrate", action="store_true")
    parser.add_argument("--types", default=",".join(TYPES), help="with --calibrate: types that are timed")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes")
    parser.add_argument("--only", help="workloads whose name has this in it")
    parser.add_argument("--plots", type=Path, help="write the pictures of docs/choosing-an-index.md here")
    parser.add_argument("--json", action="store_true", help="one JSON object per figure to stdout")
    parser.add_argument("--dir", type=Path, help="where the tables are made; default a temporary directory")
    arguments = parser.parse_args()
    specs = CALIBRATION if arguments.calibrate else HELD_OUT
    types = [t for t in TYPES if t in arguments.types.split(",")] if arguments.calibrate else TYPES
    folder = Path(tempfile.mkdtemp(prefix="bench-advice-", dir=arguments.dir))
    out = sys.stderr if arguments.json else sys.stdout
    outcomes = []
    try:
        for spec in specs:
            if arguments.only and arguments.only not in spec.name:
                continue
            sized = dataclasses.replace(
                spec, rows=int(spec.rows * arguments.scale), batch=int(spec.batch * arguments.scale)
            )
            outcomes.append(run(sized, arguments.rounds, folder, types))
            show(outcomes[-1], out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.calibrate:
        print(fit(outcomes, types), file=out)
        return 0
    if arguments.plots:
        cases = [Case(o.spec.name, o.measures, o.seconds, predicted(o.measures)) for o in outcomes]
        for path in draw_all(cases, predicted, arguments.plots):
            print(f"drawn: {path}", file=out)
    if arguments.json:
        for line in figures(outcomes):
            print(json.dumps(line))
    missed = [(o.spec.name, need) for o in outcomes for need, pick in o.picks().items() if pick[2] > TOLERANCE]
    total = sum(len(o.picks()) for o in outcomes)
    print(f"within {TOLERANCE - 1:.0%} of the fastest: {total - len(missed)} of {total}", file=out)
    for name, need in missed:
        print(f"missed: {name}; {need}", file=out)
    return 1 if missed else 0


def predicted(m: Measures) -> dict[str, float]:
    """Return the predicted seconds by type, on one core."""
    return {
        p.index_type: p.seconds for p in recommend(m, Needs(), ONE_CORE, fpp=FPP).predictions if p.index_type in TYPES
    }


def figures(outcomes: list[Outcome]) -> list[dict[str, object]]:
    """Return one object per workload and type."""
    lines: list[dict[str, object]] = []
    for o in outcomes:
        told = predicted(o.measures)
        for kind, timed in o.timed.items():
            size = {"rows": o.spec.rows, "batch": o.spec.batch}
            line = {"case": o.spec.name, **size, "type": kind, "cpu_seconds": timed.batch}
            if timed.long != timed.batch:
                lines.append(line)
                line = {**line, "period": LONG_RUN, "cpu_seconds": timed.long}
            picked = [need for need, (advised, _, _) in o.picks().items() if advised == kind]
            lines.append({**line, "predicted": told[kind], "advised_for": ", ".join(picked)})
    return lines


def show(o: Outcome, out: object) -> None:
    """Print a workload's figures; how the advice did when every type was timed."""
    m = o.measures
    print(
        f"\n{o.spec.name}: {o.spec.rows:,} rows in {o.spec.files} files, {o.spec.batch:,} keys; {m.key_order} keys"
        f" (spread {m.spread:.2f}), {m.touched_files:.1f} files touched, {m.held_files:.1f} hold keys,"
        f" {m.update_share:.0%} known",
        file=out,  # type: ignore[call-overload]
    )
    told = predicted(m)
    for kind, timed in sorted(o.timed.items(), key=lambda item: item[1].long):
        once = f"; one batch {timed.batch:7.3f} s" if timed.long != timed.batch else ""
        print(f"  {kind:14} {timed.long:7.3f} s  predicted {told[kind]:7.3f} s{once}", file=out)  # type: ignore[call-overload]
    for need, (advised, fastest, times) in o.picks().items() if len(o.seconds) == len(TYPES) else ():
        verdict = "ok" if times <= TOLERANCE else "MISSED"
        print(f"  {need:32} advised {advised:14} fastest {fastest:14} x {times:.2f} {verdict}", file=out)  # type: ignore[call-overload]


if __name__ == "__main__":
    sys.exit(main())
