from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.bucket import buckets_of_hashes, fixed_buckets, hive_hashes
from lakeidx.codec.hashes.murmur import hash_words
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.errors import InvalidInputError
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root, parse_type
from tests.unit.codec.strategies import LAYOUTS, atomic_types, columns_of, laid_out, tables


def i32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def java_long_hash(value: int) -> int:
    value %= 2**64
    return i32(value ^ value >> 32)


def hive_hash(value: Any, t: DataType) -> int:
    """Plain model of Hive's field hash, from Java's documented hashCode rules."""
    if value is None:
        return 0
    if t.root is Root.FLOAT:
        return 0 if value == 0 else 0x7FC00000 if value != value else struct.unpack("<i", struct.pack("<f", value))[0]
    if t.root is Root.DOUBLE:
        bits = 0 if value == 0 else struct.unpack("<q", struct.pack("<d", value))[0]
        return java_long_hash(0x7FF8 << 48 if value != value else bits)
    if t.root is Root.BIGINT:
        return java_long_hash(value)
    if t.root in STRING_ROOTS or t.root in BYTES_ROOTS:
        h = 0
        for byte in value.encode() if isinstance(value, str) else value:
            h = 31 * h + (byte - 256 if byte > 127 else byte)
        return i32(h)
    if t.root is Root.DECIMAL:
        sign, digits, exponent = value.as_tuple()
        magnitude, scale = int("".join(map(str, digits))), -exponent
        while magnitude and scale and magnitude % 10 == 0:
            magnitude, scale = magnitude // 10, scale - 1
        if magnitude == 0:
            return 0
        h = 0
        for shift in (96, 64, 32, 0):
            h = 31 * h + (magnitude >> shift) % 2**32
        return i32(31 * (-h if sign else h) + scale)
    return int(value)


@pytest.mark.slow
@given(tables(atomic_types, max_columns=4), st.sampled_from(LAYOUTS), st.integers(1, 2**31 - 1))
@settings(deadline=None, max_examples=200)
def test_equals_the_plain_rules(table: tuple[list[DataType], list[list[Any]]], layout: str, n: int) -> None:
    types, rows = table
    columns = [laid_out(c, t, layout) for c, t in zip(columns_of(types, rows), types, strict=True)]
    hashes = [hash_words(encode_row(row, types)) for row in rows]
    # Java's % is truncated: abs(h % n) is abs(h) % n.
    assert fixed_buckets(columns, types, n).tolist() == [abs(h) % n for h in hashes]
    if any(t.root in TIMESTAMP_ROOTS for t in types):
        return
    expected = []
    for row in rows:
        h = 0
        for value, t in zip(row, types, strict=True):
            h = i32(31 * h + hive_hash(value, t))
        expected.append(h)
    assert hive_hashes(columns, types).view(np.int32).tolist() == expected
    assert fixed_buckets(columns, types, n, "hive").tolist() == [(h & 0x7FFFFFFF) % n for h in expected]


def test_examples_of_java() -> None:
    # Released Java Paimon 1.4.2.
    assert fixed_buckets([pa.array([1, 7])], [parse_type("INT")], 4).tolist() == [2, 3]
    assert fixed_buckets([pa.array([1, 7])], [parse_type("INT")], 7).tolist() == [5, 3]
    types = [parse_type("INT"), parse_type("STRING"), parse_type("DECIMAL(10, 2)")]
    columns = [pa.array([7]), pa.array(["ab"]), pa.array([Decimal("12.50")])]
    assert hive_hashes(columns, types).tolist() == [106858]
    assert fixed_buckets(columns, types, 8, "hive").tolist() == [2]


def test_the_most_negative_hash() -> None:
    hashes = np.array([-(2**31), -(2**31) + 1, -1, 0, 2**31 - 1], np.int32)
    for n in (1, 2, 5, 2**31 - 1):
        assert buckets_of_hashes(hashes, n).tolist() == [abs(int(h)) % n for h in hashes]


def test_mod_takes_the_remainder_of_the_number() -> None:
    values = [17, -3, 5, None, -(2**63), 2**63 - 1]
    wanted = [0 if v is None else v % 5 for v in values]
    assert fixed_buckets([pa.array(values)], [parse_type("BIGINT")], 5, "mod").tolist() == wanted
    assert fixed_buckets([pa.array([-1, 6], pa.int32())], [parse_type("INT")], 5, "mod").tolist() == [4, 1]
    for bad in ([parse_type("SMALLINT")], [parse_type("INT")] * 2, [parse_type("STRING")]):
        with pytest.raises(InvalidInputError, match="exactly one INT or BIGINT"):
            fixed_buckets([pa.nulls(1)] * len(bad), bad, 5, "mod")


def test_hive_takes_a_null_timestamp_but_no_other() -> None:
    t = parse_type("TIMESTAMP(3)")
    assert fixed_buckets([pa.nulls(2, pa.timestamp("ms"))], [t], 5, "hive").tolist() == [0, 0]
    with pytest.raises(InvalidInputError, match="TIMESTAMP"):
        fixed_buckets([pa.array([None, 5], pa.timestamp("ms"))], [t], 5, "hive")


def test_impossible_arguments_are_refused() -> None:
    column, t = pa.array([1]), parse_type("BIGINT")
    for n in (0, -1):
        with pytest.raises(InvalidInputError, match="must be positive"):
            fixed_buckets([column], [t], n)
    with pytest.raises(InvalidInputError, match="unknown bucket function 'crc'"):
        fixed_buckets([column], [t], 2, "crc")
    with pytest.raises(InvalidInputError, match="unequal length"):
        fixed_buckets([column, pa.array([1, 2])], [t, t], 2, "hive")
