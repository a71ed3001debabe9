"""Bucketized checking: what the plan promises, and that every pair is checked exactly once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.hudi.hashes import signed32
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.key_index.bloom.candidate_checks import CheckPlan, plan_checks, share_out
from lakeidx.key_index.keys.ranges import Candidates
from tests.scalar_twins import md5_routing_hash


@given(st.lists(st.integers(0, 60), max_size=12), st.integers(1, 20), st.integers(1, 12))
def test_checks_are_cut_into_tasks_of_like_size(comparisons: list[int], per_bucket: int, parallelism: int) -> None:
    plan = plan_checks(comparisons, keys_per_bucket=per_bucket, parallelism=parallelism)
    buckets = [-(-c // per_bucket) for c in comparisons]
    assert [len(t) for t in plan.tasks_of_file] == buckets
    assert plan.tasks == min(parallelism, sum(buckets))
    held = [0] * plan.tasks
    for tasks in plan.tasks_of_file:
        for task in tasks:
            held[task] += 1
    assert sum(held) == sum(buckets)
    if plan.tasks:
        # Phase 1 fills tasks to the floor, phase 2 spreads one more round at most over what is left.
        left = sum(1 for b in buckets if b > 1)
        assert max(held) <= sum(buckets) // plan.tasks + -(-left // plan.tasks) + 1


def test_two_files_by_hand() -> None:
    # 5 and 1 buckets, 3 tasks, 2 buckets make a task full. Phase 1 places 4 of file 0 and the only one of file 1.
    plan = plan_checks([50, 1], keys_per_bucket=10, parallelism=3)
    assert plan == CheckPlan(3, ((0, 0, 1, 1, 0), (2,)))


@settings(deadline=None)
@given(
    st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6),
    st.integers(1, 6),
    st.integers(1, 5),
)
def test_every_pair_once_and_keys_of_a_file_routed_by_hash(
    keys: list[str], spans: list[tuple[int, int]], per_bucket: int, parallelism: int
) -> None:
    n = len(keys)
    starts = np.array([min(a, b, n) for a, b in spans], np.int64)
    stops = np.array([min(max(a, b), n) for a, b in spans], np.int64)
    candidates = Candidates(np.arange(n)[::-1].copy(), starts, stops)
    plan = plan_checks(candidates.counts.tolist(), keys_per_bucket=per_bucket, parallelism=parallelism)
    shares = share_out(candidates, plan, RowBytes.from_list([k.encode() for k in keys]))
    pairs = [(t.file, int(k)) for share in shares for t in share for k in t.keys]
    expected = [(f, int(k)) for f in range(len(spans)) for k in candidates.keys_of(f)]
    assert sorted(pairs) == sorted(expected)
    by_pair = {(t.file, int(k)): number for number, share in enumerate(shares) for t in share for k in t.keys}
    for (file, key), number in by_pair.items():
        tasks = plan.tasks_of_file[file]
        # share_out drops tasks without pairs, so only who shares a task can be compared.
        own = tasks[signed32(md5_routing_hash(keys[key]) & 0xFFFFFFFF) % len(tasks)]
        for (other_file, other_key), other in by_pair.items():
            if other == number:
                theirs = plan.tasks_of_file[other_file]
                at = signed32(md5_routing_hash(keys[other_key]) & 0xFFFFFFFF) % len(theirs)
                assert theirs[at] == own


@pytest.mark.parametrize(("per_bucket", "parallelism"), [(0, 1), (1, 0)])
def test_impossible_plans_are_refused(per_bucket: int, parallelism: int) -> None:
    with pytest.raises(InvalidInputError):
        plan_checks([1], keys_per_bucket=per_bucket, parallelism=parallelism)
