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


CASES = [
    ("no file, no record", None, [], None),
    ("no file yet", None, [5, 3, 5], [3, 5]),
    ("bucket not touched", [9, 1], [], None),
    ("known keys only", [9, 1, -4], [1, 9, 1], None),
    ("one new hash", [9, 1], [1, 4], [1, 4, 9]),
    ("new ones at both ends", [0], [2**31 - 1, -(2**31)], [-(2**31), 0, 2**31 - 1]),
    ("empty file", [], [2], [2]),
    ("empty file, no record", [], [], None),
    ("colliding keys count once", [7], [8, 8, 7], [7, 8]),
    ("a file with a hash twice is put right when written", [3, 3, 1], [2], [1, 2, 3]),
    ("and left alone when nothing is new", [3, 3, 1], [1], None),
]


@pytest.mark.parametrize(("old", "new", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_an_index_is_written_only_for_new_hashes(
    old: list[int] | None, new: list[int], expected: list[int] | None
) -> None:
    planned = plan_index_update(None if old is None else column(old), column(new))
    assert (None if planned is None else planned.tolist()) == expected
    assert planned is None or planned.dtype == np.int32


INTS = st.lists(st.one_of(st.integers(-9, 9), st.integers(-(2**31), 2**31 - 1)), max_size=30)


@settings(deadline=None)
@given(INTS, INTS)
def test_plan_is_a_set_union(old: list[int], new: list[int]) -> None:
    planned = plan_index_update(column(old), column(new))
    if set(new) <= set(old):
        assert planned is None
    else:
        assert planned is not None
        assert planned.tolist() == sorted({*old, *new})


@settings(deadline=None)
@given(INTS, INTS)
def test_sets_as_sorted_columns(left: list[int], right: list[int]) -> None:
    assert sorted_distinct(column(left)).tolist() == sorted(set(left))
    assert missing_from(column(left), sorted_distinct(column(right))).tolist() == sorted(set(left) - set(right))


def test_inputs_are_not_changed() -> None:
    old, new = column([5, 1, 3]), column([9, 2])
    plan_index_update(old, new)
    assert (old.tolist(), new.tolist()) == ([5, 1, 3], [9, 2])


@pytest.mark.parametrize("new", [1, 70, 1000])
def test_few_and_many_hashes_into_a_large_file(new: int) -> None:
    """New ones before, between and behind those there are; some of them known."""
    old = np.arange(-40_000, 40_000, 2, dtype=np.int32)
    hashes = np.linspace(-50_001, 50_001, new, dtype=np.int32)
    planned = plan_index_update(old, hashes)
    assert planned is not None
    assert planned.dtype == np.int32
    assert planned.tolist() == sorted({*old.tolist(), *hashes.tolist()})
