"""Hashes of values and bits of Bloom filters, against xxHash's own library and the scalar twins.

Files of the released Java with the same hashes and sizes are written again by `tests/golden_tests/test_file_index.py`.
"""

from __future__ import annotations

import numpy as np
import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from lakeidx.codec.hashes.bloom64 import bloom_hash_many, bloom_size, hash_longs, may_contain_any, set_hashes
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from tests.kit.scalar_twins import bloom64_positions, wang_mix

HASHES = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30)


@pytest.mark.parametrize(
    ("items", "fpp"), [(0, 0.1), (-5, 0.1), (10, 0.0), (10, 1.0), (10, float("nan")), (10, -1.0), (2**31 - 1, 0.01)]
)
def test_impossible_sizes_are_refused(items: int, fpp: float) -> None:
    with pytest.raises(InvalidInputError):
        bloom_size(items, fpp)


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


@given(HASHES)
def test_a_column_of_numbers_has_the_hash_of_each(values: list[int]) -> None:
    assert hash_longs(np.array(values, np.int64)).tolist() == [wang_mix(v) for v in values]


@given(st.lists(st.binary(max_size=100), max_size=20))
@example([bytes(range(1, n + 1)) for n in range(100)])
def test_a_column_of_strings_has_the_hash_of_xxhash(values: list[bytes]) -> None:
    expected = [xxhash.xxh64_intdigest(v) for v in values]
    assert bloom_hash_many(RowBytes.from_list(values)).view(np.uint64).tolist() == expected
