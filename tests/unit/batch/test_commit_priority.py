"""A batch that keeps losing commit races is let go first, and a dead one does not stop the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeidx.api.table import Table
from lakeidx.batch import commit_priority as turns
from lakeidx.batch.commit_priority import CommitPriority, PriorityFile
from lakeidx.batch.stages import commit as publish
from lakeidx.batch.upsert import commit_batch
from lakeidx.codec.containers.checksum import unseal
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.table.commit.changes import CommitRequest, CommitResult
from lakeidx.table.metadata import TableMetadata
from lakeidx.tasks.runner import LocalRunner
from tests.kit.small_tables import content, make_table, staged_batch, upsert
from tests.unit.table.commit.test_commit_changes import with_faults


class Clock:
    """Time that passes only by sleeping; `at_sleep` runs whenever somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept = 0
        self.at_sleep = lambda: None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += 1
        self.at_sleep()  # type: ignore[no-untyped-call]


def turn(table: Table, batch_id: str, clock: Clock | None = None) -> CommitPriority:
    clock = clock or Clock()
    return CommitPriority(table.store, table.paths, batch_id, sleep=clock.sleep, clock=clock)


def test_nobody_waits_where_nobody_asked_or_for_other_partitions_or_itself(tmp_path: Path) -> None:
    table, clock = make_table(tmp_path), Clock()
    assert turn(table, "a", clock).wait(("00",)) == 0
    # The first losses ask for nothing.
    turn(table, "a").request(("00",), turns.LOST_BEFORE_PRIORITY - 1, 1)
    assert not table.store.exists(turn(table, "a").path)
    turn(table, "loser").request(("00",), 2, 1)
    assert turn(table, "other", clock).wait(("01",)) == 0
    assert turn(table, "loser", clock).wait(("00",)) == 0
    assert clock.slept == 0


@pytest.mark.parametrize(("asked", "lost"), [(("00", "01"), 2), ((turns.EVERY_PARTITION,), 3)])
def test_others_wait_until_a_batch_or_all_until_a_compaction_is_done(
    tmp_path: Path, asked: tuple[str, ...], lost: int
) -> None:
    table = make_table(tmp_path)
    loser, clock = turn(table, "loser"), Clock()
    assert loser.request(asked, lost, 1)
    clock.at_sleep = lambda: loser.done() if clock.slept == 5 else None
    assert turn(table, "other", clock).wait(("01", "02")) > 0
    assert clock.slept == 5
    assert not table.store.exists(loser.path)


def test_a_silent_batch_is_passed_over_once_and_for_all(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    dead, clock = turn(table, "dead"), Clock()
    dead.request(("00",), 2, 4)
    waited = turn(table, "other", clock).wait(("00",))
    assert 10 + 3 * 4 < waited < 10 + 3 * 4 + 1
    assert turn(table, "third").wait(("00",)) == 0


def test_a_batch_that_tries_again_is_not_taken_for_dead(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    alive, clock = turn(table, "alive"), Clock()
    alive.request(("00",), 2, 0)
    tries = iter(range(3, 6))

    def again() -> None:
        if clock.now > 8 * (clock_round[0] + 1):
            clock_round[0] += 1
            number = next(tries, None)
            alive.done() if number is None else alive.request(("00",), number, 0)

    clock_round = [0]
    clock.at_sleep = again
    # Four rounds of eight seconds: longer than the ten seconds of silence that would end the wait.
    assert 32 < turn(table, "other", clock).wait(("00",)) < 34


def test_two_losers_one_turn(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    first, second = turn(table, "first"), turn(table, "second")
    first.request(("00",), 2, 0)
    second.request(("00",), 2, 0)
    assert PriorityFile.model_validate_json(unseal(table.store.get(first.path))).batch_id == "first"
    second.done()
    assert table.store.exists(first.path)
    first.done()
    assert not table.store.exists(first.path)


def test_a_priority_file_that_cannot_be_read_stops_no_batch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = make_table(tmp_path)
    table.store.put(turn(table, "a").path, b'{"kind": "turn"')
    assert turn(table, "a").wait(("00",)) == 0
    assert not table.store.exists(turn(table, "a").path)
    assert "cannot be read" in caplog.text


def test_a_compaction_that_loses_races_is_let_go_first(tmp_path: Path) -> None:
    """A writer of another partition commits before each of its tries, as long as nobody asks it to wait."""
    table, store = with_faults(make_table(tmp_path))
    for number in range(6):
        upsert(table, [(1, number, "a")])
    other, path, lost = Table.open(table.uri), Path(turn(table, "x").path), list[int]()

    def overtake(verb: str, snapshot: str) -> None:
        if not path.exists():
            lost.append(len(lost))
            upsert(other, [(2, len(lost), "b")])

    store.fail("put_if_absent", "/snapshot/snapshot-", when="before", act=overtake, times=20)
    report = run_compaction(table.metadata, LocalRunner(1), sleep=lambda _: None)
    assert len(lost) == 3
    assert report.buckets == 1
    assert report.rounds == 1
    assert not path.exists()
    assert content(Table.open(table.uri)) == {
        **{(1, number): "a" for number in range(6)},
        **{(2, number): "b" for number in (1, 2, 3)},
    }


@pytest.mark.slow
def test_a_batch_beaten_every_time_asks_and_cleans_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each of its first three commits somebody else changes the same bucket."""
    table = make_table(tmp_path)
    context = staged_batch(table, [(1, k, "slow") for k in range(3)], "slow")
    seen: list[bool] = []
    path = turn(table, "slow").path
    real = publish.commit_changes  # type: ignore[attr-defined]

    def beaten(metadata: TableMetadata, request: CommitRequest, **rest: Any) -> CommitResult:
        seen.append(table.store.exists(path))
        if len(seen) <= 3:
            monkeypatch.setattr(publish, "commit_changes", real)
            # The rival was past its wait when the turn was asked for.
            monkeypatch.setattr(publish.CommitPriority, "wait", lambda self, partitions: 0.0)  # type: ignore[attr-defined]
            upsert(Table.open(table.uri), [(1, 1000 + len(seen), "rival")], batch_id=f"rival{len(seen)}")
            monkeypatch.setattr(publish, "commit_changes", beaten)
        return real(metadata, request, **rest)

    monkeypatch.setattr(publish, "commit_changes", beaten)
    report = commit_batch(context, sleep=lambda _: None)
    assert report.replans == 3
    assert seen == [False, False, True, True]
    assert not table.store.exists(path)
    expected = {(1, k): "slow" for k in range(3)} | {(1, 1000 + i): "rival" for i in (1, 2, 3)}
    assert content(Table.open(table.uri)) == expected
