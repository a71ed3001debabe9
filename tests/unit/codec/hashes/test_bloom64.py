"""Bloom filter sizing and bits, against the scalar twin and worked examples of the released Java."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.codec.hashes.bloom64 import bloom_hash_many, bloom_size, may_contain_any, set_hashes
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from tests.kit.scalar_twins import bloom64_positions, wang_mix

HASHES = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30)


def test_sizes_are_those_of_paimon() -> None:
    assert bloom_size(1_000_000, 0.1) == (599_067 * 8, 3)
    assert bloom_size(10, 0.1) == (48, 3)


@pytest.mark.parametrize(
    ("items", "fpp"), [(0, 0.1), (-5, 0.1), (10, 0.0), (10, 1.0), (10, float("nan")), (10, -1.0), (2**31 - 1, 0.01)]
)
def test_impossible_sizes_are_refused(items: int, fpp: float) -> None:
    with pytest.raises(InvalidInputError):
        bloom_size(items, fpp)


@pytest.mark.parametrize(
    ("hashes", "expected"),
    [
        ([wang_mix(v) for v in (1, 2, 3)], "892001504000"),
        (bloom_hash_many(RowBytes.from_list([b"a", b"b"])).tolist(), "082000700200"),
    ],
)
def test_bits_as_java_sets_them(hashes: list[int], expected: str) -> None:
    bits, functions = bloom_size(10, 0.1)
    made = np.zeros(bits // 8, np.uint8)
    set_hashes(made, np.array(hashes, np.int64), functions)
    assert made.tobytes().hex() == expected
    assert all(may_contain_any(memoryview(made.tobytes()), np.array([h], np.int64), functions) for h in hashes)


@given(HASHES, HASHES, st.sampled_from([(8, 1), (48, 3), (599_067 * 8, 3), (1024, 17)]))
def test_same_bits_as_the_scalar_twin(hashes: list[int], others: list[int], size: tuple[int, int]) -> None:
    bits, functions = size
    made = np.zeros(bits // 8, np.uint8)
    set_hashes(made, np.array(hashes, np.int64), functions)
    wanted = {p for h in hashes for p in bloom64_positions(h, bits, functions)}
    assert set(np.flatnonzero(np.unpackbits(made, bitorder="little")).tolist()) == wanted
    view = memoryview(made.tobytes())
    for h in others:
        assert may_contain_any(view, np.array([h], np.int64), functions) == all(
            p in wanted for p in bloom64_positions(h, bits, functions)
        )
