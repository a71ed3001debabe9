"""Programs that take turns at every call of the store: each may stop in the middle of a step while others begin and end theirs.

A history of `machine` has other programs inside a step; here none is inside another one. Nothing is said about the order of what
they do, so what must hold is said without it: every batch adds a mark of its own to the values of its keys (``listagg``), and each
mark of an acknowledged batch is in each of its keys once, whatever died, raced or was run twice.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from lakeidx.api.table import Table
from lakeidx.batch.assignment import by_hash
from lakeidx.batch.commit_priority import CommitPriority
from lakeidx.batch.context import BatchContext, make_context, new_batch_id
from lakeidx.batch.held.hold import discard_batch
from lakeidx.batch.held.release import release_batch
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.stages.memory_staging import fits_memory, memory_staging
from lakeidx.batch.upsert import Judge, commit_batch, ingest_rows, write_attempt
from lakeidx.errors import BatchHeldError, CommitConflictError, InvalidInputError, LakeIdxError, NotFoundError
from lakeidx.format.paths import TablePaths
from lakeidx.storage.local import LocalStore
from lakeidx.table.history import tag_names
from lakeidx.table.scan import changes, table_scan
from lakeidx.tasks import in_parallel as in_parallel_module
from lakeidx.tasks.in_parallel import run_ordered
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.shared_table import calls
from tests.kit.shared_table.programs import Killed
from tests.kit.shared_table.readers import StreamReader
from tests.kit.shared_table.remembered import decoded_once
from tests.kit.shared_table.turns import Program, Turns
from tests.kit.small_tables import make_table, memory_folder

_TABLES: tuple[Mapping[str, str], ...] = (
    {"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
    {"bucket": "-1", "dynamic-bucket.target-row-num": "100"},
    {"bucket": "2"},
    {"bucket": "-1", "dynamic-bucket.target-row-num": "3", "deletion-vectors.enabled": "true"},
    {"bucket": "2", "deletion-vectors.enabled": "true"},
    {"bucket": "-1", "index.type": "bloom"},
    {"bucket": "-1", "index.type": "simple"},
    {"bucket": "-1", "index.type": "state", "dynamic-bucket.target-row-num": "3"},
    {"bucket": "2", "changelog-producer": "input"},
    {"bucket": "2", "changelog-producer": "lookup"},
)
_KEYS = [(p, k) for p in (1, 2) for k in range(4)]
#: The same where a key is in one partition at a time.
_GLOBAL_KEYS = [(p, k + 4 * p) for p, k in _KEYS]
#: Calls of the store that a batch makes at most; a death beyond does not come.
_CALLS = 90
#: Share of programs that die.
_DEATHS = 0.3
#: Share of programs that stop for long.
_STALLS = 0.5


class Interleaved:
    """One table, and the batches that it must hold.

    marks    batch -> the keys it marks
    unnamed  batches that nobody can run again: they are there when their program ended well
    bad      batches that fail their check: nobody may see one before somebody has begun to release it, or once it is discarded
    asked, discarded   those of them that somebody has begun to release; that are discarded
    told     what was done, for whoever reads of a failure
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._rng = random.Random(seed)
        self._store = LocalStore(str(folder), sync=False)
        options = {
            **self._rng.choice(_TABLES),
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "listagg",
            "manifest.merge-min-count": self._rng.choice(["1", "2", "30"]),
            "snapshot.num-retained.min": "1",
        }
        made = make_table(folder, options=options)
        self._root, self._hides = made.uri, "deletion-vectors.enabled" in options
        self._schema = made.schema
        self._keys = _GLOBAL_KEYS if options.get("index.type") == "state" else _KEYS
        self.marks: dict[str, list[tuple[int, int]]] = {}
        self._open_batches: set[str] = set()
        self.unnamed: dict[str, Program] = {}
        self.bad: set[str] = set()
        self.asked: set[str] = set()
        self.discarded: set[str] = set()
        self._released: set[str] = set()
        self._tags = self._columns = 0
        self._stream = StreamReader("s", of_changes=options.get("changelog-producer") == "lookup")
        self.told: list[str] = [str(options)]

    def open(self, store: FaultStore | None = None) -> Table:
        """Open a handle of a new process."""
        return Table(store or FaultStore(self._store), TablePaths.of(self._root, self._schema))

    def run(self) -> None:
        """Run a history; AssertionError where it goes wrong."""
        try:
            with _one_thread(), decoded_once():
                for _ in range(self._rng.randint(1, 3)):
                    self._upsert(self.open(), self._new_batch())
                for _ in range(self._rng.randint(1, 2)):
                    self._round()
                for batch in sorted(self.bad):
                    self._rng.choice([self._release, self._discard])(self.open(), batch)
                for batch in sorted(self._open_batches):
                    self._upsert(self.open(), batch)
                    self.told.append(f"{batch} again: done")
                self._check_all()
        except (AssertionError, LakeIdxError) as error:
            raise AssertionError(f"{type(error).__name__}: {error}\n  " + "\n  ".join(self.told)) from error

    # -- programs ----------------------------------------------------------------------------------------------

    def _round(self) -> None:
        programs = [p for _ in range(self._rng.randint(2, 3)) for p in self._programs()]
        # A consumer is one stream's at a time.
        streams = [p for p in programs if p.name == "stream"]
        programs = [p for p in programs if p not in streams[1:]]
        for program in programs:
            if self._rng.random() < _DEATHS and "read" not in program.name:
                program.dies_at, program.after = self._rng.randint(1, _CALLS), self._rng.random() < 0.5
            if self._rng.random() < _STALLS:
                program.stalls_at = self._rng.choice([0, self._rng.randint(1, _CALLS)])
        turns = Turns(self._rng, self.open, self._store)
        turns.run(programs)
        self.told += [*turns.order, *map(str, programs)]
        for program in programs:
            self._judge(program)
        well = {p.batch for p in programs if p.error is None}
        self._open_batches = {b for b in self._open_batches if b not in well}
        self._check_states()

    def _judge(self, program: Program) -> None:
        error = program.error
        if error is None or isinstance(error, Killed | CommitConflictError):
            return
        if isinstance(error, NotFoundError) and not program.batch and program.name != "stream":
            return  # what it worked on has expired
        raise AssertionError(f"{program.name} failed: {error}") from error

    def _programs(self) -> list[Program]:
        kinds = (
            "batch",
            "twice",
            "unnamed",
            "overtake",
            "compact",
            "expire",
            "tag",
            "read",
            "lookup",
            "stream",
            "alter",
            "index",
            "publish",
            "decide",
        )
        kind = self._rng.choices(kinds, (5, 2, 3, 4, 3, 2, 1, 1, 1, 1, 1, 1, 4, 3))[0]
        if kind in ("batch", "twice"):
            batch = self._new_batch()
            many = 1 + (kind == "twice")
            return [Program(f"{batch}{'ab'[i]}", partial(self._upsert, batch=batch), batch) for i in range(many)]
        if kind == "unnamed":
            batch = self._new_batch()
            self._open_batches.discard(batch)
            self.unnamed[batch] = Program(f"{batch} unnamed", partial(self._upsert_unnamed, batch=batch), batch)
            return [self.unnamed[batch]]
        if kind == "publish":
            batch = self._new_batch()
            if self._rng.random() < 0.7:
                self.bad.add(batch)
                self._open_batches.discard(batch)
            act = partial(self._publish, batch=batch)
            return [Program(f"{batch} {'checked' if batch not in self.bad else 'bad'}", act, batch)]
        if kind == "decide":
            if not self.bad:
                return []
            batch, release = self._rng.choice(sorted(self.bad)), self._rng.random() < 0.6
            act = partial(self._release if release else self._discard, batch=batch)
            return [Program(f"{'release' if release else 'discard'} {batch}", act)]
        if kind == "overtake":
            batches = [self._new_batch() for _ in range(self._rng.randint(1, 3))]
            return [Program(f"overtake {'+'.join(batches)}", partial(self._overtake, batches=batches))]
        if kind == "compact":
            full = self._rng.random() < 0.7
            return [Program(f"compact {full}", lambda table: calls.compact(table, full))]
        if kind == "expire":
            retain = self._rng.randint(1, 2)
            return [Program(f"expire {retain}", lambda table: calls.expire(table, retain))]
        if kind == "tag":
            self._tags += 1
            name, stays = f"t{self._tags}", self._rng.random() < 0.5
            return [Program(f"tag {name}", lambda table: self._tag(table, name, stays))]
        if kind == "alter":
            self._columns += 1
            return [Program(kind, partial(calls.add_column, name=f"c{self._columns}"))]
        acts = {
            "read": self._read,
            "lookup": calls.lookup_files,
            "stream": self._stream.read,
            "index": calls.index_files,
        }
        return [Program(kind, acts[kind])]

    def _new_batch(self) -> str:
        name = f"b{len(self.marks)}"
        self.marks[name] = self._rng.sample(self._keys, self._rng.randint(1, 4))
        self._open_batches.add(name)
        return name

    def _upsert(self, table: Table, batch: str) -> None:
        self._run_batch(make_context(table.metadata, batch, runner=LocalRunner(1)), self._rows(batch))
        self._open_batches.discard(batch)

    def _upsert_unnamed(self, table: Table, batch: str) -> None:
        context, rows = make_context(table.metadata, new_batch_id(), runner=LocalRunner(1)), self._rows(batch)
        if not fits_memory(context, rows):
            self._run_batch(context, rows)
            return
        with memory_staging(context) as staged:
            self._run_batch(staged, rows)

    def _publish(self, table: Table, batch: str) -> None:
        """Publish a batch after its check, which looks at the table as it would be; a bad one has to be held."""

        def judge(trial: BatchContext) -> list[str]:
            found = self._check_rows(
                Table(trial.store, trial.paths, trial.metadata).scan().to_arrow(), "a check", batch
            )
            assert self._hides or found[batch] == set(self.marks[batch]), f"a check does not see {batch}: {found}"
            return ["it is bad"] if batch in self.bad else []

        context = make_context(table.metadata, batch, runner=LocalRunner(1))
        try:
            self._run_batch(context, self._rows(batch), judge=judge)
        except BatchHeldError:
            assert batch in self.bad
            return
        assert batch not in self.bad or batch in self.asked | self.discarded, f"{batch} was published"

    def _release(self, table: Table, batch: str) -> None:
        if batch not in self.discarded:
            self.asked.add(batch)
        try:
            release_batch(table.metadata, batch, runner=LocalRunner(1))
        except (NotFoundError, InvalidInputError):
            return
        self._released.add(batch)

    def _discard(self, table: Table, batch: str) -> None:
        try:
            discard_batch(table.metadata, batch)
        except (NotFoundError, InvalidInputError):
            return
        self.discarded.add(batch)
        self.asked.discard(batch)

    def _rows(self, batch: str) -> pa.Table:
        keys = self.marks[batch]
        return pa.table({
            "p": pa.array([p for p, _ in keys], pa.int32()),
            "k": pa.array([k for _, k in keys], pa.int64()),
            "v": pa.array([batch] * len(keys), pa.string()),
        })  # fmt: skip

    def _run_batch(self, context: BatchContext, rows: pa.Table, judge: Judge | None = None) -> None:
        ingest_rows(context, rows, missing="null")
        run_bucket_assignment(context, context.files.latest_attempt())
        write_attempt(context, context.files.latest_attempt())
        commit_batch(context, judge=judge, sleep=lambda _: None)

    def _overtake(self, table: Table, batches: Sequence[str]) -> None:
        for batch in batches:
            self._upsert(table, batch)
        calls.expire(table, 1)

    def _tag(self, table: Table, name: str, stays: bool) -> None:
        newest = table.metadata.latest_snapshot_id()
        if newest is not None:
            calls.tag(table, name, newest)
            if not stays:
                calls.untag(table, name)

    def _read(self, table: Table) -> None:
        for _ in range(3):
            try:
                self._check_rows(table.scan().to_arrow(), "a reader")
            except NotFoundError:
                continue  # expired while it was read

    # -- what must hold ----------------------------------------------------------------------------------------

    def _check_rows(self, rows: pa.Table, who: str, tried: str = "") -> dict[str, set[tuple[int, int]]]:
        """Check that no mark is in a key twice, and each batch is in all of its keys or none; gives where each is."""
        found: dict[str, set[tuple[int, int]]] = {}
        for row in rows.to_pylist():
            marks = row["v"].split(",")
            assert len(set(marks)) == len(marks), f"{who} sees a batch twice: {row}"
            for mark in marks:
                found.setdefault(mark, set()).add((row["p"], row["k"]))
        unseen = (self.bad - self.asked | self.discarded) - {tried}
        assert not unseen & found.keys(), f"{who} sees what failed its check: {unseen & found.keys()}"
        for mark, keys in found.items():
            whole = set(self.marks[mark])
            assert keys == whole or (self._hides and keys < whole), f"{who} sees {mark} in {keys}, not in {whole}"
        return found

    def _check_states(self) -> None:
        table = self.open()
        # What an expiry that died has begun to take away is named by the hint.
        first = table.metadata.earliest_hint() or 1
        for snapshot_id in [i for i in table.metadata.snapshot_ids() if i >= first]:
            self._check_rows(table.scan(snapshot=snapshot_id).to_arrow(), f"snapshot {snapshot_id}")
        for tag in tag_names(table.metadata):
            self._check_rows(table.scan(tag=tag).to_arrow(), f"tag {tag}")

    def _check_all(self) -> None:
        if self._hides or self._stream.of_changes:
            calls.compact(self.open(), True)
        self._check_states()
        rows = self.open().scan().to_arrow()
        found = self._check_rows(rows, "the end")
        unnamed = {b for b, program in self.unnamed.items() if program.error is not None}
        died = unnamed | (self.bad - self._released)
        lost = {b: keys for b, keys in self.marks.items() if found.get(b) != set(keys) and b not in died}
        assert not lost, f"acknowledged batches are not there: {lost}"
        self._stream.read(self.open())
        now = {(r["p"], r["k"]): r["v"] for r in rows.to_pylist()}
        self._stream.check({b: keys for b, keys in self.marks.items() if b in found}, now)
        # A snapshot that a program put on an expired id when it died goes with the next expiry.
        calls.expire(self.open(), 2)
        ids = self.open().metadata.listed_snapshot_ids()
        assert ids == list(range(ids[0], ids[-1] + 1)), f"snapshots {ids} are no chain"


@contextmanager
def _one_thread() -> Iterator[None]:
    """Have each program make its calls from one thread, one after the other, and wait without time going by."""

    class OneThread(LocalRunner):
        def __init__(self, threads: int) -> None:
            super().__init__(1)

    def ordered(*arguments: Any, threads: int, **more: Any) -> Iterator[Any]:
        return run_ordered(*arguments, threads=1, **more)

    ticks = iter(range(10**9))
    with ExitStack() as stack:
        for module in (by_hash, changes, table_scan):
            stack.enter_context(mock.patch.object(module, "run_ordered", ordered))
        stack.enter_context(mock.patch.object(in_parallel_module, "LocalRunner", OneThread))
        defaults = CommitPriority.__init__.__kwdefaults__
        stack.enter_context(mock.patch.dict(defaults, {"clock": lambda: float(next(ticks))}))
        yield


def check_interleaved(seed: int) -> None:
    """Run the history of a seed; AssertionError with all its calls."""
    folder = Path(tempfile.mkdtemp(prefix="lakeidx-interleaved-", dir=memory_folder()))
    try:
        Interleaved(folder, seed).run()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
