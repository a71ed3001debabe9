"""Kernels against plain loops."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.arrays import frozen
from lakeidx.data.merge.kernels import empty_rows, is_rising


@pytest.mark.slow
@settings(deadline=None)
@given(st.integers(1, 3), st.lists(st.integers(0, 40), max_size=12), st.booleans())
def test_rising_keys_of_whole_words(width: int, numbers: list[int], in_order: bool) -> None:
    """One and two words are compared several keys at a time, more of them key by key."""
    if in_order:
        numbers = sorted(set(numbers))
    keys = [tuple(n // 3**k % 3 if k else n % 3 for k in reversed(range(width))) for n in numbers]
    words = np.array(keys, np.uint64).reshape(len(keys), width)
    wanted = all(a < b for a, b in pairwise(keys))
    for check in (is_rising, getattr(is_rising, "py_func", is_rising)):
        assert bool(check(frozen(words), *map(frozen, empty_rows()), True)) is wanted
