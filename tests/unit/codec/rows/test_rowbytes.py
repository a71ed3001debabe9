from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError

STRINGS = [b"", b"abc", b"\0\xff", b"", b"longer than eight bytes"]


@given(st.lists(st.binary(max_size=9), max_size=9), st.integers(0, 9), st.integers(0, 9))
def test_list_arrow_and_slices_agree(rows: list[bytes], start: int, stop: int) -> None:
    packed = RowBytes.from_list(rows)
    assert len(packed) == len(rows)
    assert packed.to_list() == list(packed) == [packed[i] for i in range(len(rows))] == rows
    assert packed.to_arrow().to_pylist() == rows
    assert RowBytes.from_arrow(packed.to_arrow()) == packed
    assert packed.lengths.tolist() == [len(r) for r in rows]
    assert packed.nbytes == sum(map(len, rows))
    part = packed.slice(start, stop)
    assert part.to_list() == rows[start:stop]
    assert part == RowBytes.from_list(rows[start:stop])
    assert part.to_arrow().to_pylist() == rows[start:stop]


ROWS = st.lists(st.binary(max_size=9), max_size=20)
ROWS_OF_ONE_LENGTH = st.integers(0, 9).flatmap(lambda n: st.lists(st.binary(min_size=n, max_size=n), max_size=20))


@settings(deadline=None)
@given(ROWS | ROWS_OF_ONE_LENGTH, st.data())
def test_rows_are_taken_in_any_order(rows: list[bytes], data: st.DataObject) -> None:
    order = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=20)) if rows else []
    start = data.draw(st.integers(0, len(rows)))
    taken = RowBytes.from_list([b"before" * start, *rows]).slice(1, len(rows) + 1).take(np.array(order, np.int64))
    assert taken.to_list() == [rows[i] for i in order]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(STRINGS, pa.binary()),
        pa.array(STRINGS, pa.large_binary()),
        pa.array(STRINGS, pa.binary_view()),
        pa.array(STRINGS, pa.binary()).dictionary_encode(),
        pa.array([b"before", *STRINGS, b"after"], pa.binary()).slice(1, len(STRINGS)),
        pa.chunked_array([pa.array(STRINGS[:2]), pa.array([], pa.binary()), pa.array([b"x", *STRINGS[2:]]).slice(1)]),
        pa.chunked_array([pa.array(STRINGS)]),
    ],
    ids=["binary", "large", "view", "dictionary", "sliced", "chunked", "one chunk"],
)
def test_every_form_of_arrow_strings_is_taken(column: pa.Array | pa.ChunkedArray) -> None:
    assert RowBytes.from_arrow(column).to_list() == STRINGS


def test_from_arrow_of_nothing() -> None:
    assert RowBytes.from_arrow(pa.chunked_array([], pa.binary())).to_list() == []
    assert RowBytes.from_arrow(pa.array([], pa.binary())).to_list() == []
    assert RowBytes.from_arrow(pa.array([b"", b""])).to_list() == [b"", b""]
    assert len(RowBytes.empty()) == 0


def test_from_arrow_refuses_nulls_and_other_types() -> None:
    with pytest.raises(InvalidInputError, match="1 rows are null"):
        RowBytes.from_arrow(pa.array([b"a", None]))
    with pytest.raises(InvalidInputError, match="int64"):
        RowBytes.from_arrow(pa.array([1]))


def test_indexing_and_equality() -> None:
    packed = RowBytes.from_list(STRINGS)
    assert packed[-1] == STRINGS[-1]
    for i in (len(STRINGS), -len(STRINGS) - 1):
        with pytest.raises(IndexError):
            packed[i]
    assert packed != RowBytes.from_list(STRINGS[:-1])
    # Same bytes, cut elsewhere.
    assert RowBytes.from_list([b"ab", b"c"]) != RowBytes.from_list([b"a", b"bc"])
    assert packed != STRINGS
    shifted = RowBytes(np.frombuffer(b"xxab", np.uint8), np.array([2, 3, 4]))
    assert shifted == RowBytes.from_list([b"a", b"b"])


@settings(deadline=None)
@given(st.lists(st.lists(st.binary(max_size=5), max_size=4), max_size=4))
def test_parts_are_concatenated_in_order(parts: list[list[bytes]]) -> None:
    whole = [row for part in parts for row in part]
    assert RowBytes.concat([RowBytes.from_list(part) for part in parts]).to_list() == whole


def test_a_single_column_is_not_copied() -> None:
    rows = RowBytes.from_list([b"ab", b"", b"c"])
    assert RowBytes.concat([rows]) is rows
