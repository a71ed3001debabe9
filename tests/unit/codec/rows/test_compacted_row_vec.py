from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.rows.compacted_row import encode_compacted, encode_compacted_rows, varint_sizes
from lakeidx.codec.rows.compacted_row_read import decode_compacted, decode_compacted_rows
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.codec.values import arrow_to_internal
from lakeidx.codec.varint import encode_varint
from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.types import DataType, parse_type, to_arrow
from tests.unit.codec.strategies import LAYOUTS, atomic_types, columns_of, laid_out, same, tables


def names_of(types: list[DataType]) -> list[str]:
    return [f"c{i}" for i in range(len(types))]


@pytest.mark.slow
@given(tables(max_columns=6), st.lists(st.sampled_from(LAYOUTS), min_size=6, max_size=6))
@settings(deadline=None, max_examples=300)
def test_equals_the_scalar_codec(table: tuple[list[DataType], list[list[Any]]], layouts: list[str]) -> None:
    types, rows = table
    columns = [laid_out(c, t, x) for c, t, x in zip(columns_of(types, rows), types, layouts, strict=False)]
    packed = encode_compacted_rows(columns, types)
    assert packed.to_list() == [encode_compacted(row, types) for row in rows]
    back = decode_compacted_rows(packed, types, names_of(types))
    back.validate(full=True)
    assert back.schema.types == [to_arrow(t) for t in types]
    assert same([list(r) for r in zip(*(arrow_to_internal(c, t) for c, t in zip(back.columns, types, strict=True)),
                                      strict=True)], rows)  # fmt: skip


@pytest.mark.slow
@given(tables(max_columns=3, max_rows=3), st.integers(1, 255))
@settings(deadline=None, max_examples=60)
def test_a_damaged_row_among_sound_ones_is_judged_as_alone(
    table: tuple[list[DataType], list[list[Any]]], change: int
) -> None:
    """A damaged row among sound ones: the same verdict as the scalar decoder, and the same values."""
    types, rows = table
    for values in rows:
        row = encode_compacted(values, types)
        for n in range(len(row)):
            check_like_scalar(row, row[:n], types)
            check_like_scalar(row, row[:n] + bytes([row[n] ^ change]) + row[n + 1 :], types)


def check_like_scalar(sound: bytes, damaged: bytes, types: list[DataType]) -> None:
    packed = RowBytes.from_list([sound, damaged, sound])
    try:
        expected = decode_compacted(damaged, types)
    except CorruptFileError:
        with pytest.raises(CorruptFileError):
            decode_compacted_rows(packed, types, names_of(types))
        return
    try:
        table = decode_compacted_rows(packed, types, names_of(types))
    except CorruptFileError:
        # Arrow holds less than the format (instants beyond 64 bits of its unit, null map keys): damage as well.
        return
    assert table.num_rows == 3
    for column, t, value in zip(table.columns, types, expected, strict=True):
        if t in PLAIN:
            assert same(column[1].as_py(), value)


PLAIN = [
    parse_type(t) for t in ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BYTES")
]


def test_offsets_may_begin_anywhere() -> None:
    types = [parse_type("INT"), parse_type("STRING")]
    packed = RowBytes.from_list([encode_compacted([i, "x" * i], types) for i in range(5)])
    part = decode_compacted_rows(packed.slice(2, 4), types, ["a", "b"])
    assert part.to_pylist() == [{"a": 2, "b": "xx"}, {"a": 3, "b": "xxx"}]


@pytest.mark.parametrize("room", [0, 1, 9, 17])
def test_room_is_left_behind_each_row(room: int) -> None:
    types = [parse_type(t) for t in ("INT", "STRING", "DECIMAL(38, 0)", "TIMESTAMP(9)")]
    rows: list[list[Any]] = [
        [-1, "x", Decimal(-(10**37)), (1, 2)],
        [None] * 4,
        [2**31 - 1, "y" * 300, Decimal(0), (-1, 999_999)],
    ]
    columns = columns_of(types, rows)
    assert encode_compacted_rows(columns, types, room=room).to_list() == [
        encode_compacted(row, types) + bytes(room) for row in rows
    ]


def test_no_rows_and_no_columns() -> None:
    types = [parse_type("INT"), parse_type("STRING"), parse_type("DECIMAL(38, 0)"), parse_type("TIMESTAMP(9)")]
    assert decode_compacted_rows(RowBytes.empty(), types, names_of(types)).num_rows == 0
    assert encode_compacted_rows([], [], 2).to_list() == [b"\0"] * 2
    assert decode_compacted_rows(RowBytes.from_list([b"\0"] * 2), [], []).shape == (2, 0)


@given(st.lists(st.integers(0, 2**31 - 1) | st.sampled_from([2**7, 2**7 - 1, 2**14, 2**21 - 1, 2**28]), max_size=9))
def test_sizes_of_varints_are_those_of_their_encoding(values: list[int]) -> None:
    assert varint_sizes(np.array(values, np.int64)).tolist() == [len(encode_varint(v)) for v in values]


def test_damage_is_named() -> None:
    text = [parse_type("STRING")]
    good = encode_compacted(["abc"], text)
    for bad, what in (
        (b"\0", "shorter than the 2 bytes"),
        (good[:-1], "ends inside a value"),
        (good + b"x", "bytes after its last field"),
        (b"\0\0\x80\x80\x80\x80\x80\x01", "bad length"),
        (b"\0\0\xff\xff\xff\xff\x0f", "bad length"),
        (b"\0\0\x01\xff", "not UTF-8"),
    ):
        with pytest.raises(CorruptFileError, match=what):
            decode_compacted_rows(RowBytes.from_list([good, bad]), text, ["c"])
    with pytest.raises(CorruptFileError, match="compacted row 1") as e:
        decode_compacted_rows(RowBytes.from_list([good, good[:-1]]), text, ["c"])
    assert e.value.offset == len(good)
    for type_text, row in (
        ("DECIMAL(2, 0)", "0000 6400000000000000"),
        ("DECIMAL(19, 0)", "0000 00"),
        ("DECIMAL(19, 0)", "0000 11" + "00" * 17),
        ("DECIMAL(19, 0)", "0000 10 7f" + "ff" * 15),
        ("TIMESTAMP(9)", "0000 0000000000000000 c0843d"),
        ("TIMESTAMP(9)", "0000 ffffffffffffff7f 00"),
        ("TIMESTAMP(6)", "0000 0000000000000010 00"),
        ("TIMESTAMP(6)", "0000 00000000000000f0 00"),
    ):
        with pytest.raises(CorruptFileError):
            decode_compacted_rows(RowBytes.from_list([bytes.fromhex(row)]), [parse_type(type_text)], ["c"])
    with pytest.raises(CorruptFileError, match="offsets"):
        decode_compacted_rows(RowBytes(np.zeros(2, np.uint8), np.array([0, 4])), text, ["c"])


def test_instants_lose_what_arrow_cannot_hold() -> None:
    row = encode_compacted([(-1, 999_999)], [parse_type("TIMESTAMP(9)")])
    table = decode_compacted_rows(RowBytes.from_list([row]), [parse_type("TIMESTAMP(6)")], ["c"])
    assert table.column(0).cast(pa.int64()).to_pylist() == [-1]


def test_names_must_match() -> None:
    with pytest.raises(InvalidInputError, match="1 names for 2 types"):
        decode_compacted_rows(RowBytes.empty(), [parse_type("INT")] * 2, ["a"])


@given(tables(atomic_types, max_columns=3, max_rows=3), st.binary(max_size=12))
@settings(deadline=None, max_examples=100)
def test_any_bytes_are_judged_as_by_the_scalar_decoder(
    table: tuple[list[DataType], list[list[Any]]], data: bytes
) -> None:
    types, _ = table
    try:
        assert decode_compacted_rows(RowBytes.from_list([data]), types, names_of(types)).num_rows == 1
    except CorruptFileError:
        with pytest.raises(CorruptFileError):
            decode_or_beyond_arrow(data, types)


def decode_or_beyond_arrow(data: bytes, types: list[DataType]) -> None:
    values = decode_compacted(data, types)
    if any(isinstance(v, tuple) for v in values):
        raise CorruptFileError("an instant that Arrow may not hold")
