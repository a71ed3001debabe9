"""Heads of Avro files: what they hold, and what a damaged one says."""

from __future__ import annotations

import zlib

import pytest

from lakeidx.codec.containers.avro_head import MAGIC, SYNC_SIZE, encode_long, file_head, read_head
from lakeidx.codec.cursor import Cursor
from lakeidx.errors import CorruptFileError

SCHEMA = '{"type":"record","name":"record","fields":[{"name":"a","type":"int"}]}'
SYNC = bytes(range(SYNC_SIZE))


@pytest.mark.parametrize(
    ("value", "expected"), [(0, b"\0"), (-1, b"\1"), (63, b"\x7e"), (64, b"\x80\1"), (-65, b"\x81\1")]
)
def test_longs_are_zigzag_varints(value: int, expected: bytes) -> None:
    assert encode_long(value) == expected


def test_a_head_ends_with_the_checksum_of_all_that_counts() -> None:
    head = file_head(SCHEMA, "zstd", SYNC, [b"one", memoryview(b"two")])
    checksum = f"{zlib.crc32(SCHEMA.encode() + b'zstandard' + SYNC + b'onetwo'):08x}".encode()
    assert head.startswith(MAGIC)
    assert head.endswith(b"\x14avro.codec\x12zstandard\x1alakeidx.crc32\x10" + checksum + b"\0" + SYNC)


@pytest.mark.parametrize("codec", ["zstandard", "null"])
def test_a_head_is_read(codec: str) -> None:
    cursor = Cursor(file_head(SCHEMA, codec, SYNC, [b"blocks"]) + b"blocks")
    assert read_head(cursor) == (SCHEMA.encode(), SYNC, codec.encode())
    assert cursor.rest() == b"blocks"


def test_a_changed_checksum_is_an_error() -> None:
    data = bytearray(file_head(SCHEMA, "null", SYNC, []))
    data[-SYNC_SIZE - 2] ^= 1
    with pytest.raises(CorruptFileError, match="checksum does not match"):
        read_head(Cursor(bytes(data)))
