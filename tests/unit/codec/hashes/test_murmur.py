from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.hashes.murmur import hash_bytes, hash_words
from lakeidx.errors import InvalidInputError


@given(st.binary(max_size=40))
@settings(deadline=None)
def test_whole_words_have_one_hash(data: bytes) -> None:
    whole = data[: len(data) // 4 * 4]
    assert hash_bytes(whole) == hash_words(whole)


def test_rows_are_whole_words() -> None:
    with pytest.raises(InvalidInputError, match="5 bytes"):
        hash_words(b"12345")
