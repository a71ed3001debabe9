"""Decision 1: the rows of a batch to the task that writes their bucket, by Spark, in five ways.

Every way begins with the same Arrow rows in the same tasks and ends with a table per bucket, sorted by key: whose rows and sum must
be right. Processor seconds are those of driver, JVM and Python workers together.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from bench.bench_upsert import Usage
from bench.decisions.figure import Figure
from bench.lineitem import KEYS, plain
from lakeidx.spark.runner import SparkRunner
from lakeidx.spark.session import get_session
from lakeidx.tasks.routed_rows import Block, RoutedRows

BUCKETS = 14
PARTS = 8
SUMMED = "l_partkey"
_OUT = "bucket int, n long, total long"


def targets_of(rows: pa.Table) -> np.ndarray:
    """Return a bucket for each row by its key; what assignment answers is not measured here."""
    key = np.asarray(rows.column(KEYS[0])) * 16 + np.asarray(rows.column(KEYS[1]))
    found: np.ndarray = ((key * 2654435761) % (1 << 32) * BUCKETS >> 32).astype(np.int32)
    return found


def finished(rows: pa.Table) -> tuple[int, int]:
    """Return the rows and sum of a bucket, after the sort by key that a writer needs."""
    ordered = rows.sort_by([(k, "ascending") for k in KEYS])
    return ordered.num_rows, pc.sum(ordered.column(SUMMED)).as_py() or 0


def read_part(path: str, part: int) -> pa.Table:
    """Return one of PARTS shares of the row groups of a file."""
    file = pq.ParquetFile(path)
    return plain(file.read_row_groups(list(range(part, file.num_row_groups, PARTS))))


def blocks(session: SparkSession, path: str, folder: Path) -> list[tuple[int, int]]:
    """Send Arrow blocks, as lakeidx does."""

    def split(part: int) -> Iterable[RoutedRows]:
        rows = read_part(path, part)
        yield RoutedRows(part, rows, targets_of(rows))

    def combine(target: int, found: Iterator[Block]) -> tuple[int, int]:
        return finished(pa.concat_tables([b.rows for b in found]))

    weights = [pq.ParquetFile(path).metadata.num_rows // BUCKETS] * BUCKETS
    return SparkRunner(session).shuffle(
        split, range(PARTS), combine, targets=range(BUCKETS), weights=weights, label="blocks"
    )


def _rows(session: SparkSession, path: str) -> DataFrame:
    schema = read_part(path, 0).slice(0, 0).append_column("target", pa.array([], pa.int32()))

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in batch.column(0).to_pylist():
                rows = read_part(path, part)
                yield from rows.append_column("target", pa.array(targets_of(rows))).to_batches(max_chunksize=10_000)

    return session.range(0, PARTS, 1, PARTS).mapInArrow(read, session.createDataFrame(schema).schema)


def _combined(frame: DataFrame) -> list[tuple[int, int]]:
    def combine(table: pa.Table) -> pa.Table:
        n, total = finished(table)
        return pa.table(
            {"bucket": pa.array([table.column("target")[0].as_py()], pa.int32()), "n": [n], "total": [total]}
        )

    found = frame.groupBy("target").applyInArrow(combine, _OUT).collect()
    return [(row.n, row.total) for row in sorted(found)]


def rows_once(session: SparkSession, path: str, folder: Path) -> list[tuple[int, int]]:
    """Send rows through Spark's shuffle, combined by `applyInArrow`."""
    return _combined(_rows(session, path).repartition(BUCKETS, "target"))


def rows_twice(session: SparkSession, path: str, folder: Path) -> list[tuple[int, int]]:
    """Run Paimon's topology: rows to the assigner of their key, then to the writer of their bucket."""
    assigned = _rows(session, path).repartition(2, sf.hash(*KEYS))
    schema = assigned.schema

    def assign(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            target = pa.array(targets_of(pa.Table.from_batches([batch])))
            yield batch.set_column(batch.schema.get_field_index("target"), "target", target)

    return _combined(assigned.mapInArrow(assign, schema).repartition(BUCKETS, "target"))


def files(session: SparkSession, path: str, folder: Path) -> list[tuple[int, int]]:
    """Write a file per (task, bucket) as the exchange."""
    place = tempfile.mkdtemp(dir=folder)

    def write(part: int) -> int:
        rows = read_part(path, part)
        targets = targets_of(rows)
        for target in range(BUCKETS):
            chosen = rows.filter(pa.array(targets == target))
            with pa.ipc.new_file(f"{place}/{target}-{part}", chosen.schema) as out:
                out.write_table(chosen)
        return BUCKETS

    def read(target: int) -> tuple[int, int]:
        return finished(pa.concat_tables([pa.ipc.open_file(f"{place}/{target}-{p}").read_all() for p in range(PARTS)]))

    runner = SparkRunner(session)
    runner.map(write, range(PARTS), label="write")
    return runner.map(read, range(BUCKETS), label="read")


#: Way, function, chosen, files on the object store beside the data files.
WAYS: Sequence[tuple[str, Callable[[SparkSession, str, Path], list[tuple[int, int]]], bool, int]] = (
    ("Arrow blocks, one shuffle", blocks, True, 0),
    ("rows through repartition and applyInArrow", rows_once, False, 0),
    ("rows to the assigner, then to the writer", rows_twice, False, 0),
    ("files per (task, bucket)", files, False, PARTS * BUCKETS),
)


def measure(source: Path, rounds: int, folder: Path) -> list[Figure]:
    """Run every way, check it, and take the processor seconds of the best round."""
    rows = plain(pq.read_table(source))
    targets = targets_of(rows)
    path = str(folder / "rows.parquet")
    pq.write_table(rows, path, row_group_size=-(-rows.num_rows // PARTS))
    wanted = [finished(rows.filter(pa.array(targets == t))) for t in range(BUCKETS)]
    session, usage = get_session(master="local[2]", config={"spark.driver.memory": "2g"}), Usage()
    out = []
    try:
        for way, run, chosen, objects in WAYS:
            best = float("inf")
            for number in range(rounds + 1):
                before = usage.cpu()
                found = run(session, path, folder)
                spent = usage.cpu() - before
                if found != wanted:
                    sys.exit(f"{way}: wrong rows in a bucket")
                # The first round imports, compiles and starts workers.
                best = min(best, spent) if number else best
            out.append(Figure(1, way, chosen, f"{rows.num_rows:,} rows to {BUCKETS} buckets", round(best, 2), "CPU s"))
            out.append(Figure(1, way, chosen, "objects to write and read again", objects, "objects"))
        out += [idle(session, tasks) for tasks in (4, 8, 14)]
    finally:
        session.stop()
    return out


def idle(session: SparkSession, tasks: int) -> Figure:
    """Return tasks that `repartition(n, target)` leaves without a target, of as many as there are buckets."""
    frame = session.range(BUCKETS).select(sf.col("id").cast("int").alias("target")).repartition(tasks, "target")
    used = frame.select(sf.spark_partition_id().alias("task")).distinct().count()
    return Figure(1, "block rows by hash of their target", False, f"idle tasks of {tasks}", tasks - used, "tasks")
