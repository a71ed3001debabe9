"""PartitionIndex over columns gives what the rules give row by row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakeidx.bucket_assignment.capacity import loaded_walk_order
from lakeidx.bucket_assignment.partition_index import PartitionIndex
from lakeidx.bucket_assignment.rules import AssignRules, LimitScope, RandomBuckets
from lakeidx.errors import InvalidInputError
from tests.kit.reference_assigner import ReferenceIndex, ReferenceOverwrite

# The first example of a run may compile the kernels.
RUN = settings(deadline=None, max_examples=150)
INT32 = st.integers(-(2**31), 2**31 - 1)
# A small range makes repeats and collisions, the rims of int32 and real spread come beside it.
HASHES = st.one_of(st.integers(-20, 20), INT32, st.sampled_from([0, -1, 2**31 - 1, -(2**31)]))


@dataclass(frozen=True)
class Case:
    rules: AssignRules
    files: list[tuple[int, list[int]]]
    calls: list[tuple[int, list[int]]]  # (task_max before the call, column)
    seed: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    num_assigners = draw(st.integers(1, 4))
    rules = AssignRules(
        target_rows=draw(st.integers(1, 6)),
        max_buckets=draw(st.one_of(st.just(-1), st.integers(1, 8))),
        num_assigners=num_assigners,
        assign_id=draw(st.integers(0, 5)),
        limit_scope=draw(st.sampled_from(LimitScope)),
    )
    buckets = draw(st.lists(st.integers(0, 40), max_size=6, unique=True))
    files = [(b, draw(st.lists(HASHES, max_size=8, unique=True))) for b in buckets]
    calls = draw(st.lists(st.tuples(st.integers(0, 9), st.lists(HASHES, max_size=60)), max_size=4))
    return Case(rules, files, calls, draw(st.integers(0, 2**32)))


def pick(seed: int) -> RandomBuckets:
    return RandomBuckets(seed)


def column(values: list[int]) -> np.ndarray:
    return np.array(values, np.int32)


def compare_calls(case: Case, index: PartitionIndex, twin: ReferenceIndex | ReferenceOverwrite) -> None:
    """Run all calls on both; after an error the run ends, with the same rows placed before it."""
    for task_max, values in case.calls:
        expected, seen, largest, failed = [], set(twin.bucket_of), task_max, False
        for value in values:
            try:
                expected.append(twin.assign(value, task_max=largest))
            except InvalidInputError:
                failed = True
                break
            largest = max(largest, expected[-1])
        if failed:
            with pytest.raises(InvalidInputError, match=r"dynamic-bucket\."):
                index.assign(column(values), task_max=task_max)
            assert dict(zip(*(a.tolist() for a in index.items()), strict=True)) == twin.bucket_of
            return
        result = index.assign_rows(column(values), task_max=task_max)
        assert result.buckets.tolist() == expected
        first_seen = [v not in seen and v not in values[:i] for i, v in enumerate(values)]
        assert result.is_new.tolist() == first_seen
    assert dict(zip(*(a.tolist() for a in index.items()), strict=True)) == twin.bucket_of


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
    assert index.buckets.tolist() == twin.total
    new = {h: b for h, b in twin.bucket_of.items() if h not in known_before}
    recorded = {b: sorted(h.tolist()) for b, h in index.new_hashes().items()}
    assert recorded == {b: sorted(h for h in new if new[h] == b) for b in sorted(set(new.values()))}
    assert index.new_counts() == {b: len(h) for b, h in recorded.items()}
    assert index.counts == {b: rows.get(b, 0) + len(recorded.get(b, [])) for b in twin.total}


@RUN
@given(cases())
@example(
    Case(
        AssignRules(target_rows=1, max_buckets=2, num_assigners=1, assign_id=0, limit_scope=LimitScope.TASK),
        [],
        [(0, [0, 1]), (0, [-1, 2])],
        0,
    )
)
def test_overwrite_index_follows_the_rules_row_by_row(case: Case) -> None:
    index = PartitionIndex.for_overwrite(rules=case.rules, pick=pick(case.seed))
    twin = ReferenceOverwrite(case.rules, pick(case.seed))
    compare_calls(case, index, twin)
    assert index.counts == twin.rows


@RUN
@given(cases(), st.lists(st.integers(0, 60), max_size=5))
def test_cutting_a_column_changes_nothing(case: Case, cuts: list[int]) -> None:
    values = column([v for _, vs in case.calls for v in vs])
    files = [(b, column(h)) for b, h in case.files]
    whole = PartitionIndex.load(files, rules=case.rules, pick=pick(case.seed))
    parts = PartitionIndex.load(files, rules=case.rules, pick=pick(case.seed))
    try:
        expected = whole.assign(values)
    except InvalidInputError:
        return
    got, largest = [], 0
    for part in np.split(values, sorted(c for c in cuts if c < len(values))):
        got.append(parts.assign(part, task_max=largest))
        largest = max(largest, int(got[-1].max(initial=0)))
    assert np.concatenate(got).tolist() == expected.tolist()


def as_lists(buckets: dict[int, np.ndarray]) -> dict[int, list[int]]:
    return {b: h.tolist() for b, h in buckets.items()}
