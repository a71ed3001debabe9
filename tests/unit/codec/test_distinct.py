"""Distinct values are NumPy's own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.bucket_assignment.hash_set import ascending_distinct, sorted_distinct


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
@given(values=st.lists(st.one_of(st.integers(0, 5), st.integers(0, 2**31 - 1)), max_size=30))
def test_distinct_values_are_those_of_numpy(dtype: type, values: list[int]) -> None:
    given_values = np.array(values, dtype)  # type: ignore[var-annotated]
    found = sorted_distinct(given_values)
    assert found.dtype == given_values.dtype
    assert found.tolist() == np.unique(given_values).tolist()
    assert ascending_distinct(np.sort(np.repeat(given_values, 2))).tolist() == np.unique(given_values).tolist()
    assert given_values.tolist() == values
