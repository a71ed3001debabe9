from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.hashes.murmur import hash_words
from lakeidx.codec.rows.binary_row import header_size, split_arity, with_arity
from lakeidx.codec.rows.binary_row_read import decode_array, decode_map, decode_row
from lakeidx.codec.rows.binary_row_write import encode_row, minimal_twos_complement
from lakeidx.codec.rows.compacted_row import encode_compacted
from lakeidx.codec.rows.compacted_row_read import decode_compacted
from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.types import DataType, parse_type
from tests.unit.codec.strategies import same, tables


def array_of(element: Any) -> dict[str, Any]:
    return {"type": "ARRAY", "element": element}


def row_of(*types: Any) -> dict[str, Any]:
    return {"type": "ROW", "fields": [{"id": i, "name": f"f{i}", "type": t} for i, t in enumerate(types)]}


ODD_FLOAT = struct.unpack("<f", bytes.fromhex("4523c17f"))[0]
ODD_DOUBLE = struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0]
# (types, values, BinaryRow, hash, compacted row) as the released Java 1.4.2 wrote them (InternalRowSerializer,
# RowCompactedSerializer): what the golden keys do not hold.
JAVA = {
    "variant": (
        ["VARIANT"],
        [(b"\1\2\3", b"\1\x08\x07\x06\x05")],
        "0000000000000000 0c00000010000000 0300000001020301 0807060500000000",
        1914372433,
        "0000 0a 03 010203 05 0108070605",
    ),
    "null variant": (["VARIANT"], [None], "0001000000000000 0000000000000000", -1748325344, "0001"),
    "NaN in a row keeps its bits": (
        ["FLOAT", "DOUBLE"],
        [ODD_FLOAT, ODD_DOUBLE],
        "0000000000000000 4523c17f00000000 010000000000f8ff",
        -32408391,
        "0000 4523c17f 010000000000f8ff",
    ),
    "NaN in an array is canonical": (
        [array_of("FLOAT"), array_of("DOUBLE")],
        [[ODD_FLOAT, None], [ODD_DOUBLE, -0.0]],
        "0000000000000000 1000000018000000 1800000028000000 0200000002000000 0000c07f00000000"
        "0200000000000000 000000000000f87f 0000000000000080",
        1244844924,
        "0000 10 02000000020000000000c07f00000000 18 0200000000000000000000000000f87f0000000000000080",
    ),
    "multiset": (
        [{"type": "MULTISET", "element": "STRING"}],
        [[("a", 2), ("long enough text", 3)]],
        "0000000000000000 3c00000010000000 2800000002000000 0000000061000000 0000008110000000 180000006c6f6e67"
        "20656e6f756768207465787402000000 00000000020000000300000000000000",
        174760658,
        "0000 3c 2800000002000000 0000000061000000 0000008110000000 180000006c6f6e67"
        "20656e6f756768207465787402000000 000000000200000003000000",
    ),
    "nulls in a nested row reserve space": (
        [row_of("DECIMAL(30, 3)", "TIMESTAMP(9)", "STRING")],
        [(None, None, None)],
        "0000000000000000 3800000010000000 0007000000000000 0000000020000000 0000000030000000" + "00" * 32,
        43914979,
        "0000 02 0007",
    ),
    "nulls in an array do not": (
        [array_of("DECIMAL(30, 3)"), array_of("TIMESTAMP(9)")],
        [[None, Decimal("-1.500")], [None, (-5, 7)]],
        "0000000000000000 2800000018000000 2000000040000000 0200000001000000 0000000000000000 0200000018000000"
        "fa24000000000000 0000000000000000 0200000001000000 0000000000000000 0700000018000000 fbffffffffffffff",
        -1000312136,
        "0000 28 0200000001000000 0000000000000000 0200000018000000 fa24000000000000 0000000000000000"
        "20 0200000001000000 0000000000000000 0700000018000000 fbffffffffffffff",
    ),
    "rows in an array, arrays in a map": (
        [array_of(row_of("INT", "STRING")), {"type": "MAP", "key": "INT", "value": array_of("TINYINT")}],
        [[(1, "x"), None, (None, "longer than seven")], [(5, [1, None, -1])]],
        "0000000000000000 6800000018000000 3400000080000000 0300000002000000 1800000020000000 0000000000000000"
        "3000000038000000 0000000000000000 0100000000000000 7800000000000081 0001000000000000 0000000000000000"
        "1100000018000000 6c6f6e6765722074 68616e2073657665 6e00000000000000 1000000001000000 0000000005000000"
        "0000000001000000 0000000010000000 1000000003000000 020000000100ff00 0000000000000000",
        -2113294814,
        "0000 68 0300000002000000 1800000020000000 0000000000000000 3000000038000000 0000000000000000"
        "0100000000000000 7800000000000081 0001000000000000 0000000000000000 1100000018000000 6c6f6e6765722074"
        "68616e2073657665 6e00000000000000 34 1000000001000000 0000000005000000 0000000001000000 0000000010000000"
        "1000000003000000 020000000100ff00 00000000",
    ),
    "narrow elements": (
        [array_of("BOOLEAN"), array_of("SMALLINT")],
        [[True, None, False], [-2]],
        "0000000000000000 1000000018000000 1000000028000000 0300000002000000 0100000000000000 0100000000000000"
        "feff000000000000",
        384464656,
        "0000 10 03000000020000000100000000000000 10 0100000000000000feff000000000000",
    ),
}


@pytest.mark.parametrize("case", JAVA)
def test_as_java_writes_it(case: str) -> None:
    type_forms, values, row, row_hash, compacted = JAVA[case]
    types = [parse_type(t) for t in type_forms]  # type: ignore[attr-defined]
    encoded = encode_row(values, types)  # type: ignore[arg-type]
    assert encoded.hex() == row.replace(" ", "")
    assert hash_words(encoded) == row_hash
    assert same(decode_row(encoded, types), values)
    assert encode_compacted(values, types).hex() == compacted.replace(" ", "")  # type: ignore[arg-type]
    assert same(decode_compacted(bytes.fromhex(compacted), types), values)


@given(tables(max_rows=2))
@settings(deadline=None)
def test_what_is_encoded_is_decoded(table: tuple[list[DataType], list[list[Any]]]) -> None:
    types, rows = table
    for values in rows:
        row = encode_row(values, types)
        assert len(row) % 8 == 0
        assert same(decode_row(row, types), values)
        assert split_arity(with_arity(row, len(types))) == (len(types), row)


def test_rows_are_hashed_by_whole_words() -> None:
    with pytest.raises(InvalidInputError, match="5 bytes"):
        hash_words(b"12345")


def test_header_grows_after_56_columns() -> None:
    assert [header_size(n) for n in (0, 1, 56, 57, 120, 121)] == [8, 8, 8, 16, 16, 24]
    types = [parse_type("INT")] * 57
    row = encode_row([None] * 56 + [1], types)
    assert row[:16].hex() == "00" + "ff" * 7 + "00" * 8
    assert encode_row([1] * 56 + [None], types)[:16].hex() == "00" * 8 + "01" + "00" * 7


def test_the_kind_is_byte_0() -> None:
    types = [parse_type("INT")]
    assert encode_row([1], types, 3)[0] == 3
    assert decode_row(encode_row([1], types, 3), types) == [1]


@pytest.mark.parametrize("value", [0, 1, -1, 127, 128, -128, -129, 255, 256, -(2**63), 2**63, -(2**127), 10**38 - 1])
def test_minimal_twos_complement(value: int) -> None:
    raw = minimal_twos_complement(value)
    assert int.from_bytes(raw, "big", signed=True) == value
    # One byte less would lose the value.
    if len(raw) > 1:
        with pytest.raises(OverflowError):
            value.to_bytes(len(raw) - 1, "big", signed=True)


@pytest.mark.parametrize(
    ("value", "type_form"),
    [
        (2**31, "INT"),
        ("1", "INT"),
        (1.5, "BIGINT"),
        (1e300, "FLOAT"),
        (5, "STRING"),
        ("\ud800", "STRING"),
        ("text", "BYTES"),
        (5, "BYTES"),
        (1.5, "DECIMAL(10, 2)"),
        (Decimal("0.001"), "DECIMAL(30, 2)"),
        ((0, 1_000_000), "TIMESTAMP(9)"),
        ((2**63, 0), "TIMESTAMP(3)"),
        (5, "TIMESTAMP(3)"),
        (5, array_of("INT")),
        (["x"], array_of("INT")),
        ((1,), row_of("INT", "INT")),
        (b"x", "VARIANT"),
        ([1], {"type": "MAP", "key": "INT", "value": "INT"}),
    ],
)
def test_values_that_are_not_of_the_type(value: Any, type_form: Any) -> None:
    t = parse_type(type_form)
    with pytest.raises(InvalidInputError):
        encode_row([value], [t])
    with pytest.raises(InvalidInputError):
        encode_compacted([value], [t])


def test_wrong_number_of_values() -> None:
    with pytest.raises(InvalidInputError, match="1 values for 2 columns"):
        encode_row([1], [parse_type("INT")] * 2)
    with pytest.raises(InvalidInputError, match="1 values for 2 columns"):
        encode_compacted([1], [parse_type("INT")] * 2)


@given(tables(min_columns=1, max_columns=3, max_rows=1), st.binary(max_size=8))
@settings(deadline=None, max_examples=60)
def test_a_damaged_row_is_a_value_or_an_error(table: tuple[list[DataType], list[list[Any]]], extra: bytes) -> None:
    """Cut at every byte, flip every byte: a value or CorruptFileError, nothing else."""
    types, rows = table
    for values in rows:
        row = encode_row(values, types)
        for n in range(len(row)):
            check_decodes_or_corrupt(row[:n], types)
            for change in (0x01, 0x80, 0xFF):
                check_decodes_or_corrupt(row[:n] + bytes([row[n] ^ change]) + row[n + 1 :], types)
        check_decodes_or_corrupt(extra, types)


def check_decodes_or_corrupt(data: bytes, types: list[DataType]) -> None:
    try:
        values = decode_row(data, types)
    except CorruptFileError:
        return
    assert len(values) == len(types)


def test_damage_is_named() -> None:
    text, wide = [parse_type("STRING")], [parse_type("DECIMAL(38, 0)")]
    row = encode_row(["longer than seven"], text)
    with pytest.raises(CorruptFileError, match="at least 16 bytes"):
        decode_row(row[:12], text)
    with pytest.raises(CorruptFileError, match="lie outside"):
        decode_row(row[:-8], text)
    with pytest.raises(CorruptFileError, match="inside a slot"):
        decode_row(bytes(15) + b"\x88", text)
    with pytest.raises(CorruptFileError, match="not UTF-8"):
        decode_row(bytes(8) + b"\xff" + bytes(6) + b"\x81", text)
    with pytest.raises(CorruptFileError, match="1 to 16 bytes"):
        decode_row(bytes(8) + struct.pack("<II", 0, 16) + bytes(16), wide)
    with pytest.raises(CorruptFileError, match="more digits"):
        decode_row(bytes(8) + struct.pack("<q", 100), [parse_type("DECIMAL(2, 0)")])
    with pytest.raises(CorruptFileError, match="nanos"):
        decode_row(bytes(8) + struct.pack("<II", 1_000_000, 16) + bytes(8), [parse_type("TIMESTAMP(9)")])
    with pytest.raises(CorruptFileError, match="elements"):
        decode_array(struct.pack("<i", -1), parse_type("INT"))
    with pytest.raises(CorruptFileError, match="key array"):
        decode_map(struct.pack("<i", 5), parse_type("INT"), parse_type("INT"))
    with pytest.raises(CorruptFileError, match="1 keys and 0 values"):
        decode_map(bytes.fromhex("10000000 01000000 00000000 05000000 00000000 00000000"), *[parse_type("INT")] * 2)
    for prefixed in (b"", b"\0\0\0", struct.pack(">i", -1) + bytes(8), struct.pack(">i", 2) + bytes(16)):
        with pytest.raises(CorruptFileError):
            split_arity(prefixed)


def test_a_huge_array_size_does_not_loop() -> None:
    with pytest.raises(CorruptFileError):
        decode_array(struct.pack("<i", 2**31 - 1) + bytes(64), parse_type("TINYINT"))
