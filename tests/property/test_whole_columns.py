"""Whole columns by parts, against `PartitionIndex` going through them row by row: the same buckets, new rows and counts."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.bucket_assignment.partition_index import PartitionIndex
from lakeidx.bucket_assignment.rules import AssignRules, LimitScope, RandomBuckets
from lakeidx.bucket_assignment.whole_columns import assign_columns
from lakeidx.errors import InvalidInputError

VALUES = st.integers(-(2**31), 2**31 - 1) | st.integers(-12, 12)
RULES = st.builds(
    AssignRules, target_rows=st.integers(1, 12), max_buckets=st.sampled_from([-1, 1, 3, 7]),
    num_assigners=st.integers(1, 2),
)  # fmt: skip
FILES = st.lists(st.tuples(st.integers(0, 6), st.lists(VALUES, max_size=15, unique=True)), max_size=5)


def column(values: list[int]) -> np.ndarray:
    return np.array(values, np.int32)


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.lists(VALUES, max_size=40), max_size=4), FILES, RULES, st.booleans(),
    st.integers(1, 20), st.integers(1, 20), st.integers(0, 5),
)  # fmt: skip
def test_the_answers_are_those_of_the_index(
    columns: list[list[int]], files: list[tuple[int, list[int]]], rules: AssignRules, overwrite: bool,
    pass_rows: int, part_rows: int, more: int,
) -> None:  # fmt: skip
    stored = [(b, column(h), len(h) + more) for b, h in files]
    if overwrite:
        index = PartitionIndex.for_overwrite(rules=rules, pick=RandomBuckets.seeded("x"))
        stored = []
    else:
        index = PartitionIndex.load(stored, rules=rules, pick=RandomBuckets.seeded("x"))
    given_columns = [column(c) for c in columns]
    try:
        expected = [index.assign_rows(c) for c in given_columns]
    except InvalidInputError as error:
        with pytest.raises(InvalidInputError, match=re.escape(error.message)):
            assign_columns(given_columns, stored, rules=rules, pick=RandomBuckets.seeded("x"), overwrite=overwrite)
        return
    found = assign_columns(
        given_columns,
        stored,
        rules=rules,
        pick=RandomBuckets.seeded("x"),
        overwrite=overwrite,
        pass_rows=pass_rows,
        part_rows=part_rows,
    )
    assert found is not None
    assert [a.buckets.tolist() for a in found.columns] == [a.buckets.tolist() for a in expected]
    assert [a.is_new.tolist() for a in found.columns] == [a.is_new.tolist() for a in expected]
    assert found.new_counts == index.new_counts()


def test_many_rows_in_many_parts_and_passes() -> None:
    rng = np.random.default_rng(5)
    known = np.unique(rng.integers(-(2**31), 2**31, 300_000).astype(np.int32))
    files = [(b, known[b::3]) for b in range(3)]
    columns = [rng.choice(known, 150_000), rng.integers(-(2**31), 2**31, 400_000).astype(np.int32)]
    columns.append(np.concatenate(columns)[::7])
    rules = AssignRules(target_rows=120_000, max_buckets=5)
    index = PartitionIndex.load(files, rules=rules, pick=RandomBuckets.seeded("y"))
    expected = [index.assign_rows(c) for c in columns]
    found = assign_columns(
        columns, files, rules=rules, pick=RandomBuckets.seeded("y"), pass_rows=200_000, part_rows=10_000
    )
    assert found is not None
    for a, b in zip(found.columns, expected, strict=True):
        assert np.array_equal(a.buckets, b.buckets)
        assert np.array_equal(a.is_new, b.is_new)
    assert found.new_counts == index.new_counts()


def test_a_hash_that_fills_the_batch_is_left_to_a_map() -> None:
    column = np.concatenate([np.full(400_000, 7, np.int32), np.arange(600_000, dtype=np.int32)])
    rules = AssignRules(target_rows=10)
    assert assign_columns([column], [], rules=rules, pick=RandomBuckets.seeded("z"), part_rows=1 << 10) is None
    task = AssignRules(target_rows=10, limit_scope=LimitScope.TASK)
    assert assign_columns([column[-10:]], [], rules=task, pick=RandomBuckets.seeded("z")) is None
