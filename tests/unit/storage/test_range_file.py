from __future__ import annotations

import gc
import io
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.errors import CorruptFileError, UnavailableError
from lakeidx.storage import range_file
from lakeidx.storage.range_file import TAIL_BYTES, WHOLE_FILE_BYTES, RangeFile, open_ranges


class Fetch:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.asked: list[tuple[int, int]] = []

    def __call__(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self.asked.extend(ranges)
        return [self.data[offset : offset + length] for offset, length in ranges]


@given(
    st.binary(max_size=300),
    st.lists(st.tuples(st.sampled_from(["seek", "end", "read"]), st.integers(0, 350)), max_size=12),
    st.integers(1, 200),
)
def test_as_a_file_does(data: bytes, steps: list[tuple[str, int]], tail: int) -> None:
    before, range_file.TAIL_BYTES = range_file.TAIL_BYTES, tail
    try:
        ours, plain = RangeFile(Fetch(data), len(data)), io.BytesIO(data)
        for step, n in steps:
            if step == "seek":
                assert ours.seek(n) == plain.seek(n)
            elif step == "end":
                at = min(n, len(data))
                assert ours.seek(-at, io.SEEK_END) == plain.seek(-at, io.SEEK_END)
            else:
                assert ours.read(n) == plain.read(n)
            assert ours.tell() == plain.tell()
        assert ours.readall() == plain.read()
    finally:
        range_file.TAIL_BYTES = before


def test_the_tail_is_fetched_once() -> None:
    data = bytes(range(256)) * 4 * 1024
    fetch = Fetch(data)
    file = RangeFile(fetch, len(data))
    file.seek(-8, io.SEEK_END)
    assert file.read(8) == data[-8:]
    file.seek(-1000, io.SEEK_END)
    assert file.read(500) == data[-1000:-500]
    assert fetch.asked == [(len(data) - TAIL_BYTES, TAIL_BYTES)]
    file.seek(10)
    assert file.read(5) == data[10:15]
    assert fetch.asked[1:] == [(10, 5)]
    with pytest.raises(ValueError, match="before the start"):
        file.seek(-1)


def test_small_files_are_fetched_whole() -> None:
    for size in (0, 10, WHOLE_FILE_BYTES):
        fetch = Fetch(b"x" * size)
        source = open_ranges(fetch, size)
        assert isinstance(source, pa.NativeFile)
        assert source.read() == b"x" * size
        assert len(fetch.asked) == (1 if size else 0)
    fetch = Fetch(b"x" * (WHOLE_FILE_BYTES + 1))
    assert open_ranges(fetch, WHOLE_FILE_BYTES + 1).read_at(3, 5) == b"xxx"
    assert fetch.asked == [(5, 3)]


STEP = 1 << 20


@pytest.fixture(autouse=True)
def no_room_is_kept() -> Iterator[None]:
    yield
    gc.collect()
    assert range_file.ROOM.taken == 0


def steps_of(count: int) -> list[list[tuple[int, int]]]:
    """Return steps of two ranges each that touch, and a third apart."""
    return [[(n * STEP, STEP // 4), (n * STEP + STEP // 4, STEP // 4), (n * STEP + STEP - 9, 9)] for n in range(count)]


def test_what_is_held_is_read_from_memory() -> None:
    data = bytes(range(256)) * (1 << 14)
    fetch = Fetch(data)
    file = RangeFile(fetch, len(data))
    steps = steps_of(3)
    file.expect(steps)
    for step in steps:
        file.hold(step)
        for offset, length in step:
            file.seek(offset)
            assert file.read(length) == data[offset : offset + length]
    merged = [r for n in range(3) for r in ((n * STEP, STEP // 2), (n * STEP + STEP - 9, 9))]
    assert fetch.asked == merged, "one call for all of them, and none for a read"
    file.seek(0)
    assert file.read(4) == data[:4]
    assert fetch.asked[-1] == (0, 4), "what was held before is not kept"


def test_reads_in_flight_stay_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_file, "AHEAD_BYTES", 4 * STEP)
    taken: list[int] = []

    def fetch(ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        taken.append(range_file.ROOM.taken)
        return [bytes(length) for _, length in ranges]

    files = [RangeFile(fetch, 1 << 30, 6 * STEP) for _ in range(4)]
    for file in files:
        file.expect([(n * STEP, STEP)] for n in range(40))
    for n in range(40):
        for file in files:
            file.hold([(n * STEP, STEP)])
            taken.append(range_file.ROOM.taken)
            file.seek(n * STEP)
            assert len(file.read(STEP)) == STEP
    assert STEP < max(taken) <= 6 * STEP
    for file in files:
        file.expect(())


def test_a_file_that_is_cut_is_named_where_its_bytes_are_needed() -> None:
    data = bytes(3 * STEP)
    file = RangeFile(Fetch(data), 8 * STEP)
    steps = [[(n * STEP, STEP)] for n in range(4)]
    file.expect(steps)
    for step in steps[:3]:
        file.hold(step)
    with pytest.raises(CorruptFileError, match=f"expected {STEP} bytes from byte {3 * STEP}, found 0") as caught:
        file.hold(steps[3])
    assert caught.value.offset == 3 * STEP


def test_an_error_of_the_store_is_raised_where_the_bytes_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_file, "AHEAD_BYTES", STEP)

    def fetch(ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        if ranges[0][0] >= 2 * STEP:
            raise UnavailableError("the store did not answer")
        return [bytes(length) for _, length in ranges]

    file = RangeFile(fetch, 8 * STEP)
    steps = [[(n * STEP, STEP)] for n in range(4)]
    file.expect(steps)
    file.hold(steps[0])
    file.hold(steps[1])
    with pytest.raises(UnavailableError, match="did not answer"):
        file.hold(steps[2])
