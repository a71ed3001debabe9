"""The block shuffle on Spark: same results as in one process, one exchange of binary blocks, errors and retries."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakeidx.batch.context import make_context
from lakeidx.errors import CorruptFileError, LakeIdxError, UnavailableError
from lakeidx.spark import runner as runner_module
from lakeidx.spark.runner import TASK_WEIGHT, TASKS_PER_SLOT, SparkRunner, local_folder, session_slots, task_count
from lakeidx.tasks.blocks import block_folder
from lakeidx.tasks.routed_rows import Block, RoutedRows, pack_targets
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.shuffles import Tasks
from tests.kit.small_tables import content, make_table, rows
from tests.kit.upserts import upsert_table
from tests.spark.dying_runner import DyingRunner

pytestmark = pytest.mark.spark


@pytest.fixture(params=["files", "exchange"])
def runner(spark: SparkSession, request: pytest.FixtureRequest) -> SparkRunner:
    """Blocks in files, as with any local master; and through Spark's own shuffle, as on clusters."""
    made = SparkRunner(spark)
    if request.param == "exchange":
        made._local = None
    return made


def left_folders(spark: SparkSession) -> list[str]:
    """Folders of blocks of this session that are there."""
    place = local_folder(spark)
    assert place is not None
    return [f.name for f in Path(place).glob(f"lakeidx-shuffle-{os.getpid()}-*")]


def make_split(targets: int) -> Callable[[int], Iterator[RoutedRows]]:
    def split(item: int) -> Iterator[RoutedRows]:
        rng = np.random.default_rng(item)
        values = pa.table({"v": rng.integers(0, 99, 50), "s": pa.array([f"é{item}"] * 50).dictionary_encode()})
        where = rng.integers(0, targets, 50)
        yield RoutedRows(item, values, where.astype(np.int32))

    return split


def make_combine() -> Callable[[int, Iterator[Block]], Any]:
    def combine(target: int, blocks: Iterator[Block]) -> Any:
        found = list(blocks)
        return (
            target,
            [b.order for b in found],
            [b.rows.to_pylist() for b in found],
            all(b.target == target for b in found),
        )

    return combine


def test_the_same_results_as_in_one_process(spark: SparkSession, runner: SparkRunner) -> None:
    arguments = (Tasks(make_split(5), make_combine()), list(range(7)))
    local = LocalRunner(2).shuffle(*arguments, targets=range(5), weights=[1, 5, 2, 2, 9], label="t")
    there = runner.shuffle(*arguments, targets=range(5), weights=[1, 5, 2, 2, 9], label="t")
    assert there == local
    assert all(ok for _, _, _, ok in there)
    assert [orders for _, orders, _, _ in there] == [sorted(o) for _, o, _, _ in there]
    assert runner.map(lambda n: n * n, list(range(9)), label="t") == [n * n for n in range(9)]
    assert runner.map(lambda n: n, [], label="t") == []
    assert left_folders(spark) == []


def test_the_settings_of_the_session_are_the_callers(spark: SparkSession, runner: SparkRunner) -> None:
    """Tasks see them: one was set for the time of a shuffle, and two threads could leave it so."""
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"

    def combine(target: int, blocks: Iterator[Block]) -> Any:
        context = TaskContext.get()
        return len(list(blocks)), context and context.getLocalProperty(key)

    before = str(spark.conf.get(key))
    spark.conf.set(key, "0")
    try:
        found = runner.shuffle(
            Tasks(make_split(2), combine), list(range(20)), targets=range(2), weights=[1, 1], label="t"
        )
        assert found == [(20, "0"), (20, "0")]
        assert spark.conf.get(key) == "0"
    finally:
        spark.conf.set(key, before)


def test_workers_begin_with_lakeidx_loaded(spark: SparkSession) -> None:
    def parent(_: int) -> bytes:
        return Path(f"/proc/{os.getppid()}/cmdline").read_bytes()

    for command in SparkRunner(spark).map(parent, [1, 2], label="t"):
        assert b"lakeidx.spark.workers.daemon" in command


def test_what_many_items_and_targets_are_goes_with_the_rows(runner: SparkRunner) -> None:
    padding = bytes(100_000)

    def split(item: tuple[int, bytes]) -> Iterator[RoutedRows]:
        yield from make_split(5)(item[0])

    def combine(target: tuple[int, bytes], blocks: Iterator[Block]) -> Any:
        return len(target[1]), make_combine()(target[0], blocks)

    items, targets = [(n, padding) for n in range(7)], [(n, padding) for n in range(5)]
    found = runner.shuffle(Tasks(split, combine), items, targets=targets, weights=[1, 5, 2, 2, 9], label="t")
    local = LocalRunner(1).shuffle(Tasks(split, combine), items, targets=targets, weights=[1, 5, 2, 2, 9], label="t")
    assert found == local
    assert [size for size, _ in found] == [len(padding)] * 5
    assert runner.map(len, [padding] * 5, label="t") == [len(padding)] * 5


@pytest.mark.parametrize("items", [[], [0], [0, 1, 2]])
@pytest.mark.parametrize("padding", [1, 100_000])
def test_targets_without_rows_are_combined_as_in_one_process(
    runner: SparkRunner, items: Sequence[int], padding: int
) -> None:
    """Also where nothing at all is sent, and whether what the targets are goes with the first item or with rows of its own."""

    def split(item: int) -> Iterator[RoutedRows]:
        if item != 1:
            yield RoutedRows(item, pa.table({"v": [item, item]}), np.array([5, 2], np.int32))

    def combine(target: tuple[int, bytes], blocks: Iterator[Block]) -> Any:
        return target[0], len(target[1]), [(b.order, b.target, b.rows.column("v").to_pylist()) for b in blocks]

    targets, weights = [(n, bytes(padding)) for n in range(7)], [1, 0, 1, 600_000, 600_000, 600_000, 1]
    local = LocalRunner(1).shuffle(Tasks(split, combine), items, targets=targets, weights=weights, label="t")
    assert runner.shuffle(Tasks(split, combine), items, targets=targets, weights=weights, label="t") == local
    found = [(number, [order for order, _, _ in blocks]) for number, _, blocks in local]
    sent = [item for item in items if item != 1]
    assert found == [(n, sent if n in (2, 5) else []) for n in range(7)]


def test_large_blocks_come_in_pieces_and_in_order(runner: SparkRunner) -> None:
    n = 9_000_000

    def split(item: int) -> Iterator[RoutedRows]:
        yield RoutedRows(item, pa.table({"v": np.arange(item, item + n, dtype=np.int64)}), np.zeros(n, np.int32))

    def combine(target: int, blocks: Iterator[Block]) -> list[tuple[int, int, int]]:
        return [(b.order, b.rows.column("v")[0].as_py(), b.rows.num_rows) for b in blocks]

    (found,) = runner.shuffle(Tasks(split, combine), [0, 1], targets=[0], weights=[1], label="t")
    assert [order for order, _, _ in found] == sorted(order for order, _, _ in found)
    for item in (0, 1):
        pieces = [(first, count) for order, first, count in found if order == item]
        assert len(pieces) == 2
        assert sum(count for _, count in pieces) == n
        assert [first for first, _ in pieces] == sorted(first for first, _ in pieces)


def test_one_exchange_and_what_crosses_it_is_binary(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    frame = SparkRunner(spark).shuffle_frame(
        Tasks(make_split(3), make_combine()), [0, 1], targets=range(3), weights=[1, 1, 1]
    )
    frame.explain(mode="simple")
    plan = capsys.readouterr().out
    exchanges = [line for line in plan.splitlines() if "Exchange" in line]
    assert len(exchanges) == 1, plan
    # The columns of the exchange are those of the map below it: four numbers and a block.
    frame.explain(mode="formatted")
    formatted = capsys.readouterr().out
    (section,) = re.findall(r"\(\d+\) Exchange\nInput \[(\d+)\]: \[(.*)\]", formatted)
    assert section[0] == "5"
    assert [re.sub(r"#\d+L?", "", name) for name in section[1].split(", ")] == [
        "task",
        "group",
        "ord",
        "piece",
        "payload",
    ]


def test_errors_of_lakeidx_arrive_as_they_are(spark: SparkSession, runner: SparkRunner) -> None:
    def bad(item: int) -> int:
        if item == 3:
            raise CorruptFileError("cannot be read", path="f.parquet", offset=7)
        return item

    def bad_split(item: int) -> Iterator[RoutedRows]:
        yield RoutedRows(item, pa.table({"v": [bad(item)]}), np.zeros(1, np.int32))

    def bad_combine(target: int, blocks: Iterator[Block]) -> int:
        return bad(target + 2)

    for call in (
        lambda: runner.map(bad, [1, 2, 3], label="t"),
        lambda: runner.shuffle(
            Tasks(bad_split, make_combine()), [1, 2, 3], targets=range(2), weights=[1, 1], label="t"
        ),
        lambda: runner.shuffle(Tasks(make_split(2), bad_combine), [1], targets=range(2), weights=[1, 1], label="t"),
    ):
        with pytest.raises(CorruptFileError, match=r"f\.parquet at byte 7: cannot be read") as caught:
            call()
        assert (caught.value.path, caught.value.offset) == ("f.parquet", 7)
        assert left_folders(spark) == []


def test_other_errors_are_sparks_after_its_retries(spark: SparkSession, tmp_path: Path) -> None:
    tries = str(tmp_path / "tries")

    def broken(item: int) -> int:
        with open(tries, "a") as f:
            f.write("x")
        raise RuntimeError("no such luck")

    with pytest.raises(PySparkException, match="no such luck") as caught:
        SparkRunner(spark).map(broken, [1], label="t")
    assert not isinstance(caught.value, LakeIdxError)
    assert Path(tries).read_text() == "xxx"


def dying(marks: str) -> Callable[[str], None]:
    """Return what ends the worker of the first split and of the first combine. Pickled by value."""

    def die_once(mark: str) -> None:
        if mark.endswith(" task"):
            return
        try:
            os.close(os.open(f"{marks}/{mark}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    return die_once


@pytest.mark.parametrize("damage", ["short", "gone"])
def test_blocks_that_are_lost_end_the_batch(spark: SparkSession, damage: str) -> None:
    """And no row of them is left out: the error is lakeidx's own, and says what has happened."""
    place, driver = local_folder(spark), os.getpid()

    def combine(target: int, blocks: Iterator[Block]) -> int:
        for file in Path(str(place)).glob(f"lakeidx-shuffle-{driver}-*/*.blocks"):
            if damage == "short":
                os.truncate(file, 100)
            else:
                file.unlink()
        return sum(b.rows.num_rows for b in blocks)

    with pytest.raises(
        UnavailableError, match=r"\.blocks.*: (the shuffle file is cut short|cannot read the shuffle file)"
    ):
        SparkRunner(spark).shuffle(Tasks(make_split(1), combine), range(3), targets=[0], weights=[600_000], label="t")
    assert left_folders(spark) == []


DIES = """
import os, signal, sys
import numpy as np, pyarrow as pa
from lakeidx.spark.runner import SparkRunner
from lakeidx.spark.runner import get_session
from lakeidx.tasks.routed_rows import RoutedRows
from tests.kit.shuffles import Tasks
session = get_session(master="local[1]", config={"spark.local.dir": sys.argv[1], "spark.log.level": "OFF"})
driver = os.getpid()
split = lambda item: [RoutedRows(item, pa.table({"v": [item]}), np.zeros(1, np.int32))]
combine = lambda target, blocks: os.kill(driver, signal.SIGKILL)
SparkRunner(session).shuffle(Tasks(split, combine), [0, 1], targets=[0], weights=[1], label="t")
"""


def test_what_a_killed_driver_left_goes_with_the_next_batch(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", DIES, str(tmp_path)], check=False, timeout=HANGS_SECONDS)
    assert done.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob("lakeidx-shuffle-*/*.blocks"))) == 2
    with block_folder(str(tmp_path)) as folder:
        assert [str(f) for f in tmp_path.glob("lakeidx-shuffle-*")] == [folder]


def test_killed_workers_are_replaced_and_each_row_lands_once(
    spark: SparkSession, runner: SparkRunner, tmp_path: Path
) -> None:
    table = make_table(tmp_path)
    upsert_table(make_context(table.metadata, "first"), rows([(p, k, "old") for p in (1, 2) for k in range(40)]))
    marks = tmp_path / "marks"
    marks.mkdir()
    dies = DyingRunner(runner, dying(str(marks)))
    changed = [(p, k, "new") for p in (2, 3) for k in range(20, 60)]
    result = upsert_table(make_context(table.metadata, "second", runner=dies), rows(changed))
    assert sorted(m.name for m in marks.iterdir()) == ["index_write combine", "index_write split"]
    wanted: dict[tuple[int, int], str | None] = {(p, k): "old" for p in (1, 2) for k in range(40)}
    wanted.update({(p, k): v for p, k, v in changed})
    assert content(table) == wanted
    assert (result.assign.inserts, result.assign.updates) == (60, 20)
    assert table.metadata.snapshot_ids() == [1, 2]
    assert left_folders(spark) == []


def test_slots_and_tasks(spark: SparkSession) -> None:
    assert session_slots(spark) == runner_module._slots_by_query(spark) == 2
    assert task_count(10, 2) == 2
    assert task_count(5 * TASK_WEIGHT, 2) == 5
    assert task_count(10**9, 2) == 2 * TASKS_PER_SLOT
    assert sorted(pack_targets([5, 1, 1, 3], 2)) == [0, 0, 1, 1] or sorted(pack_targets([5, 1, 1, 3], 2)) == [
        0,
        1,
        1,
        1,
    ]


def test_the_pages_of_spark_name_stage_batch_and_table(spark: SparkSession, tmp_path: Path) -> None:
    """Each job of a batch has its stage for a description, and the thread has its own again when the stage is over."""
    context = spark.sparkContext
    context.setJobDescription("mine")
    table = make_table(tmp_path)
    batch = make_context(table.metadata, "b1", runner=SparkRunner(spark), driver_bytes=0)
    try:
        upsert_table(batch, rows([(1, k, "a") for k in range(9)]))
        assert context.getLocalProperty("spark.job.description") == "mine"
    finally:
        context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
    wanted = {
        f"lakeidx bucket_assignment: batch b1 of {table.uri}",
        f"lakeidx index_write: batch b1 of {table.uri}: 9 rows to 2 buckets (9 inserts, 0 updates, 0 deletes)",
    }
    texts: set[str] = set()
    end = time.monotonic() + HANGS_SECONDS
    while time.monotonic() < end:
        jobs = spark._jsparkSession.sparkContext().statusStore().jobsList(None)
        found = [jobs.apply(i).description() for i in range(jobs.size())]
        texts = {text.get() for text in found if text.isDefined()}
        if wanted <= texts:
            return
        # What Spark's pages show comes a moment after the jobs.
        time.sleep(0.1)
    raise AssertionError(texts)
