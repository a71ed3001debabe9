"""Hashes in two buckets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.quality.hash_rules import find_duplicate_hashes


def as_dict(buckets: dict[int, list[int]]) -> dict[int, list[int]]:
    count, found = find_duplicate_hashes({b: np.array(h, np.int32) for b, h in buckets.items()})
    assert count == len(found)
    return {each["hash"]: each["buckets"] for each in found}


def test_sample_is_bounded() -> None:
    buckets = {b: np.arange(100, dtype=np.int32) for b in (4, 7)}
    assert find_duplicate_hashes(buckets, 2) == (
        100, [{"hash": 0, "buckets": [4, 7]}, {"hash": 1, "buckets": [4, 7]}],
    )  # fmt: skip
    assert len(find_duplicate_hashes(buckets, 1000)[1]) == 100


#: A few, so that they meet, and the ends of their range.
HASHES = (-(2**31), *range(-4, 5), 2**31 - 1)


@given(st.dictionaries(st.integers(0, 5), st.lists(st.sampled_from(HASHES), max_size=8)))
def test_equals_counting_with_sets(buckets: dict[int, list[int]]) -> None:
    expected = {}
    for h in HASHES:
        owners = [b for b in sorted(buckets) if h in buckets[b]]
        if len(owners) > 1:
            expected[h] = owners
    assert as_dict(buckets) == expected
