"""PartitionIndex over columns gives what the rules give row by row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.bucket_assignment.partition_index import PartitionIndex, loaded_walk_order
from lakeidx.bucket_assignment.rules import AssignRules, RandomBuckets
from lakeidx.errors import InvalidInputError
from tests.kit.reference_assigner import ReferenceIndex

# The first example of a run may compile the kernels.
RUN = settings(deadline=None, max_examples=150)
INT32 = st.integers(-(2**31), 2**31 - 1)
# A small range makes repeats and collisions, the rims of int32 and real spread come beside it.
HASHES = st.one_of(st.integers(-20, 20), INT32, st.sampled_from([0, -1, 2**31 - 1, -(2**31)]))


@dataclass(frozen=True)
class Case:
    rules: AssignRules
    files: list[tuple[int, list[int]]]
    calls: list[list[int]]
    seed: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    num_assigners = draw(st.integers(1, 4))
    rules = AssignRules(
        target_rows=draw(st.integers(1, 6)),
        max_buckets=draw(st.one_of(st.just(-1), st.integers(1, 8))),
        num_assigners=num_assigners,
        assign_id=draw(st.integers(0, 5)),
    )
    buckets = draw(st.lists(st.integers(0, 40), max_size=6, unique=True))
    files = [(b, draw(st.lists(HASHES, max_size=8, unique=True))) for b in buckets]
    calls = draw(st.lists(st.lists(HASHES, max_size=60), max_size=4))
    return Case(rules, files, calls, draw(st.integers(0, 2**32)))


def pick(seed: int) -> RandomBuckets:
    return RandomBuckets(seed)


def column(values: list[int]) -> np.ndarray:
    return np.array(values, np.int32)


def compare_calls(case: Case, index: PartitionIndex, twin: ReferenceIndex) -> None:
    """Run all calls on both; after an error the run ends, with the same rows placed before it."""
    failed = False
    for values in case.calls:
        expected, seen = [], set(twin.bucket_of)
        for value in values:
            try:
                expected.append(twin.assign(value))
            except InvalidInputError:
                failed = True
                break
        if failed:
            with pytest.raises(InvalidInputError, match=r"dynamic-bucket\."):
                index.assign_rows(column(values))
            break
        result = index.assign_rows(column(values))
        assert result.buckets.tolist() == expected
        first_seen = [v not in seen and v not in values[:i] for i, v in enumerate(values)]
        assert result.is_new.tolist() == first_seen
    every = sorted({v for values in case.calls for v in values} | twin.bucket_of.keys())
    assert index.lookup(column(every)).tolist() == [twin.bucket_of.get(v, -1) for v in every]


@RUN
@given(cases())
def test_loaded_index_follows_the_rules_row_by_row(case: Case) -> None:
    index = PartitionIndex.load([(b, column(h)) for b, h in case.files], rules=case.rules, pick=pick(case.seed))
    rows = {b: len(h) for b, h in case.files}
    walk = loaded_walk_order((b, rows[b]) for b, _ in case.files if case.rules.owns(b))
    twin = ReferenceIndex(
        case.rules, pick(case.seed), [(h, b) for b, hs in case.files for h in hs], [(b, rows[b]) for b in walk]
    )
    known_before = set(twin.bucket_of)
    compare_calls(case, index, twin)
    assert list(index.counts) == twin.total
    new = Counter(b for h, b in twin.bucket_of.items() if h not in known_before)
    assert index.new_counts() == {b: new[b] for b in sorted(new)}
    assert index.counts == {b: rows.get(b, 0) + new[b] for b in twin.total}
