"""Sets of hashes as sorted columns, compared with Python's sets."""

from __future__ import annotations

import numpy as np
import pytest

from lakeidx.bucket_assignment.hash_set import missing_from, sorted_distinct


def some(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-60, 60, n).astype(np.int32)


@pytest.mark.parametrize("few", [0, 1, 7, 100])
@pytest.mark.parametrize("many", [0, 1, 9, 40])
def test_operations_on_sorted_hashes_are_those_of_python_sets(few: int, many: int) -> None:
    a, b = some(few, 1), some(many, 2)
    wanted, known = sorted_distinct(a), sorted_distinct(b)
    assert wanted.tolist() == sorted(set(a.tolist()))
    assert missing_from(a, known).tolist() == sorted(set(a.tolist()) - set(b.tolist()))
