"""The benchmark of what must hold past one machine measures what it says, on small tables."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.scale import assignment, checks, index_files, key_state, shuffle
from bench.scale.figure import Figure, SlowStore
from lakeidx.storage.local import LocalStore

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No new processes, and a store that waits for nothing."""

    def here(work: Callable[..., Any], *arguments: Any) -> Any:
        return work(*arguments)

    for module in (assignment, checks, key_state):
        monkeypatch.setattr(module, "in_new_process", here)
    monkeypatch.setattr("bench.scale.figure.REQUEST_SECONDS", 0.0)


def test_a_slow_store_counts_and_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("bench.scale.figure.REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(time, "sleep", waited.append)
    store = SlowStore(LocalStore(str(tmp_path)))
    store.put(f"{tmp_path}/a", bytes(100))
    assert store.get(f"{tmp_path}/a") == bytes(100)
    assert len(store.get_ranges(f"{tmp_path}/a", [(i, 1) for i in range(40)])) == 40
    assert store.total.requests == 42
    # Sixteen ranges at a time.
    assert waited == [0.5, 0.5, 1.5]


def test_assignment_reads_each_index_file_once(tmp_path: Path) -> None:
    driver, tasks = assignment.measure(12, tmp_path)
    assert driver.case.startswith("assignment, 12 buckets")
    assert tasks.case == f"{driver.case}, 4 tasks"
    # Beside index files: the manifests, the key columns and reports of the batch.
    for figure in (driver, tasks):
        assert figure.requests is not None
        assert 12 < figure.requests < 12 + 20


def test_rows_that_are_lost_in_a_shuffle_end_the_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shuffle, "ROWS", 800)
    monkeypatch.setattr(shuffle, "BUCKETS", 100)
    few, many, sent = shuffle.measure(tmp_path)
    assert few.mib is not None
    assert many.mib is not None
    assert 0 < few.mib < many.mib < 1
    assert sent.mib is not None
    assert 0 < sent.mib < 0.2
    monkeypatch.setattr(shuffle._Tasks, "combine", lambda self, target, blocks: 0)
    with pytest.raises(AssertionError, match="lost"):
        shuffle.measure(tmp_path)


def test_index_files_come_to_a_task_in_one_block_of_each_map_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_files, "HASHES", 500)
    monkeypatch.setattr(index_files, "FILES", 512)
    monkeypatch.setattr(index_files, "TASKS", 20)
    monkeypatch.setattr(index_files, "TASK_ROWS", 50_000)
    sent, taken, whole = index_files.measure(tmp_path)
    assert sent.case.startswith("256 of 512 index files to 20 tasks")
    assert sent.cpu_seconds is not None
    assert taken.cpu_seconds is not None
    assert whole.cpu_seconds == 2 * sent.cpu_seconds + 20 * taken.cpu_seconds
    assert sent.mib is not None
    assert whole.mib == 2 * sent.mib
    # Hashes are random, so compression gains nothing; what stands around them is little.
    assert 4 * 256 * 500 < sent.mib * (1 << 20) < 2 * 4 * 256 * 500
    monkeypatch.setattr("bench.scale.index_files.SentIndex.hits", lambda *_, **__: [])
    with pytest.raises((AssertionError, ValueError)):
        index_files.measure(tmp_path / "again")


def test_the_key_state_is_asked_for_a_share_of_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_state, "ASKED", 1_000)
    monkeypatch.setattr(key_state, "WARM", 1_000)
    found = {f.case: f for f in key_state.measure(40_000, tmp_path)}
    asked = found["fresh process, 30 ms a request, 1,000 of 40,000 keys"]
    assert asked.requests is not None
    assert asked.read_share is not None
    assert asked.requests < 30
    assert 0 < asked.read_share < 0.5
    small, large = (found[f"manifest of the key state of {n:,} keys"].mib for n in (40_000, 4_000_000))
    assert small is not None
    assert large is not None
    assert small < large < 100 * small


def test_checks_are_set_beside_their_upsert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "BUCKETS", 10)
    upsert, checked = checks.measure(5_000, tmp_path)
    assert upsert.cpu_seconds is not None
    assert checked.cpu_seconds is not None
    assert checked.times_upsert == checked.cpu_seconds / upsert.cpu_seconds


def test_a_figure_has_what_its_case_has() -> None:
    assert Figure("a", 1.0, mib=0.12345).to_json() == {"case": "a", "seconds": 1.0, "mib": 0.123}
