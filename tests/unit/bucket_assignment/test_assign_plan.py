"""The plan that a table's options ask for."""

from __future__ import annotations

import pytest

from lakeidx.bucket_assignment.rules import AssignPlan
from lakeidx.errors import InvalidInputError


def test_plan_from_options() -> None:
    def tasks(**options: int | None) -> tuple[int, int]:
        plan = AssignPlan.from_options(parallelism=8, target_rows=5, **options)  # type: ignore[arg-type]
        return plan.num_channels, plan.num_assigners

    assert tasks() == (8, 8)
    assert tasks(initial_buckets=3) == (3, 3)
    assert tasks(initial_buckets=20) == (8, 8)
    assert tasks(assigner_parallelism=12) == (12, 12)
    assert tasks(assigner_parallelism=12, initial_buckets=10, max_buckets=4) == (4, 4)
    for option in ("initial_buckets", "assigner_parallelism"):
        with pytest.raises(InvalidInputError, match=r"dynamic-bucket.*at least 1, not 0"):
            tasks(**{option: 0})
    with pytest.raises(InvalidInputError, match=r"dynamic-bucket.max-buckets"):
        tasks(max_buckets=0)
    with pytest.raises(InvalidInputError, match="3 assigners on 2 tasks"):
        AssignPlan(num_channels=2, num_assigners=3, target_rows=1)
