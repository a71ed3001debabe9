"""Runs stage functions as Spark tasks. Rows cross Spark's shuffle as compressed Arrow blocks, never as rows.

A map task yields its blocks as a binary column; Spark moves the few binary rows to the task that owns the block's target and
sorts them there by (target, order); the reduce task reads them back as Arrow. There is one exchange.

Errors of lakeidx inside a task come back as values and are raised in the driver as they are; anything else fails the Spark
task, so that Spark's own retries and messages apply.
"""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakeidx.errors import InternalError, LakeIdxError
from lakeidx.pipeline.runner import Block, pack_targets

T = TypeVar("T")
R = TypeVar("R")

#: Arrow bytes of one block before compression; keeps a block far below Spark's 2 GiB limit for one value.
BLOCK_BYTES = 64 << 20

#: Reduce tasks per slot of the cluster: more tasks even out skew, fewer save start-up.
TASKS_PER_SLOT = 4

#: Weight (rows) worth a reduce task of its own; small batches get no more tasks than slots.
TASK_WEIGHT = 400_000

_RESULT_SCHEMA = "number long, ok boolean, result binary"
_BLOCK_SCHEMA = "task int, target int, ord int, piece int, payload binary"
_ERROR_TARGET = -1


class SparkRunner:
    """A `lakeidx.pipeline.runner.Runner` on a Spark session (classic or Connect).

    session       the session; never its sparkContext
    parallelism   slots of the cluster; None = asked of the session's configuration
    """

    def __init__(self, session: SparkSession, *, parallelism: int | None = None) -> None:
        self.session = session
        self._parallelism = parallelism or session_slots(session)

    @property
    def parallelism(self) -> int:
        """Slots of the cluster."""
        return self._parallelism

    def map(self, task: Callable[[T], R], items: Sequence[T], *, label: str) -> list[R]:
        """See `lakeidx.pipeline.runner.Runner.map`."""
        if not items:
            return []
        frame = self._numbers(len(items)).mapInArrow(_settling(_map_function(task, list(items))), _RESULT_SCHEMA)
        return _collect(frame, len(items))

    def shuffle(
        self,
        split: Callable[[T], Iterable[Block]],
        items: Sequence[T],
        combine: Callable[[int, Iterator[Block]], R],
        *,
        weights: Sequence[int],
        label: str,
    ) -> list[R]:
        """See `lakeidx.pipeline.runner.Runner.shuffle`."""
        if not weights:
            return []
        frame = self.shuffle_frame(split, items, combine, weights=weights)
        with _small_batches(self.session):
            return _collect(frame, len(weights))

    def shuffle_frame(
        self,
        split: Callable[[T], Iterable[Block]],
        items: Sequence[T],
        combine: Callable[[int, Iterator[Block]], R],
        *,
        weights: Sequence[int],
    ) -> DataFrame:
        """The query of a shuffle, one row per target: its plan holds one exchange, of binary blocks."""
        tasks = pack_targets(weights, task_count(sum(weights), self._parallelism))
        count = max(tasks) + 1
        split_blocks = _settling(_split_function(split, list(items), tasks))
        blocks = self._numbers(len(items)).mapInArrow(split_blocks, _BLOCK_SCHEMA)
        moved = _to_tasks(blocks, count).sortWithinPartitions("target", "ord", "piece")
        return moved.mapInArrow(_settling(_combine_function(combine)), _RESULT_SCHEMA)

    def _numbers(self, count: int) -> DataFrame:
        return self.session.range(0, count, 1, numPartitions=count)


def task_count(weight: int, slots: int) -> int:
    """How many reduce tasks a shuffle of that weight gets: as many as its weight is worth, 1 to TASKS_PER_SLOT per slot."""
    return max(slots, min(slots * TASKS_PER_SLOT, weight // TASK_WEIGHT))


def session_slots(session: SparkSession) -> int:
    """How many tasks the session runs at a time, as far as its configuration tells."""
    master = str(session.conf.get("spark.master", "") or "")
    if master.startswith("local["):
        inside = master[len("local[") : -1].split(",")[0]
        return _cpu_count() if inside == "*" else int(inside)
    if master == "local":
        return 1
    cores = session.conf.get("spark.cores.max", None)
    if cores:
        return int(cores)
    instances = int(session.conf.get("spark.executor.instances", "2") or 2)
    return max(1, instances * int(session.conf.get("spark.executor.cores", "1") or 1))


def _cpu_count() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def _to_tasks(blocks: DataFrame, count: int) -> DataFrame:
    # repartitionById (Spark 4.1) sends a block to the very task that was chosen for its target; older Spark hashes the number.
    if hasattr(blocks, "repartitionById"):
        return blocks.repartitionById(count, sf.col("task"))
    return blocks.repartition(count, "task")


@contextmanager
def _small_batches(session: SparkSession) -> Iterator[None]:
    """Blocks are large values: few of them may stand in one Arrow batch between Spark and Python."""
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = str(session.conf.get(key, "10000"))
    session.conf.set(key, "8")
    try:
        yield
    finally:
        session.conf.set(key, before)


def _collect(frame: DataFrame, count: int) -> list[Any]:
    table = frame.toArrow()
    out: list[Any] = [None] * count
    seen = 0
    failures: list[LakeIdxError] = []
    for number, ok, payload in zip(*(table.column(c).to_pylist() for c in ("number", "ok", "result")), strict=True):
        value = pickle.loads(payload)
        if not ok:
            failures.append(value)
            continue
        out[number] = value
        seen += 1
    if failures:
        raise failures[0]
    if seen != count:
        raise InternalError(f"{count} tasks were to give a result, {seen} did")
    return out


def _pickled(value: Any) -> bytes:
    return bytes(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]


_settled = False


def _settle() -> None:
    """Spare the collector what a worker has loaded: Spark collects garbage after every task, and modules are a lot of it."""
    global _settled
    if not _settled:
        gc.collect()
        gc.freeze()
        _settled = True


def _settling(
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from function(batches)
        settle()

    # By reference, so that the flag is the worker's and not a copy pickled with the function.
    settle = _settle
    return run


def _result(number: int, ok: bool, value: Any) -> pa.RecordBatch:
    payload = _pickled(value)
    return pa.record_batch(
        [pa.array([number], pa.int64()), pa.array([ok]), pa.array([payload], pa.binary())],
        names=["number", "ok", "result"],
    )


def _map_function(
    task: Callable[[T], R], items: list[T]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    yield _result(number, True, task(items[number]))
                except LakeIdxError as error:
                    yield _result(number, False, error)

    return run


def _split_function(
    split: Callable[[T], Iterable[Block]], items: list[T], tasks: list[int]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    for block in split(items[number]):
                        yield from _encode(block, tasks[block.target])
                except LakeIdxError as error:
                    # Every reduce task would do; the first one raises it.
                    yield _row(0, _ERROR_TARGET, number, 0, _pickled(error))

    return run


def _encode(block: Block, task: int) -> Iterator[pa.RecordBatch]:
    rows = block.rows
    pieces = max(1, -(-rows.nbytes // BLOCK_BYTES))
    length = max(1, -(-rows.num_rows // pieces))
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))
    for piece, start in enumerate(range(0, max(rows.num_rows, 1), length)):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
            writer.write_table(rows.slice(start, length))
        yield _row(task, block.target, block.order, piece, sink.getvalue())


def _row(task: int, target: int, order: int, piece: int, payload: pa.Buffer | bytes) -> pa.RecordBatch:
    buffer = pa.py_buffer(payload) if isinstance(payload, bytes) else payload
    offsets = pa.py_buffer(pa.array([0, buffer.size], pa.int32()).buffers()[1])
    binary = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, buffer])
    numbers = [pa.array([v], pa.int32()) for v in (task, target, order, piece)]
    return pa.record_batch([*numbers, binary], names=["task", "target", "ord", "piece", "payload"])


def _combine_function(
    combine: Callable[[int, Iterator[Block]], R],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, int, pa.Buffer]]:
        for batch in batches:
            targets, orders = batch.column("target").to_pylist(), batch.column("ord").to_pylist()
            payloads = batch.column("payload")
            for i, (target, order) in enumerate(zip(targets, orders, strict=True)):
                yield target, order, payloads[i].as_buffer()

    def blocks(group: Iterator[tuple[int, int, pa.Buffer]]) -> Iterator[Block]:
        for target, order, payload in group:
            yield Block(target, order, pa.ipc.open_stream(payload).read_all())

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        failed = False
        for target, group in groupby(rows(batches), key=lambda row: row[0]):
            if target == _ERROR_TARGET:
                failed = True
                for _, number, payload in group:
                    yield _result(number, False, pickle.loads(payload))
            elif failed:
                # The stage has failed; what this task would write, nobody would use.
                for _ in group:
                    pass
            else:
                try:
                    yield _result(target, True, combine(target, blocks(group)))
                except LakeIdxError as error:
                    yield _result(target, False, error)

    return run
