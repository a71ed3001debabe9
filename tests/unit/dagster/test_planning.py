"""Batches of the landing sensor: limits, settling, late and returning files, thousands of them, the cursor."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.dagster.sensors.planning import MAX_BATCHES, LandingCursor, PlannedBatch, plan_batches
from lakeidx.errors import InvalidInputError
from lakeidx.pipeline_file.sections import BatchingConfig, EventsConfig, LandingConfig
from lakeidx.storage.base import FileInfo


def file(name: str, *, size: int = 10, at: int = 0) -> FileInfo:
    return FileInfo(path=f"/landing/{name}", name=name, size=size, mtime_ms=at, is_dir=False)


def config(settle: float = 0, marker: str | None = None, **limits: float) -> LandingConfig:
    batching = BatchingConfig.model_validate(limits)
    return LandingConfig(path="/landing", settle_seconds=settle, success_marker=marker, batching=batching)


def plan(
    files: list[FileInfo], cursor: LandingCursor, how: LandingConfig, now: int, max_batches: int = MAX_BATCHES
) -> tuple[list[PlannedBatch], LandingCursor]:
    batches, after = plan_batches(files, cursor, how, lambda name: name, now_ms=now, max_batches=max_batches)
    return batches, again(after)


def again(cursor: LandingCursor) -> LandingCursor:
    """Write a cursor with its marks, and read it."""
    return LandingCursor.decode(cursor.encode("m"), {"m": cursor.encode_marks()}.get)


def names(batches: list[PlannedBatch]) -> list[list[str]]:
    return [[f.name for f in b.files] for b in batches]


def test_one_run_per_file_by_default_and_each_file_once() -> None:
    files = [file("a"), file("b")]
    batches, cursor = plan(files, LandingCursor(), config(), 1000)
    assert names(batches) == [["a"], ["b"]]
    assert plan(files, cursor, config(), 2000)[0] == []


def test_a_batch_closes_at_count_or_bytes() -> None:
    files = [file(n, size=s) for n, s in (("a", 5), ("b", 5), ("c", 9), ("d", 1), ("e", 30))]
    assert names(plan(files, LandingCursor(), config(max_files=2), 0)[0]) == [["a", "b"], ["c", "d"], ["e"]]
    by_bytes = names(plan(files, LandingCursor(), config(max_files=9, max_bytes=10), 0)[0])
    assert by_bytes == [["a", "b"], ["c", "d"], ["e"]]


def test_an_open_batch_waits_for_its_age() -> None:
    how = config(max_files=3, max_age_seconds=60)
    batches, cursor = plan([file("a"), file("b", at=10_000)], LandingCursor(), how, 20_000)
    assert batches == []
    batches, cursor = plan([file("a"), file("b", at=10_000)], cursor, how, 60_000)
    assert names(batches) == [["a", "b"]]
    files = [file("a"), file("b", at=10_000), file("c", at=59_000), file("d", at=59_000), file("e", at=59_000)]
    assert names(plan(files, cursor, how, 61_000)[0]) == [["c", "d", "e"]]


def test_a_file_that_still_grows_is_not_taken() -> None:
    how = config(settle=5)
    batches, cursor = plan([file("a", size=1, at=1_000)], LandingCursor(), how, 2_000)
    assert batches == []
    batches, cursor = plan([file("a", size=2, at=7_500)], cursor, how, 8_000)
    assert batches == []
    batches, cursor = plan([file("a", size=2, at=7_500)], cursor, how, 12_900)
    assert batches == []
    batches, cursor = plan([file("a", size=2, at=7_500)], cursor, how, 13_000)
    assert names(batches) == [["a"]]


@pytest.mark.parametrize(("at", "limits"), [(-(10**9), {}), (10**12, {"max_files": 2, "max_age_seconds": 60})])
def test_a_copy_dated_long_ago_or_in_the_future_settles_from_when_it_was_noticed(
    at: int, limits: dict[str, Any]
) -> None:
    how = config(settle=30, **limits)
    batches, cursor = plan([file("old", at=at)], LandingCursor(), how, 100_000)
    assert batches == []
    assert names(plan([file("old", at=at)], cursor, how, 130_000)[0]) == [["old"]]


def test_a_success_marker_stands_for_settling() -> None:
    assert names(plan([file("a", at=999)], LandingCursor(), config(settle=60, marker=".done"), 1_000)[0]) == [["a"]]


def test_run_keys_are_those_of_content() -> None:
    first = plan([file("a"), file("b")], LandingCursor(), config(max_files=2), 0)[0][0]
    later = plan([file("a"), file("b")], LandingCursor(), config(max_files=2), 10**6)[0][0]
    other = plan([file("a"), file("b", size=11)], LandingCursor(), config(max_files=2), 0)[0][0]
    assert first.run_key == later.run_key != other.run_key


def test_files_of_one_partition_share_a_key() -> None:
    files = [file("x-1-a"), file("x-1-b"), file("x-2-a")]
    batches, _ = plan_batches(files, LandingCursor(), config(max_files=9), lambda n: n.split("-")[1], now_ms=0)
    assert [b.keys for b in batches] == [("1", "2")]


@pytest.mark.slow
def test_thousands_of_files_in_ticks_and_a_cursor_that_stays_small() -> None:
    files = [file(f"{i:05d}") for i in range(6000)]
    cursor = LandingCursor()
    taken: list[str] = []
    for tick in range(20):
        batches, cursor = plan(files, cursor, config(max_files=10), tick, max_batches=50)
        taken += [f.name for b in batches for f in b.files]
    assert taken == [f.name for f in files]
    assert (len(cursor.encode("m")) < 100, len(cursor.encode_marks()) < 6000 * 12) == (True, True)
    # What has left the folder is forgotten.
    _, cursor = plan(files[:10], cursor, config(), 100)
    assert len(cursor.seen) == 10


def test_a_cursor_that_is_none_says_so() -> None:
    for text in ("{", '{"version": 9}', '{"version": 1, "seen": 3, "waiting": {}}', '{"version": 2, "marks": "m"}'):
        with pytest.raises(InvalidInputError, match="reset it"):
            LandingCursor.decode(text, {"m": b"{}"}.get)


def test_a_cursor_of_release_0_2_is_whole() -> None:
    text = '{"version": 1, "seen": "AAECAwQFBgc=", "waiting": {"0706050403020100": 5}, "unplaced": "u"}'
    cursor = LandingCursor.decode(text, lambda name: None)
    assert (cursor.seen, cursor.waiting) == ({bytes(range(8))}, {bytes(range(7, -1, -1)): 5})
    assert cursor.unplaced == "u"


def test_a_folder_that_is_empty_all_at_once_forgets_nothing() -> None:
    _, cursor = plan([file("a"), file("b")], LandingCursor(), config(), 0)
    batches, cursor = plan([], cursor, config(), 1)
    assert (batches, plan([file("a"), file("b")], cursor, config(), 2)[0]) == ([], [])


def test_files_of_messages_wait_in_the_cursor_and_what_was_seen_stays_seen() -> None:
    how = LandingConfig(
        path="s3://lake/in",
        events=EventsConfig(url="https://q/1/a"),
        batching=BatchingConfig(max_files=2, max_age_seconds=60),
    )
    _, cursor = plan([file("a"), file("b")], LandingCursor(listed=1), how, 0)
    # Objects of messages are whole: they do not settle, but wait for their batch. The folder was not listed.
    batches, cursor = plan_batches([file("c", at=5)], cursor, how, lambda name: name, now_ms=5, whole=False)
    assert (batches, cursor.pending) == ([], [file("c", at=5)])
    cursor.receipts = ["r"]
    cursor = again(cursor)
    assert (cursor.pending, cursor.receipts, cursor.listed) == ([file("c", at=5)], ["r"], 1)
    named = [*cursor.pending, file("a"), file("d", at=6)]
    batches, cursor = plan_batches(named, cursor, how, lambda name: name, now_ms=9, whole=False)
    assert (names(batches), cursor.pending, len(cursor.seen)) == ([["c", "d"]], [], 4)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(0, 5)), max_size=40),
    st.integers(1, 4),
    st.one_of(st.none(), st.integers(1, 40)),
)
def test_every_file_is_taken_exactly_once(arrivals: list[tuple[int, int, int]], count: int, size: int | None) -> None:
    """Whatever order files come in, each content of each name ends up in exactly one batch, within the limits."""
    limits = {"max_files": count} | ({} if size is None else {"max_bytes": size})
    there: dict[str, FileInfo] = {}
    cursor = LandingCursor()
    taken: list[tuple[str, int, int]] = []
    for tick, (name, length, age) in enumerate(arrivals):
        there[str(name)] = file(str(name), size=length, at=tick * 10 - age)
        batches, cursor = plan(sorted(there.values(), key=lambda f: f.name), cursor, config(**limits), tick * 10)  # type: ignore[arg-type]
        for batch in batches:
            assert len(batch.files) <= count
            assert size is None or len(batch.files) == 1 or sum(f.size for f in batch.files) <= size
        taken += [(f.name, f.size, f.mtime_ms) for b in batches for f in b.files]
    for _ in range(2):
        batches, cursor = plan(sorted(there.values(), key=lambda f: f.name), cursor, config(**limits), 10**6)  # type: ignore[arg-type]
        taken += [(f.name, f.size, f.mtime_ms) for b in batches for f in b.files]
    assert len(set(taken)) == len(taken)
    assert {(f.name, f.size, f.mtime_ms) for f in there.values()} <= set(taken)
