from __future__ import annotations

import numpy as np
import pytest

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.lookup.packed import contiguous, take_packed


def test_rows_that_are_fine_are_not_copied() -> None:
    rows = RowBytes.from_list([b"ab", b"", b"c"])
    assert contiguous(rows) is rows


def test_strided_rows_are_copied() -> None:
    data = np.frombuffer(b"a-b-c-", np.uint8)[::2]
    offsets = np.array([0, 9, 1, 9, 3, 9], np.int64)[::2]
    assert contiguous(RowBytes(data, offsets)).to_list() == [b"a", b"bc"]


@pytest.mark.parametrize("offsets", [[0, 2, 1], [-1, 2], [0, 4], [3, 3, 4]])
def test_offsets_that_leave_the_data(offsets: list[int]) -> None:
    with pytest.raises(InvalidInputError, match="decrease or lie outside"):
        contiguous(RowBytes(np.zeros(3, np.uint8), np.array(offsets, np.int64)))


def test_what_is_no_column() -> None:
    with pytest.raises(InvalidInputError, match="not list"):
        contiguous([b"a"])  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="int64 offsets"):
        contiguous(RowBytes(np.zeros(3, np.uint8), np.array([0, 3], np.int32)))
    with pytest.raises(InvalidInputError, match="int64 offsets"):
        contiguous(RowBytes(np.zeros(3, np.uint8), np.zeros(0, np.int64)))


def test_spans_of_memory_are_copied() -> None:
    data = np.frombuffer(b"abcdefghijklmnop", np.uint8)
    starts, sizes = np.array([3, 0, 5, 1], np.int64), np.array([2, 0, 9, 1], np.int64)
    assert take_packed(data.ctypes.data + starts, sizes).to_list() == [b"de", b"", b"fghijklmn", b"b"]
