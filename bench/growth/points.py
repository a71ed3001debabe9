"""The points: tables that differ in one measure only, and one batch of known keys into each, stage by stage."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench import metadata_cases
from bench.metadata_table import make_metadata
from lakeidx.api.table import Table
from lakeidx.batch.committed_batch import BatchResult
from lakeidx.batch.context import make_context
from lakeidx.batch.upsert import finish_batch, ingest_rows
from lakeidx.table.view import load_view
from lakeidx.tasks.runner import LocalRunner
from tests.kit.metered_store import Count, MeteredStore
from tests.kit.peak_memory import peak_mib
from tests.kit.upserts import upsert_table

STAGES = ("ingest", "bucket_assignment", "index_write", "commit")
#: Of a whole batch; the first ones also of each stage.
FIGURES = ("cpu", "requests", "read_mib", "written_mib", "seconds", "peak_mib")
STAGE_FIGURES = FIGURES[:4]
#: Keys of tables that do not grow by them, rows of a batch that does not, and rows of one batch that fills a table.
KEYS, BATCH, FILL_ROWS = 2_000_000, 100_000, 4_000_000
#: Index types that need no server; `state` and `inmemory` build what they keep with the batches that fill the table.
TYPES = ("hash", "bucket", "bloom", "simple", "global-bloom", "global-simple", "inmemory", "state")
TYPE_SIZES = ((500_000, 20_000), (2_000_000, 20_000), (2_000_000, 100_000))


@dataclass(frozen=True, slots=True)
class Point:
    """One table and one batch.

    axis         what grows
    size         how far
    buckets      dynamic buckets to begin with; 0 = those of 2 million keys
    files        of a table that is all metadata: a batch of 100 files is committed, nothing else
    """

    axis: str
    size: int
    keys: int = KEYS
    batch: int = BATCH
    partitions: int = 1
    buckets: int = 0
    files: int = 0
    index: str = "hash"

    @property
    def name(self) -> str:
        """Of its table, and of a line."""
        return f"{self.axis}_{self.index.replace('-', '_')}_{self.size}_{self.batch}"

    def options(self) -> dict[str, str]:
        """Table options."""
        target = max(self.keys // self.buckets, 1) if self.buckets else 2_000_000
        found = {"bucket": "-1", "dynamic-bucket.target-row-num": str(target), "index.type": self.index}
        return {**found, "hoodie.bucket.index.num.buckets": "4"} if self.index == "bucket" else found


@dataclass(frozen=True, slots=True)
class Measured:
    """What a batch did and cost.

    work     rows, keys (of the partitions it touches), buckets, partitions, files: what a cost may follow
    whole    figures of the batch, by name
    stages   figures of each stage, by name
    """

    point: Point
    work: Mapping[str, int]
    whole: Mapping[str, float]
    stages: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Convert for a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Measured:
        """Convert from a file."""
        return cls(Point(**found["point"]), found["work"], found["whole"], found["stages"])


AXES: Mapping[str, tuple[Point, ...]] = {
    "keys": tuple(Point("keys", n, keys=n) for n in (1_000_000, 4_000_000, 16_000_000, 64_000_000)),
    "buckets": tuple(Point("buckets", n, buckets=n) for n in (100, 500, 2_000, 5_000, 20_000)),
    "partitions": tuple(Point("partitions", n, partitions=n) for n in (1, 10, 100, 1_000, 10_000)),
    "files": tuple(Point("files", n, files=n) for n in (1_000, 10_000, 100_000, 1_000_000)),
    "batch": tuple(Point("batch", n, batch=n) for n in (10_000, 100_000, 500_000, 2_000_000)),
    "types": tuple(Point("types", k, keys=k, batch=b, index=t) for t in TYPES for k, b in TYPE_SIZES),
    #: Not among the points that the model is fitted to.
    "held out": (Point("held out", 8_000_000, keys=8_000_000, batch=300_000, partitions=20, buckets=200),),
}


def points(axis: str, most: float) -> list[Point]:
    """Return the points of an axis, up to a share of its largest."""
    largest = max(p.size for p in AXES[axis])
    return [p for p in AXES[axis] if axis in ("types", "held out") or p.size <= most * largest]


def rows(keys: np.ndarray[Any, Any], partitions: int, value: int) -> pa.Table:
    """Return rows of some keys; a key's partition follows from it."""
    return pa.table(
        {
            "p": (keys % partitions).astype(np.int32),
            "k": keys.astype(np.int64),
            "v": np.full(len(keys), value, np.int64),
        }
    )


def make_table(folder: Path, point: Point, name: str) -> Table:
    """Make the empty table of a point."""
    spec = {
        "fields": [{"name": "p", "type": "INT"}, {"name": "k", "type": "BIGINT"}, {"name": "v", "type": "BIGINT"}],
        "primaryKeys": ["p", "k"], "partitionKeys": ["p"], "options": point.options(),
    }  # fmt: skip
    return Table.create(f"{folder}/wh/b.db/{name}", spec)


def filled(folder: Path, point: Point) -> str:
    """Make the table of a point; gives its place."""
    if point.files:
        return make_metadata(folder, point.files)
    table = make_table(folder, point, point.name)
    for first in range(0, point.keys, FILL_ROWS):
        chosen = np.arange(first, min(first + FILL_ROWS, point.keys))
        upsert_table(make_context(table.metadata, f"fill-{first}"), rows(chosen, point.partitions, 0))
    return table.uri


def upsert_known(uri: str, point: Point) -> Measured:
    """Upsert random known keys (in a process of its own), and check what was done."""
    if point.files:
        return _commit_only(uri, point)
    chosen = np.random.default_rng(1).choice(point.keys, min(point.batch, point.keys), replace=False)
    opened = Table.open(uri)
    store = MeteredStore(opened.store)
    table = Table(store, opened.paths)
    # Kernels are compiled, and what every batch loads is loaded, before the clock starts.
    warm = make_table(Path(uri).parents[2], point, f"{point.name}_warm")
    for turn in range(2):
        upsert_table(make_context(warm.metadata, f"w{turn}"), rows(np.arange(1000), 1, 0))
    clock = _Clock(store)
    batch = rows(chosen, point.partitions, 1)
    context = make_context(table.metadata, "b", runner=LocalRunner(2))
    clock.begin("ingest")
    ingest_rows(context, batch)
    result = finish_batch(context, clock.begin)
    stages = clock.end()
    _check(point, result, len(chosen))
    whole = {name: sum(s[name] for s in stages.values()) for name in (*STAGE_FIGURES, "seconds")}
    return Measured(point, _work(table, point, result), {**whole, "peak_mib": float(peak_mib())}, stages)


def _check(point: Point, result: BatchResult, wanted: int) -> None:
    if (result.assign.updates, result.assign.inserts) != (wanted, 0):
        raise AssertionError(f"{result.assign.updates} of {wanted} known keys were found")
    if result.write.rows_written != wanted:
        raise AssertionError(f"{result.write.rows_written} of {wanted} rows were written")


def _work(table: Table, point: Point, result: BatchResult) -> dict[str, int]:
    touched = {t.partition for t in result.assign.targets}
    view = load_view(table.metadata, table.snapshot)
    share = point.keys * len(touched) // point.partitions
    return {
        "rows": result.assign.rows, "keys": share, "buckets": len(result.assign.targets),
        "partitions": len(touched), "files": len(view.entries),
    }  # fmt: skip


def _commit_only(uri: str, point: Point) -> Measured:
    done = metadata_cases.run_commit(uri, point.files, Path(uri).parent)
    whole = {k: float(done[k]) for k in FIGURES if k in done}
    work = {"rows": 0, "keys": 0, "buckets": metadata_cases.NEW_FILES, "partitions": 1, "files": point.files}
    return Measured(point, work, whole, {"commit": {k: whole[k] for k in STAGE_FIGURES if k in whole}})


class _Clock:
    """Figures of one stage after the other."""

    def __init__(self, store: MeteredStore) -> None:
        self._store = store
        self._stage = ""
        self._found: dict[str, dict[str, float]] = {}
        self._at: dict[str, float] = {}

    def begin(self, stage: str) -> None:
        """Begin a stage, which ends the one before."""
        now = self._now()
        if self._stage:
            self._found[self._stage] = {name: now[name] - self._at[name] for name in now}
        self._stage, self._at = stage, self._now()

    def end(self) -> dict[str, dict[str, float]]:
        """End the last stage."""
        self.begin("")
        return self._found

    def _now(self) -> dict[str, float]:
        counts = self._store.counts
        return {
            "cpu": time.process_time(),
            "requests": float(self._store.total.requests),
            "read_mib": _mib(counts, "get"),
            "written_mib": _mib(counts, "put"),
            "seconds": time.monotonic(),
        }


def _mib(counts: Mapping[str, Count], verb: str) -> float:
    return sum(c.bytes for name, c in counts.items() if name.startswith(verb)) / (1 << 20)


def slope(measured: Sequence[tuple[float, float]]) -> float | None:
    """Return the slope of the log-log line through some points; None for fewer than two, or where a figure is 0."""
    if len(measured) < 2 or any(y <= 0 for _, y in measured):
        return None
    x, y = np.log([p[0] for p in measured]), np.log([p[1] for p in measured])
    return float(np.polyfit(x, y, 1)[0])
