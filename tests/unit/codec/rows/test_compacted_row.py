from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.rows.compacted_row import compacted_header_size, encode_compacted
from lakeidx.codec.rows.compacted_row_read import decode_compacted
from lakeidx.errors import CorruptFileError
from lakeidx.types import DataType, parse_type
from tests.unit.codec.strategies import same, tables


@given(tables(max_rows=2))
@settings(deadline=None)
def test_what_is_encoded_is_decoded(table: tuple[list[DataType], list[list[Any]]]) -> None:
    types, rows = table
    for values in rows:
        assert same(decode_compacted(encode_compacted(values, types), types), values)


def test_the_header_has_a_bit_for_each_field() -> None:
    assert [compacted_header_size(n) for n in (0, 1, 8, 9, 16, 17)] == [1, 2, 2, 3, 3, 4]
    assert encode_compacted([], []) == b"\0"
    assert encode_compacted([1, "ab"], [parse_type("INT"), parse_type("STRING")], 3)[0] == 3
    assert decode_compacted(b"\0", []) == []


@given(tables(max_columns=3, max_rows=1), st.binary(max_size=8))
@settings(deadline=None, max_examples=60)
def test_a_damaged_row_is_a_value_or_an_error(table: tuple[list[DataType], list[list[Any]]], extra: bytes) -> None:
    """Cut at every byte, flip every byte, append: a value or CorruptFileError, nothing else."""
    types, rows = table
    for values in rows:
        row = encode_compacted(values, types)
        for n in range(len(row)):
            # What is missing is always noticed: nothing in a compacted row is optional.
            with pytest.raises(CorruptFileError):
                decode_compacted(row[:n], types)
            for change in (0x01, 0x80, 0xFF):
                decodes_or_corrupt(row[:n] + bytes([row[n] ^ change]) + row[n + 1 :], types)
        with pytest.raises(CorruptFileError):
            decode_compacted(row + b"\0", types)
        decodes_or_corrupt(extra, types)


def decodes_or_corrupt(data: bytes, types: list[DataType]) -> None:
    try:
        values = decode_compacted(data, types)
    except CorruptFileError:
        return
    assert len(values) == len(types)
