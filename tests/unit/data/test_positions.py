"""Deleted and selected positions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from lakeidx.data.positions import RowFilter, sorted_positions


@pytest.mark.parametrize("make", [BitMap, BitMap64, lambda v: np.array(sorted(v, reverse=True), np.uint32)])
def test_every_form_of_positions_rises(make: object) -> None:
    found = sorted_positions(make([9, 1, 70000]))  # type: ignore[operator]
    assert found.dtype == np.int64
    assert found.tolist() == [1, 9, 70000]


positions = st.none() | st.sets(st.integers(0, 40))


@given(positions, positions, st.integers(0, 40), st.integers(1, 20))
def test_masks_equal_sets(deleted: set[int] | None, selected: set[int] | None, first: int, rows: int) -> None:
    row_filter = RowFilter(
        None if deleted is None else BitMap(deleted), None if selected is None else np.array(sorted(selected), np.int64)
    )
    wanted = [(selected is None or p in selected) and p not in (deleted or ()) for p in range(first, first + rows)]
    mask = row_filter.mask(first, rows)
    assert [True] * rows == wanted if mask is None else mask.tolist() == wanted
    if any(wanted):
        assert row_filter.keeps_any(first, rows)
    if row_filter.keeps_all:
        assert all(wanted)
