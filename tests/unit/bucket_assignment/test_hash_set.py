"""Sets of hashes as sorted columns, compared with Python's sets."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from lakeidx.bucket_assignment.hash_set import missing_from, shared_with
from lakeidx.codec.distinct import sorted_distinct


def some(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-60, 60, n).astype(np.int32)


@pytest.mark.parametrize("few", [0, 1, 7, 100])
@pytest.mark.parametrize("many", [0, 1, 9, 40])
def test_operations_on_sorted_hashes_are_those_of_python_sets(few: int, many: int) -> None:
    a, b = some(few, 1), some(many, 2)
    wanted, known = sorted_distinct(a), sorted_distinct(b)
    assert wanted.tolist() == sorted(set(a.tolist()))
    assert missing_from(a, known).tolist() == sorted(set(a.tolist()) - set(b.tolist()))
    assert shared_with(wanted, known).tolist() == sorted(set(a.tolist()) & set(b.tolist()))


def test_the_fewer_are_looked_for_among_the_many() -> None:
    """A batch into thousands of small buckets would search for all of its hashes in each of them."""
    large, small = np.arange(100_000, dtype=np.int32), np.array([5, 200_000], np.int32)
    for wanted, known in ((large, small), (small, large)):
        with mock.patch.object(np, "searchsorted", side_effect=np.searchsorted) as search:
            assert shared_with(wanted, known).tolist() == [5]
        assert len(search.call_args.args[1]) == 2
