"""Heads of Avro files: what they hold, and what a damaged one says."""

from __future__ import annotations

import zlib

import pytest

from lakeidx.codec.containers import avro_head
from lakeidx.codec.containers.avro_head import MAGIC, SYNC_SIZE, encode_long, file_head, head_size, read_head
from lakeidx.codec.cursor import Cursor
from lakeidx.errors import CorruptFileError
from tests.avro_checksum import as_others_write

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
    assert len(head) == head_size(SCHEMA, "zstd")
    assert head.endswith(b"\x14avro.codec\x12zstandard\x1alakeidx.crc32\x10" + checksum + b"\0" + SYNC)


@pytest.mark.parametrize("codec", ["zstandard", "null"])
def test_a_head_is_read(codec: str) -> None:
    cursor = Cursor(file_head(SCHEMA, codec, SYNC, [b"blocks"]) + b"blocks")
    assert read_head(cursor) == (SCHEMA.encode(), SYNC, codec.encode())
    assert bytes(cursor.rest()) == b"blocks"


def test_a_changed_checksum_is_an_error() -> None:
    data = bytearray(file_head(SCHEMA, "null", SYNC, []))
    data[-SYNC_SIZE - 2] ^= 1
    with pytest.raises(CorruptFileError, match="checksum does not match"):
        read_head(Cursor(bytes(data)))


def outcome(data: bytes) -> object:
    cursor = Cursor(data, "file")
    try:
        return *read_head(cursor), bytes(cursor.rest())
    except CorruptFileError as error:
        return str(error)


@pytest.mark.parametrize("theirs", [False, True], ids=["lakeidx", "other writers"])
def test_a_head_that_is_known_is_read_as_one_that_is_not(theirs: bool) -> None:
    """The fast path compares bytes; the walk through the metadata is its twin, for whole files and for damaged ones."""
    data = file_head(SCHEMA, "zstandard", SYNC, [b"the blocks"]) + b"the blocks"
    data = as_others_write(data) if theirs else data
    known = dict(avro_head._KNOWN)
    damaged = [data[:i] for i in range(len(data))]
    damaged += [data[:i] + bytes([data[i] ^ bit]) + data[i + 1 :] for i in range(len(data)) for bit in (1, 0x80)]
    for given in (data, *damaged):
        avro_head._KNOWN.clear()
        expected = outcome(given)
        avro_head._KNOWN.clear()
        assert outcome(data) == (SCHEMA.encode(), SYNC, b"zstandard", b"the blocks")
        assert avro_head._KNOWN
        assert outcome(given) == expected
    avro_head._KNOWN.update(known)


def test_only_so_many_heads_are_kept() -> None:
    for number in range(3 * avro_head._MOST_KNOWN):
        schema = SCHEMA + " " * number
        assert outcome(file_head(schema, "null", SYNC, [])) == (schema.encode(), SYNC, b"null", b"")
        assert len(avro_head._KNOWN) <= avro_head._MOST_KNOWN
