from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.hashes.murmur import hash_bytes, hash_bytes_many, hash_words
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError


@given(st.lists(st.binary(max_size=40)))
@settings(deadline=None)
def test_many_equals_one(rows: list[bytes]) -> None:
    assert hash_bytes_many(RowBytes.from_list(rows)).tolist() == [hash_bytes(r) for r in rows]
    whole = [r[: len(r) // 4 * 4] for r in rows]
    assert hash_bytes_many(RowBytes.from_list(whole)).tolist() == [hash_words(r) for r in whole]
    assert hash_bytes_many(RowBytes.from_list(rows).slice(1, len(rows))).tolist() == [hash_bytes(r) for r in rows[1:]]


def test_rows_are_whole_words() -> None:
    with pytest.raises(InvalidInputError, match="5 bytes"):
        hash_words(b"12345")
