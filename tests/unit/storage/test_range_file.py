from __future__ import annotations

import io

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.storage import range_file
from lakeidx.storage.range_file import TAIL_BYTES, WHOLE_FILE_BYTES, RangeFile, open_ranges


class Fetch:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.asked: list[tuple[int, int]] = []

    def __call__(self, offset: int, length: int) -> bytes:
        self.asked.append((offset, length))
        return self.data[offset : offset + length]


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
