"""Limits, ownership, draws, and the plan that a table's options ask for."""

from __future__ import annotations

import numpy as np
import pytest

from lakeidx.bucket_assignment.rules import AssignRules, RandomBuckets
from lakeidx.errors import InvalidInputError


@pytest.mark.parametrize(
    ("numbers", "names"),
    [
        ({"target_rows": 0}, "dynamic-bucket.target-row-num: must be at least 1, not 0"),
        ({"target_rows": 1, "max_buckets": 0}, "dynamic-bucket.max-buckets: must be -1 .* not 0"),
        ({"target_rows": 1, "max_buckets": -2}, "dynamic-bucket.max-buckets: .* not -2"),
        ({"target_rows": 1, "max_buckets": 32768}, "dynamic-bucket.max-buckets: .* 1 to 32767, not 32768"),
        ({"target_rows": 1, "num_assigners": 0}, "assigner 0 of 0"),
        ({"target_rows": 1, "assign_id": -1}, "assigner -1 of 1"),
    ],
)
def test_numbers_out_of_range_are_refused(numbers: dict[str, int], names: str) -> None:
    with pytest.raises(InvalidInputError, match=names):
        AssignRules(**numbers)


def test_the_last_bucket_is_below_max_buckets_and_below_32767() -> None:
    assert AssignRules(target_rows=1).last_bucket == 32766
    assert AssignRules(target_rows=1, max_buckets=32767).last_bucket == 32766
    assert AssignRules(target_rows=1, max_buckets=1).last_bucket == 0


def test_ownership_is_by_remainder() -> None:
    # Task 5 of 3 assigners (there may be more tasks than assigners) owns what task 2 owns.
    rules = AssignRules(target_rows=1, num_assigners=3, assign_id=5)
    assert [b for b in range(10) if rules.owns(b)] == [2, 5, 8]
    assert rules.first_own_bucket == 2


def test_draws_reach_every_bucket_and_no_other() -> None:
    known = np.array([3, 11, 40], np.int32)
    drawn = RandomBuckets(1)(known, 3000)
    found, counts = np.unique(drawn, return_counts=True)
    assert found.tolist() == known.tolist()
    assert counts.min() > 850  # 1000 each on average; below 850 has a chance under 1e-8


def test_draws_do_not_depend_on_how_a_column_is_cut() -> None:
    known = np.arange(7, dtype=np.int32)
    whole, parts, single = (RandomBuckets.seeded("batch-1") for _ in range(3))
    expected = whole(known, 20).tolist()
    assert [*parts(known, 7).tolist(), *parts(known, 13).tolist()] == expected
    assert [int(single(known, 1)[0]) for _ in range(20)] == expected
    assert RandomBuckets.seeded("batch-2")(known, 20).tolist() != expected
