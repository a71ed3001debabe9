"""What goes through Spark's shuffle, and what its tasks are sent: the runner's own functions, without a JVM between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.growth.points import Point, make_table
from bench.scale.figure import Clock, Figure
from bench.scale.frames import Session
from lakeidx.batch.artifacts import BucketAssignmentReport, StagedPart, Target
from lakeidx.batch.stages.index_write import WriteContext
from lakeidx.batch.upsert import make_context
from lakeidx.spark.runner import SparkRunner
from lakeidx.tasks.routed_rows import Block, RoutedRows

ROWS, PARTS, TARGETS, ROUNDS = 100_000, 8, (10, 10_000), 3
BUCKETS = 20_000


def _goes(part: int, count: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(part).integers(0, count, ROWS // PARTS).astype(np.int32)


@dataclass(frozen=True, slots=True)
class _Tasks:
    """Rows to so many targets."""

    count: int

    def split(self, part: int) -> Iterator[RoutedRows]:
        """Give rows of a part, with a text each; where they go is random."""
        keys = np.arange(part * ROWS // PARTS, (part + 1) * ROWS // PARTS)
        texts = pc.binary_join_element_wise("value ", pa.array(keys).cast(pa.string()), "")
        yield RoutedRows(part, pa.table({"k": keys, "v": keys * 3, "t": texts}), _goes(part, self.count))

    def combine(self, _: int, blocks: Iterator[Block]) -> int:
        """Count the rows."""
        return sum(b.rows.num_rows for b in blocks)


def measure(folder: Path) -> list[Figure]:
    """Shuffle rows to few targets and to many; weigh what tasks of a batch into many buckets are sent."""
    return [*(_shuffled(count) for count in TARGETS), sent(folder)]


def _shuffled(count: int) -> Figure:
    tasks, wanted = _Tasks(count), np.bincount(np.concatenate([_goes(p, count) for p in range(PARTS)]), minlength=count)
    best, session = (float("inf"), float("inf")), Session()
    for _ in range(ROUNDS):
        session = Session()
        runner = SparkRunner(session, parallelism=2)  # type: ignore[arg-type]
        clock = Clock()
        found = runner.shuffle(
            tasks.split,
            range(PARTS),
            tasks.combine,
            targets=range(count),
            weights=[ROWS // count] * count,
            label="bench",
        )
        best = min(best, clock.seconds())
        if found != wanted.tolist():
            raise AssertionError("rows were lost on their way")
    return Figure(f"shuffle of {ROWS:,} rows to {count:,} targets", *best, mib=session.moved / (1 << 20))


def sent(folder: Path) -> Figure:
    """Weigh the largest function of the stage that writes."""
    table = make_table(folder, Point("buckets", 1), "sent")
    partition = bytes.fromhex("00000001" + "00" * 16)
    made = tuple(
        Target(partition=partition.hex(), bucket=b, rows=10**6, first_sequence=10**9, index_file=f"index-{b:040d}-0",
               index_rows=10**6, new_hashes=10)
        for b in range(BUCKETS)
    )  # fmt: skip
    assign = BucketAssignmentReport(
        batch_id="b", attempt=1, base_snapshot_id=None, targets=made, targets_paths=(), assigned_on=None, rows=0,
        inserts=0, updates=0, deletes=0, new_buckets=0, index_type="hash", seconds=0.0,
    )  # fmt: skip
    tasks = WriteContext.of(make_context(table.metadata, "b"), table.schema, assign, 1)
    session = Session()
    runner = SparkRunner(session, parallelism=2)  # type: ignore[arg-type]
    parts = [(n, StagedPart(path="p" * 100, rows=1, bytes=1, source=0)) for n in range(BUCKETS)]
    clock = Clock()
    runner.shuffle_frame(tasks.split, parts, tasks.combine, targets=made, weights=[t.rows for t in made])  # type: ignore[arg-type]
    seconds, cpu = clock.seconds()
    if len(session.sent) < 2:
        raise AssertionError("no function was sent")
    return Figure(f"function of a task, {BUCKETS:,} buckets", seconds, cpu, mib=max(session.sent) / (1 << 20))
