"""Roaring bitmaps: the bytes of the standard library both ways, many at once, and damaged bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from lakeidx.codec.cursor import Cursor
from lakeidx.codec.roaring import deserialize, group_positions, read_bitmap, serialize, serialize_groups
from lakeidx.errors import CorruptFileError

TOP = 1 << 32


@st.composite
def positions(draw: st.DrawFn) -> list[int]:
    """Scattered rows, runs and dense stretches over one or several containers."""
    parts = []
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.sampled_from([0, 5, 65500, 65536, 130000, 3 * 65536, TOP - 70000]))
        kind = draw(st.sampled_from(["few", "run", "dense"]))
        if kind == "few":
            parts.append(np.array(draw(st.lists(st.integers(start, min(start + 200, TOP - 1)), max_size=20)), np.int64))
        else:
            length = draw(st.sampled_from([1, 2, 3, 4095, 4096, 4097, 9000, 65536]))
            step = 1 if kind == "run" else draw(st.sampled_from([2, 3]))
            parts.append(np.arange(start, min(start + length * step, TOP), step, dtype=np.int64))
    return np.unique(np.concatenate(parts)).tolist() if parts else []


def standard(rows: list[int]) -> bytes:
    bitmap = BitMap(rows)
    bitmap.run_optimize()
    return bitmap.serialize()


@settings(max_examples=60, deadline=None)
@given(st.lists(positions(), max_size=5))
def test_many_at_once_are_the_standard_bytes(groups: list[list[int]]) -> None:
    starts = np.zeros(len(groups) + 1, np.int64)
    np.cumsum([len(g) for g in groups], out=starts[1:])
    flat = np.array([p for g in groups for p in g], np.uint32)
    made = serialize_groups(flat, starts)
    assert made.to_list() == [standard(g) for g in groups]
    for data, group in zip(made, groups, strict=True):
        assert serialize(BitMap(group)) == data
        assert deserialize(data).to_array().tolist() == group


def test_serialising_leaves_the_bitmap_alone() -> None:
    bitmap = BitMap(list(range(1000)), optimize=False)
    before = bitmap.serialize()
    assert len(serialize(bitmap)) < len(before)
    assert bitmap.serialize() == before


@given(st.lists(st.integers(-1, 4), max_size=60))
def test_positions_by_code(codes: list[int]) -> None:
    rows, starts = group_positions(np.array(codes, np.int32), 5)
    for code in range(5):
        assert rows[starts[code] : starts[code + 1]].tolist() == [i for i, c in enumerate(codes) if c == code]


def test_reading_stops_behind_the_bitmap() -> None:
    data = standard([1, 70000]) + standard([9]) + b"rest"
    cursor = Cursor(data)
    assert list(read_bitmap(cursor)) == [1, 70000]
    assert list(read_bitmap(cursor, rows=10)) == [9]
    assert cursor.remaining == 4


def test_dense_container_with_another_count() -> None:
    data = bytearray(standard(list(range(0, 20000, 2))))
    data[-1] ^= 0x10
    with pytest.raises(CorruptFileError, match="damaged or cut off"):
        deserialize(bytes(data))


def test_positions_beyond_the_rows() -> None:
    with pytest.raises(CorruptFileError, match="position 70 in a bitmap over 70 rows"):
        deserialize(standard([1, 70]), rows=70)
    assert list(deserialize(standard([1, 70]), rows=71)) == [1, 70]
