"""Run stage functions as Spark tasks. Rows cross Spark's shuffle as Arrow blocks, never as rows.

A map task yields one block per group of targets as a binary column; Spark moves the few binary rows to the task that owns the
group and sorts them there by (group, order); the reduce task reads them back as Arrow and cuts them by target. There is one
exchange. With a local master blocks lie in files, and where they lie crosses it in their place (`lakeidx.tasks.blocks`).
Elsewhere Spark bounds what a task takes in at a time by bytes (``spark.sql.execution.arrow.maxBytesPerBatch``, 64 MiB).

Items and targets travel as rows when they are many, each to its own task: inside the function every task would read them all.

Errors of lakeidx inside a task come back as values and are raised in the driver as they are; anything else fails the Spark
task, so that Spark's own retries and messages apply. Spark's pages name each job by its stage (`lakeidx.spark.jobs`).

Spark sessions for lakeidx: local, a master URL, or Spark Connect, by configuration alone.

Only settings that the block shuffle needs are set, each with its reason; everything else is the user's.
"""

from __future__ import annotations

import os
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakeidx.errors import InternalError, InvalidInputError, LakeIdxError, UnavailableError
from lakeidx.spark.jobs import described, is_connect
from lakeidx.spark.workers.python import python_errors, runs_lakeidx
from lakeidx.tasks.blocks import (
    BlockWriter,
    block_folder,
    decode_block,
    encode_block,
    release_free_memory,
    take_block,
)
from lakeidx.tasks.limits import available_cores
from lakeidx.tasks.routed_rows import (
    Block,
    GroupBlock,
    RoutedRows,
    TargetGroups,
    blocks_by_target,
    cut_rows,
    group_targets,
)
from lakeidx.tasks.runner import Shuffle

T = TypeVar("T")
R = TypeVar("R")
U = TypeVar("U")

#: Reduce tasks per slot of the cluster: more tasks even out skew, fewer save start-up.
TASKS_PER_SLOT = 4

#: Weight (rows) worth a reduce task of its own; small batches get no more tasks than slots.
TASK_WEIGHT = 400_000

RESULT_SCHEMA = "number long, ok boolean, result binary"
_BLOCK_SCHEMA = "task int, group int, ord int, piece int, payload binary"
_BLOCK_COLUMNS = pa.schema([*((n, pa.int32()) for n in ("task", "group", "ord", "piece")), ("payload", pa.binary())])
_ITEM_SCHEMA = pa.schema([("task", pa.int32()), ("number", pa.int64()), ("item", pa.binary())])
_ERROR_GROUP = -1
#: Order of the row that says what the targets of a group are: before its blocks.
_TARGET_ITEMS = -1

#: Bytes of pickled items that a function may carry; every task reads them all.
_CLOSURE_BYTES = 128 << 10

#: Tasks of a map per slot of the cluster; more items than that share tasks, heaviest first as they come.
_MAP_TASKS_PER_SLOT = 64
_UNKNOWN = (
    "how many tasks this Spark cluster runs at a time is not known: set spark.cores.max (standalone), or spark.executor.instances"
    " (spark.dynamicAllocation.maxExecutors with dynamic allocation) and spark.executor.cores; or give the number (--parallelism)"
)


class SparkRunner:
    """A `lakeidx.tasks.runner.Runner` on a Spark session (classic or Connect).

    session       the session
    parallelism   slots of the cluster; None = what `session_slots` finds
    """

    def __init__(self, session: SparkSession, *, parallelism: int | None = None) -> None:
        self.session = session
        self._parallelism = parallelism or session_slots(session)
        self._local = local_folder(session)

    @property
    def parallelism(self) -> int:
        """Slots of the cluster."""
        return self._parallelism

    def map(self, task: Callable[[T], R], items: Sequence[T], *, label: str) -> list[R]:
        """See `lakeidx.tasks.runner.Runner.map`."""
        if not items:
            return []
        rows, carried = self._items(items)
        frame = rows.mapInArrow(_map_function(task, carried), RESULT_SCHEMA)
        with described(self.session, label), python_errors():
            return _collect(frame, len(items))

    def shuffle(
        self, work: Shuffle[T, U, R], items: Sequence[T], *, targets: Sequence[U], weights: Sequence[int], label: str
    ) -> list[R]:
        """See `lakeidx.tasks.runner.Runner.shuffle`."""
        if not weights:
            return []
        way = nullcontext() if self._local is None else block_folder(self._local)
        with way as folder, described(self.session, label), python_errors():
            frame = self.shuffle_frame(work, items, targets=targets, weights=weights, folder=folder)
            return _collect(frame, len(weights))

    def shuffle_frame(
        self,
        work: Shuffle[T, U, R],
        items: Sequence[T],
        *,
        targets: Sequence[U],
        weights: Sequence[int],
        folder: str | None = None,
    ) -> DataFrame:
        """Build the query of a shuffle, one row per target: its plan holds one exchange of binary blocks.

        folder   that all tasks have, for files of blocks: where these lie then crosses the exchange in their place

        What the targets of a group are goes before its blocks, so that a target without rows is combined, too: the first item
        sends it, or rows of the driver when it is much. Items that are many have an exchange before.
        """
        groups = group_targets(weights, task_count(sum(weights), self._parallelism))
        of_groups = list(_group_rows([_pickled(target) for target in targets], groups))
        carries = len(items) > 0 and sum(rows.nbytes for rows in of_groups) <= _CLOSURE_BYTES
        rows, carried = self._items(items)
        sends = _split_function(work.split, carried, groups, of_groups if carries else [], folder)
        blocks = rows.mapInArrow(sends, _BLOCK_SCHEMA)
        if not carries:
            blocks = blocks.union(self.session.createDataFrame(pa.Table.from_batches(of_groups)))
        moved = _to_tasks(blocks, groups.tasks).sortWithinPartitions("group", "ord", "piece")
        return moved.mapInArrow(_combine_function(work.combine, folder), RESULT_SCHEMA)

    def _items(self, items: Sequence[Any]) -> tuple[DataFrame, list[bytes] | None]:
        """Make one row per item; return also the pickled items that the function has to carry, None when the rows do."""
        payloads = [_pickled(item) for item in items]
        if sum(map(len, payloads)) <= _CLOSURE_BYTES:
            return self.session.range(0, len(items), 1, numPartitions=len(items)), payloads
        # Spread over tasks in turn.
        count = min(len(payloads), self._parallelism * _MAP_TASKS_PER_SLOT)
        numbers = range(len(payloads))
        columns = [[n % count for n in numbers], list(numbers), payloads]
        table = pa.table([pa.array(c, f.type) for c, f in zip(columns, _ITEM_SCHEMA, strict=True)], schema=_ITEM_SCHEMA)
        return _to_tasks(self.session.createDataFrame(table), count).select("number", "item"), None


def task_count(weight: int, slots: int) -> int:
    """Return the number of reduce tasks for a shuffle of that weight, 1 to TASKS_PER_SLOT per slot."""
    return max(slots, min(slots * TASKS_PER_SLOT, weight // TASK_WEIGHT))


def _to_tasks(blocks: DataFrame, count: int) -> DataFrame:
    # Unlike repartition, which hashes the number, it sends a block to the very task that was chosen for its target.
    return blocks.repartitionById(count, "task")


def _collect(frame: DataFrame, count: int) -> list[Any]:
    rows = collected(frame)
    found = dict(rows)
    if not len(rows) == len(found) == count:
        raise InternalError(f"{count} tasks should have returned a result, {len(rows)} did")
    return [found[number] for number in range(count)]


def collected(frame: DataFrame) -> list[tuple[int, Any]]:
    """Run a query whose rows are of `result_row`; return numbers and values, or raise the first error among them."""
    rows = frame.toArrow().select(["number", "ok", "result"]).to_pydict().values()
    found = [(n, ok, pickle.loads(value)) for n, ok, value in zip(*rows, strict=True)]  # noqa: S301 - pickled by this job, sent by Spark
    for _, ok, value in found:
        if not ok:
            raise value
    return [(number, value) for number, _, value in found]


def _pickled(value: Any) -> bytes:
    return bytes(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]


def result_row(number: int, ok: bool, value: Any) -> pa.RecordBatch:
    """Return what a task says: a value, or an error that the driver raises as it is."""
    payload = _pickled(value)
    return pa.record_batch(
        [pa.array([number], pa.int64()), pa.array([ok]), pa.array([payload], pa.binary())],
        names=["number", "ok", "result"],
    )


def _numbered(batch: pa.RecordBatch, payloads: list[bytes] | None) -> Iterator[tuple[int, Any]]:
    """Yield the items of a batch of rows, with their numbers.

    payloads   the pickled items by number; None when each item is in a column of its own row
    """
    numbers = batch.column(0).to_pylist()
    found = [payloads[n] for n in numbers] if payloads is not None else batch.column(1).to_pylist()
    for number, payload in zip(numbers, found, strict=True):
        yield number, pickle.loads(payload)  # noqa: S301 - pickled by this job, sent by Spark


def _map_function(
    task: Callable[[T], R], payloads: list[bytes] | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Run the task on items; see `_numbered`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, item in _numbered(batch, payloads):
                try:
                    yield result_row(number, True, task(item))
                except LakeIdxError as error:
                    yield result_row(number, False, error)

    return run


def _split_function(
    split: Callable[[T], Iterable[RoutedRows]],
    payloads: list[bytes] | None,
    groups: TargetGroups,
    of_groups: Sequence[pa.RecordBatch],
    folder: str | None,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Split items.

    of_groups   what the first item sends as well
    folder      for files of blocks; None: they are sent themselves
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with _sender(folder) as send:
            for batch in batches:
                for number, item in _numbered(batch, payloads):
                    if number == 0:
                        yield from of_groups
                    try:
                        for routed in split(item):
                            for block in cut_rows(routed, groups):
                                for piece, payload in enumerate(send(block, groups)):
                                    task = int(groups.task_of[block.group])
                                    yield _row(task, block.group, block.order, piece, payload)
                    except LakeIdxError as error:
                        # Every reduce task would do; the first one raises it.
                        yield _row(0, _ERROR_GROUP, number, 0, _pickled(error))

    return run


@contextmanager
def _sender(folder: str | None) -> Iterator[Callable[[GroupBlock, TargetGroups], Iterator[pa.Buffer | bytes]]]:
    """Return the function that turns a block into what is sent: its bytes, or their place in a file of this attempt of the task."""
    if folder is None:
        yield encode_block
        return
    with BlockWriter(folder) as writer:

        def send(block: GroupBlock, groups: TargetGroups) -> Iterator[bytes]:
            for start, size in writer.write(block, groups):
                yield f"{writer.name} {start} {size}".encode()

        yield send


def _sent(payload: pa.Buffer, folder: str | None) -> pa.Buffer:
    """Return the bytes of a block from what `_sender` made of it."""
    if folder is None:
        return payload
    name, start, size = payload.to_pybytes().decode().split(" ")
    return take_block(folder, name, int(start), int(size))


def _group_rows(payloads: Sequence[bytes], groups: TargetGroups) -> Iterator[pa.RecordBatch]:
    """Yield one row per group: what its targets are."""
    of_group: list[dict[int, bytes]] = [{} for _ in groups.task_of]
    for target, group in enumerate(groups.group_of.tolist()):
        of_group[group][target] = payloads[target]
    for group, (task, found) in enumerate(zip(groups.task_of.tolist(), of_group, strict=True)):
        yield _row(task, group, _TARGET_ITEMS, 0, pickle.dumps(found))


def _row(task: int, group: int, order: int, piece: int, payload: pa.Buffer | bytes) -> pa.RecordBatch:
    buffer = pa.py_buffer(payload) if isinstance(payload, bytes) else payload
    offsets = pa.py_buffer(pa.array([0, buffer.size], pa.int32()).buffers()[1])
    binary = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, buffer])
    numbers = [pa.array([v], pa.int32()) for v in (task, group, order, piece)]
    return pa.record_batch([*numbers, binary], schema=_BLOCK_COLUMNS)


def _combine_function(
    combine: Callable[[U, Iterator[Block]], R], folder: str | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Combine targets; see `_split_function`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        failed = False
        for group, received in groupby(_received(batches), key=lambda row: row[0]):
            if group == _ERROR_GROUP:
                failed = True
                for _, number, payload in received:
                    yield result_row(number, False, pickle.loads(payload))  # noqa: S301 - pickled by this job, sent by Spark
            elif failed:
                # The stage has failed; what this task would write, no one would use.
                for _ in received:
                    pass
            else:
                known = pickle.loads(next(received)[2])  # noqa: S301 - pickled by this job, sent by Spark
                arrived = (decode_block(of, order, _sent(payload, folder)) for of, order, payload in received)
                for target, blocks in blocks_by_target(arrived, list(known)):
                    try:
                        yield result_row(target, True, combine(pickle.loads(known[target]), blocks))  # noqa: S301 - as above
                    except LakeIdxError as error:
                        yield result_row(target, False, error)
        # Such a task holds much, and there are few of them.
        release_free_memory()

    return run


def _received(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, int, pa.Buffer]]:
    """Return (group, order, payload) of every block of a reduce task."""
    for batch in batches:
        groups, orders = batch.column("group").to_pylist(), batch.column("ord").to_pylist()
        payloads = batch.column("payload")
        for i, (group, order) in enumerate(zip(groups, orders, strict=True)):
            yield group, order, payloads[i].as_buffer()


def session_slots(session: SparkSession) -> int:
    """Return the number of tasks the session runs at a time.

    errors   InvalidInputError when dynamic allocation has no upper limit, or Spark knows of no slot: says what to set
    """
    master = session.conf.get("spark.master", None) or ""
    if master == "local":
        return 1
    if master.startswith("local["):
        inside = master[len("local[") : -1].split(",")[0]
        return available_cores() if inside == "*" else int(inside)
    per_task = int(session.conf.get("spark.task.cpus", None) or 1)
    cores = _configured_cores(session, master)
    slots = cores // per_task if cores is not None else _slots_by_query(session)
    if slots < 1:
        raise InvalidInputError(_UNKNOWN)
    return slots


def _configured_cores(session: SparkSession, master: str) -> int | None:
    """Return the cores of the application by the configuration; None when only Spark knows."""
    most = session.conf.get("spark.cores.max", None)
    if most:
        return int(most)
    # A standalone worker's executor takes all of its cores unless configured otherwise; elsewhere the default is one.
    per_executor = session.conf.get("spark.executor.cores", None) or ("" if master.startswith("spark://") else "1")
    dynamic = (session.conf.get("spark.dynamicAllocation.enabled", None) or "false").lower() == "true"
    executors = session.conf.get(
        "spark.dynamicAllocation.maxExecutors" if dynamic else "spark.executor.instances", None
    )
    if executors and per_executor:
        return int(executors) * int(per_executor)
    if dynamic:
        raise InvalidInputError(_UNKNOWN)
    return None


def _slots_by_query(session: SparkSession) -> int:
    """Ask Spark: a range without a number of partitions gets one for each slot, once an executor has started.

    The count before makes it start one.
    """
    with described(session, "slots: how many tasks run at a time"):
        session.range(1).count()
        return int(session.range(1 << 20).select(sf.spark_partition_id().alias("part")).distinct().count())


def session_runner(master: str | None, remote: str | None, name: str, parallelism: int | None) -> SparkRunner:
    """Return a runner on the session of a master URL or a Spark Connect address; None = as the environment says."""
    return SparkRunner(get_session(master=master, remote=remote, app_name=name), parallelism=parallelism)


#: Settings of sessions that lakeidx makes itself.
_DEFAULTS: dict[str, str] = {
    # Blocks are compressed Arrow IPC already.
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    # Adaptive execution would regroup shuffle partitions whose task each bucket was given on purpose.
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.log.level": "ERROR",
}
#: More settings where driver and executors are one process: nothing else calls it, and it needs no name in the network.
_LOCAL_DEFAULTS: dict[str, str] = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def get_session(
    *,
    master: str | None = None,
    remote: str | None = None,
    app_name: str = "lakeidx",
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Get or start a Spark session.

    master    ``local[*]``, ``spark://host:7077``, ...; None = what spark-submit or the environment says, else local[*]
    remote    Spark Connect address ``sc://host:15002``; None = SPARK_REMOTE when set
    config    further settings, dotted keys
    errors    InvalidInputError when both master and remote are given; UnavailableError when Spark refuses or does not answer
    """
    remote = remote or (os.environ.get("SPARK_REMOTE") if master is None else None)
    if master and remote:
        raise InvalidInputError("give a Spark master or a Spark Connect address, not both")
    # Workers of a local session otherwise take the first python3 on the PATH, which need not be this environment.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    if remote:
        builder = builder.remote(remote)
    else:
        submitted = "SPARK_ENV_LOADED" in os.environ and master is None
        if not submitted:
            builder = builder.master(master or "local[*]")
        for key, value in default_settings(master, submitted=submitted).items():
            builder = builder.config(key, value)
    for key, value in (config or {}).items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except PySparkException as error:
        raise UnavailableError(_no_session(str(error)), path=remote or master) from error


def default_settings(master: str | None, *, submitted: bool) -> dict[str, str]:
    """Return the default settings of a classic session.

    submitted   the master is that of spark-submit, which has its own idea of the driver's address
    """
    local = not submitted and (master or "local").startswith("local")
    return {**_DEFAULTS, **(_LOCAL_DEFAULTS if local else {}), **(_worker_daemon() if local else {})}


def _no_session(said: str) -> str:
    """Return one line on why there is no session; of a failed call its details."""
    found = re.search(r'details = "(.*)"', said)
    hint = "; set SPARK_CONNECT_AUTHENTICATE_TOKEN to the server's token" if "UNAUTHENTICATED" in said else ""
    return f"no Spark session: {found[1] if found else said.strip().partition(chr(10))[0]}{hint}"


def _worker_daemon() -> dict[str, str]:
    """Return the daemon that Spark's workers are forked from, where they run this Python and it has lakeidx by itself."""
    program = os.environ.get("PYSPARK_PYTHON", sys.executable)
    return {"spark.python.daemon.module": "lakeidx.spark.workers.daemon"} if runs_lakeidx(program) else {}


def local_folder(session: SparkSession) -> str | None:
    """Return the folder for temporary files (`spark.local.dir`) of a session whose tasks run on this machine; None for others."""
    if is_connect(session):
        return None
    master = session.conf.get("spark.master", None) or ""
    if master != "local" and not master.startswith("local["):
        return None
    # Spark has a folder of its own in it, and in that one the files that are added to the session.
    jvm = session.sparkContext._jvm
    assert jvm is not None
    return str(Path(jvm.org.apache.spark.SparkFiles.getRootDirectory()).parent.parent)
