"""Tasks in processes: what they give is what threads give, rows lie in files meanwhile, and nothing is left when they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest

from lakeidx.errors import CorruptFileError, InternalError
from lakeidx.tasks.process_runner import ProcessRunner, process_count
from lakeidx.tasks.routed_rows import Block, RoutedRows
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.shuffles import Tasks

pytestmark = pytest.mark.slow

TARGETS = 40


def split(item: int) -> Iterator[RoutedRows]:
    """Two blocks of 50 rows, the later one first; item 3 has none."""
    rng = np.random.default_rng(item)
    for order in (2 * item + 1, 2 * item) if item != 3 else ():
        rows = pa.table({"v": rng.integers(0, 99, 50), "s": pa.array([f"é{item}"] * 50).dictionary_encode()})
        yield RoutedRows(order, rows, rng.integers(0, TARGETS - 1, 50).astype(np.int32))


def combine(target: str, blocks: Iterator[Block]) -> tuple[str, list[tuple[int, list[int], list[str]]], int]:
    found = [(b.order, b.rows.column("v").to_pylist(), b.rows.column("s").to_pylist()) for b in blocks]
    return target, found, os.getpid()


def fail(item: int) -> int:
    if item == 2:
        raise CorruptFileError("it is damaged", path="a/b")
    return item


def end(item: int) -> int:
    if item == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


ARRAYS, MIB = 200, 1 << 20
#: What stays in use above what is freed, so that the C library does not give it back by itself.
PINS: list[np.ndarray] = []


def hold_much(_: str, blocks: Iterator[Block]) -> int:
    """Free what a process keeps for later."""
    assert [*blocks] == []
    # One large array that is freed makes the C library keep smaller ones from then on.
    large = np.ones(16 * MIB, np.uint8)
    del large
    arrays = [np.ones(MIB, np.uint8) for _ in range(ARRAYS)]
    PINS.extend(np.ones(MIB // 4, np.uint8) for _ in range(4))
    arrays.clear()
    return resident(0)


def resident(_: int) -> int:
    return int(psutil.Process().memory_info().rss) // MIB


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessRunner]:
    with ProcessRunner(2, folder=str(tmp_path_factory.mktemp("blocks"))) as made:
        yield made


@pytest.mark.parametrize("heavy", [1, 600_000])
def test_a_shuffle_gives_what_threads_give(runner: ProcessRunner, heavy: int) -> None:
    """Targets of one group, and such as are heavy enough to be alone; the last one gets no rows."""
    weights = [heavy if target % 7 == 0 else 5 for target in range(TARGETS)]
    made = [
        r.shuffle(
            Tasks(split, combine), range(6), targets=[f"t{n}" for n in range(TARGETS)], weights=weights, label="x"
        )
        for r in (LocalRunner(1), runner)
    ]
    assert [m[:2] for m in made[0]] == [m[:2] for m in made[1]]
    assert made[1][TARGETS - 1][1] == []
    processes = {m[2] for m in made[1]}
    assert os.getpid() not in processes
    assert len(processes) <= 2
    assert list(Path(str(runner._folder)).iterdir()) == []


def test_what_a_reduce_task_has_freed_goes_back(tmp_path: Path) -> None:
    with ProcessRunner(1, folder=str(tmp_path)) as runner:
        held = runner.shuffle(Tasks(split, hold_much), [], targets=["a"], weights=[1], label="x")[0]
        left = runner.map(resident, [0], label="x")[0]
    assert held - left > ARRAYS // 2


def test_nothing_to_do(runner: ProcessRunner) -> None:
    assert runner.map(fail, [], label="x") == []
    assert runner.shuffle(Tasks(split, combine), [1], targets=[], weights=[], label="x") == []
    assert runner.shuffle(Tasks(split, combine), [], targets=["a"], weights=[1], label="x")[0][:2] == ("a", [])


def test_an_error_of_a_task_is_raised_as_it_is(runner: ProcessRunner) -> None:
    with pytest.raises(CorruptFileError, match="it is damaged") as raised:
        runner.map(fail, range(4), label="x")
    assert raised.value.path == "a/b"
    assert runner.map(fail, [0, 1, 3], label="x") == [0, 1, 3]


def test_a_process_that_is_ended_from_outside_is_an_error() -> None:
    with ProcessRunner(1) as made, pytest.raises(InternalError, match="index_write: a worker process was killed"):
        made.map(end, range(4), label="index_write")


ORPHANS = """
import os
from lakeidx.tasks.process_runner import ProcessRunner
if __name__ == "__main__":
    runner = ProcessRunner(1)
    print(runner.map(abs, [-1], label="x"), *runner._pool._processes, flush=True)
    os.kill(os.getpid(), 9)
"""


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    script = tmp_path / "caller.py"
    script.write_text(ORPHANS, encoding="utf-8")
    said = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=HANGS_SECONDS
    )
    made, pid = said.stdout.split()
    assert made == "[1]"
    end = time.monotonic() + HANGS_SECONDS
    while time.monotonic() < end:
        if not psutil.pid_exists(int(pid)) or psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.1)
    raise AssertionError(f"process {pid} is there still")


def test_processes_by_what_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeidx.tasks.process_runner.available_cores", lambda: 8)
    for size, count in ((1 << 20, 1), (3 << 30, 3), (64 << 30, 8)):
        monkeypatch.setattr("lakeidx.tasks.process_runner.available_bytes", lambda size=size: size)
        assert process_count() == count
