"""Hash functions of Hudi's filters: the scalar forms against plain models of their description."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.codec.hudi.bloom import JENKINS
from lakeidx.errors import InvalidInputError
from tests.kit.scalar_twins import bloom_positions, jenkins_hash, murmur_hash

KEYS = st.binary(min_size=1, max_size=70)
SEEDS = st.integers(-(2**31), 2**31 - 1)


def _model_murmur(data: bytes, seed: int) -> int:
    """Murmur2 with the tail read as a Java program would: signed bytes, from the end."""
    m = 0x5BD1E995
    h = (seed ^ len(data)) % 2**32
    whole = len(data) // 4
    for (k,) in struct.iter_unpack("<I", data[: 4 * whole]):
        k = k * m % 2**32
        k = (k ^ k // 2**24) * m % 2**32
        h = (h * m % 2**32) ^ k
    signed = struct.unpack(f">{len(data)}b", data)
    left = len(data) - 4 * whole
    if left:
        for distance, shift in ((3, 16), (2, 8), (1, 0)):
            if left >= distance:
                h ^= (signed[-distance] << shift) % 2**32
        h = h * m % 2**32
    h = (h ^ h // 2**13) * m % 2**32
    h ^= h // 2**15
    return int(struct.unpack(">i", struct.pack(">I", h))[0])


@given(KEYS, SEEDS)
def test_murmur_is_the_described_one(data: bytes, seed: int) -> None:
    assert murmur_hash(data, seed) == _model_murmur(data, seed)


def test_jenkins_of_the_authors_own_examples() -> None:
    """The two values in the comments of Bob Jenkins' lookup3.c (hashlittle of "Four score and seven years ago")."""
    text = b"Four score and seven years ago"
    assert jenkins_hash(text, 0) % 2**32 == 0x17770551
    assert jenkins_hash(text, 1) % 2**32 == 0xCD628161


@given(KEYS, st.integers(1, 40), st.integers(1, 2**31 - 1), st.sampled_from([0, 1]))
def test_positions_chain_and_stay_inside(data: bytes, rounds: int, bits: int, hash_type: int) -> None:
    found = bloom_positions(data, rounds=rounds, bits=bits, hash_type=hash_type)
    assert len(found) == rounds
    assert all(0 <= p < bits for p in found)
    function = jenkins_hash if hash_type == JENKINS else murmur_hash
    seed = 0
    for p in found:
        seed = function(data, seed)
        # Java's remainder has the sign of the dividend.
        remainder = seed % bits if seed >= 0 else -(-seed % bits)
        assert p == abs(remainder)


@pytest.mark.parametrize("function", [murmur_hash, jenkins_hash])
def test_empty_key_is_refused(function) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidInputError, match="empty"):
        function(b"", 0)
