"""The filter of a batch's hashes: what passes is all of the batch that a file has, in file order, and nothing that is not in it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.bucket_assignment.hash_set import HashFilter

HASHES = st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(-40, 40), max_size=60)


def scalar_passes(batch: list[int], bits: int, value: int) -> bool:
    """The row-by-row form: some hash of the batch has the same top bits."""
    shift = 32 - bits
    return any((h & 0xFFFFFFFF) >> shift == (value & 0xFFFFFFFF) >> shift for h in batch)


@given(HASHES, HASHES)
def test_passing_is_the_scalar_rule(batch: list[int], stored: list[int]) -> None:
    made = HashFilter([np.array(batch, np.int32)])
    bits = (8 * made.memory_bytes).bit_length() - 1
    found = made.passing(np.array(stored, np.int32))
    assert found.tolist() == [h for h in stored if scalar_passes(batch, bits, h)]
    assert {h for h in stored if h in set(batch)} <= set(found.tolist())


@pytest.mark.slow
def test_few_strangers_pass_a_large_file() -> None:
    rng = np.random.default_rng(3)
    stored = np.unique(rng.integers(-(2**31), 2**31, 400_000).astype(np.int32))
    batch = rng.permutation(stored)[:5_000]
    made = HashFilter([batch[:100], batch[100:]])
    found = made.passing(stored)
    assert np.isin(batch, found).all()
    assert np.isin(found, stored).all()
    assert len(found) < 5_000 + 0.05 * len(stored)


def test_an_empty_batch_and_an_empty_file() -> None:
    assert HashFilter([]).passing(np.array([1, 2], np.int32)).tolist() == []
    assert HashFilter([np.array([5], np.int32)]).passing(np.zeros(0, np.int32)).tolist() == []


@pytest.mark.slow
def test_the_largest_filter_is_bounded() -> None:
    ends = np.array([-(2**31), -1, 0, 2**31 - 1], np.int32)
    made = HashFilter([np.resize(ends, 1 << 25)])
    assert made.memory_bytes == 64 << 20
    assert made.passing(ends).tolist() == ends.tolist()
