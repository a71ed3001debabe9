"""Sizes of Bloom filters, and hashes of strings against xxHash's own library.

Files of the released Java with the same hashes, sizes and bits are written again by `tests/golden_tests/test_file_index.py`.
"""

from __future__ import annotations

import numpy as np
import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from lakeidx.codec.hashes.bloom64 import bloom_hash_many, bloom_size
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError


@pytest.mark.parametrize(
    ("items", "fpp"), [(0, 0.1), (-5, 0.1), (10, 0.0), (10, 1.0), (10, float("nan")), (10, -1.0), (2**31 - 1, 0.01)]
)
def test_impossible_sizes_are_refused(items: int, fpp: float) -> None:
    with pytest.raises(InvalidInputError):
        bloom_size(items, fpp)


@given(st.lists(st.binary(max_size=100), max_size=20))
@example([bytes(range(1, n + 1)) for n in range(100)])
def test_a_column_of_strings_has_the_hash_of_xxhash(values: list[bytes]) -> None:
    expected = [xxhash.xxh64_intdigest(v) for v in values]
    assert bloom_hash_many(RowBytes.from_list(values)).view(np.uint64).tolist() == expected
