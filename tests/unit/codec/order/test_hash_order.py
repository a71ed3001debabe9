"""Rows in the order of their hashes, compared with a plain stable sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.order.hash_order import hash_order

N = 5000


def spread(n: int, seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 2**64, n, dtype=np.uint64)


CASES = {
    "none": np.zeros(0, np.uint64),
    "few": spread(100, 1),
    "spread": spread(N, 2),
    "twice": np.concatenate([spread(N, 3), spread(N, 3)]),
    "one": np.full(N, 7, np.uint64),
    "low bits only": np.arange(N, dtype=np.uint64)[::-1].copy(),
    "high bits only": np.arange(N, dtype=np.uint64)[::-1] << np.uint64(50),
    "ascending": np.sort(spread(N, 4)),
    "runs": np.concatenate([np.sort(spread(N, s)) for s in range(6)]),
    "largest": np.append(spread(N, 5), np.array([2**64 - 1, 0], np.uint64)),
}


@pytest.mark.parametrize("name", CASES)
def test_order_is_that_of_a_stable_sort(name: str) -> None:
    hashes = CASES[name]
    before = hashes.copy()
    assert hash_order(hashes).tolist() == sorted(range(len(hashes)), key=lambda i: int(hashes[i]))
    assert (hashes == before).all()


@given(st.integers(512, 9000), st.integers(0, 2**32), st.integers(1, 64))
@settings(max_examples=25, deadline=None)
def test_hashes_of_any_spread(n: int, seed: int, bits: int) -> None:
    hashes = spread(n, seed) >> np.uint64(64 - bits)
    assert (hash_order(hashes) == np.argsort(hashes, kind="stable")).all()
