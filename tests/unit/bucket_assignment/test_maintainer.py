"""What of a bucket's index file has to be written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lakeidx.bucket_assignment.hash_set import missing_from, plan_index_update, sorted_distinct


def column(values: object) -> NDArray[np.int32]:
    return np.array(values, np.int32)


INTS = st.lists(st.one_of(st.integers(-9, 9), st.integers(-(2**31), 2**31 - 1)), max_size=30)


@settings(deadline=None)
@given(st.none() | INTS, INTS)
def test_an_index_is_written_only_for_new_hashes_as_a_set_union(old: list[int] | None, new: list[int]) -> None:
    """No file yet is as an empty one; one with a hash twice is put right when it is written, and else left alone."""
    had, came = None if old is None else column(old), column(new)
    planned = plan_index_update(had, came)
    if set(new) <= set(old or ()):
        assert planned is None
    else:
        assert planned is not None
        assert planned.dtype == np.int32
        assert planned.tolist() == sorted({*(old or ()), *new})
    assert (None if had is None else had.tolist(), came.tolist()) == (old, new), "inputs are not changed"


@settings(deadline=None)
@given(INTS, INTS)
def test_sets_as_sorted_columns(left: list[int], right: list[int]) -> None:
    assert sorted_distinct(column(left)).tolist() == sorted(set(left))
    assert missing_from(column(left), sorted_distinct(column(right))).tolist() == sorted(set(left) - set(right))


@pytest.mark.parametrize("new", [1, 70, 1000])
def test_few_and_many_hashes_into_a_large_file(new: int) -> None:
    """New ones before, between and behind those there are; some of them known."""
    old = np.arange(-40_000, 40_000, 2, dtype=np.int32)
    hashes = np.linspace(-50_001, 50_001, new, dtype=np.int32)
    planned = plan_index_update(old, hashes)
    assert planned is not None
    assert planned.dtype == np.int32
    assert planned.tolist() == sorted({*old.tolist(), *hashes.tolist()})
