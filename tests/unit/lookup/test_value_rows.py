"""Values of lookup files: rows with their tails, and positions as varints; each beside what `struct` makes of one entry."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.codec.varint import decode_varint, encode_varint
from lakeidx.errors import CorruptFileError
from lakeidx.lookup.value_rows import (
    Processor,
    ValueRows,
    decode_positions,
    decode_value_rows,
    encode_positions,
    encode_value_rows,
)

MOST = 2**63 - 1
positions = st.integers(0, 300) | st.integers(0, 62).map(lambda b: (1 << b) - 1) | st.integers(0, MOST)


entries = st.tuples(st.binary(max_size=20), st.integers(-(2**63), MOST), st.integers(0, 3), positions)


@given(st.lists(entries, max_size=20), st.booleans(), st.integers(0, 3))
def test_rows_with_their_tails(values: list[tuple[bytes, int, int, int]], with_positions: bool, skipped: int) -> None:
    processor = Processor.POSITION_AND_VALUE if with_positions else Processor.VALUE
    rows = [row for row, _, _, _ in values]
    room = RowBytes.from_list([b"x" * skipped, *(row + bytes(processor.tail) for row in rows)])
    given_ = ValueRows(
        RowBytes(room.data.copy(), room.offsets).slice(1, len(values) + 1),
        np.array([sequence for _, sequence, _, _ in values], np.int64),
        np.array([kind for _, _, kind, _ in values], np.int8),
        np.array([position for _, _, _, position in values], np.int64) if with_positions else None,
    )
    encoded = encode_value_rows(given_.rows, given_.sequences, given_.kinds, given_.positions)
    assert encoded.to_list() == [
        row + (struct.pack("<q", position) if with_positions else b"") + struct.pack("<qb", sequence, kind)
        for row, sequence, kind, position in values
    ]
    # The values that a reader answers with may be some in the middle of others.
    padded = RowBytes.from_list([b"y", *encoded.to_list(), b"z"]).slice(1, len(values) + 1)
    for decoded in (decode_value_rows(encoded, processor), decode_value_rows(padded, processor)):
        assert decoded.rows.to_list() == rows
        assert decoded.sequences.tolist() == given_.sequences.tolist()
        assert decoded.kinds.tolist() == given_.kinds.tolist()
        assert (decoded.positions is None) == (not with_positions)
        if decoded.positions is not None:
            assert decoded.positions.tolist() == [position for _, _, _, position in values]


@pytest.mark.parametrize(("value", "message"), [(b"12345678", "shorter"), (bytes(8) + b"\4", "row kind")])
def test_a_damaged_tail(value: bytes, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message):
        decode_value_rows(RowBytes.from_list([bytes(9), value]), Processor.VALUE, "x")


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
