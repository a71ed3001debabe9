"""Values without rows: positions as varints."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.codec.varint import decode_varint, encode_varint
from lakeidx.errors import CorruptFileError
from lakeidx.lookup.value_rows import decode_positions, encode_positions

MOST = 2**63 - 1
positions = st.integers(0, 300) | st.integers(0, 62).map(lambda b: (1 << b) - 1) | st.integers(0, MOST)


@given(st.lists(positions, max_size=20))
def test_positions_are_varints(values: list[int]) -> None:
    encoded = encode_positions(np.array(values, np.int64))
    assert encoded.to_list() == [encode_varint(v) for v in values]
    assert decode_positions(encoded, 2**63).tolist() == values


@given(st.lists(st.binary(max_size=10), min_size=1, max_size=4))
def test_any_bytes_are_positions_or_damage(values: list[bytes]) -> None:
    def scalar(value: bytes) -> int:
        number, end = decode_varint(value, 0, limit=999)
        if end != len(value) or len(value) > 9:
            raise CorruptFileError("bytes follow")
        return number

    try:
        expected = [scalar(v) for v in values]
    except CorruptFileError:
        with pytest.raises(CorruptFileError):
            decode_positions(RowBytes.from_list(values), 1000)
    else:
        assert decode_positions(RowBytes.from_list(values), 1000).tolist() == expected


def test_a_position_behind_the_last_row() -> None:
    with pytest.raises(CorruptFileError, match="position is 7, but the data file has 7 rows"):
        decode_positions(encode_positions(np.array([0, 7])), 7, "x")
