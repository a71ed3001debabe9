"""Hashes of values: known answers of the released Java, xxHash's own library, and the slow twins."""

from __future__ import annotations

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.codec.hashes.bloom64 import bloom_hash_many, hash_longs
from lakeidx.codec.rows.rowbytes import RowBytes
from tests.kit.scalar_twins import wang_mix

INT64 = st.integers(-(2**63), 2**63 - 1)
DOUBLE_1_5 = 0x3FF8000000000000


@pytest.mark.parametrize(
    ("value", "expected"), [(1, 0x5BCA7C69B794F8CE), (-1, 0x5BCA868437950D03), (DOUBLE_1_5, 0x3DDDFF49A005B9C8)]
)
def test_numbers_as_java_hashes_them(value: int, expected: int) -> None:
    assert wang_mix(value) & (1 << 64) - 1 == expected
    assert hash_longs(np.array([value], np.int64)).view(np.uint64)[0] == expected


@pytest.mark.parametrize(("value", "expected"), [(b"a", 0xD24EC4F1A98C6E5B), (b"paimon", 0x088C6247BF3815E4)])
def test_strings_as_java_hashes_them(value: bytes, expected: int) -> None:
    assert bloom_hash_many(RowBytes.from_list([value])).view(np.uint64)[0] == expected


@given(st.lists(INT64, max_size=20))
def test_a_column_of_numbers_has_the_hash_of_each(values: list[int]) -> None:
    assert hash_longs(np.array(values, np.int64)).tolist() == [wang_mix(v) for v in values]


@given(st.lists(st.binary(max_size=100), max_size=20))
def test_a_column_of_strings_has_the_hash_of_xxhash(values: list[bytes]) -> None:
    expected = [xxhash.xxh64_intdigest(v) for v in values]
    assert bloom_hash_many(RowBytes.from_list(values)).view(np.uint64).tolist() == expected


def test_every_length_up_to_three_stripes() -> None:
    values = [bytes(range(1, n + 1)) for n in range(100)]
    assert bloom_hash_many(RowBytes.from_list(values)).view(np.uint64).tolist() == [
        xxhash.xxh64_intdigest(v) for v in values
    ]
