"""Heads of Avro files: what they hold, and what a damaged one says."""

from __future__ import annotations

import zlib

import pytest

from lakeidx.codec.containers.avro import MAGIC, SYNC_SIZE, packed_blocks
from lakeidx.codec.containers.avro_write import RecordCopier
from tests.kit.avro_checksum import as_others_write

SCHEMA = '{"type":"record","name":"record","fields":[{"name":"a","type":"int"}]}'
SYNC = bytes(range(SYNC_SIZE))


def written(codec: str) -> bytes:
    copier = RecordCopier(SCHEMA, codec=codec, level=1, sync=SYNC)
    size = copier.size
    copier.add_block(100, b"blocks")
    data = copier.finish()
    assert copier.size == len(data) == size + 2 + 1 + 6 + SYNC_SIZE
    return data


def test_a_head_ends_with_the_checksum_of_all_that_counts() -> None:
    data = written("zstd")
    # 100 and 6 as zigzag varints.
    block = b"\xc8\x01\x0cblocks" + SYNC
    checksum = f"{zlib.crc32(SCHEMA.encode() + b'zstandard' + SYNC + block):08x}".encode()
    assert data.startswith(MAGIC)
    assert data.endswith(b"\x14avro.codec\x12zstandard\x1alakeidx.crc32\x10" + checksum + b"\0" + SYNC + block)


@pytest.mark.parametrize("codec", ["zstandard", "null"])
@pytest.mark.parametrize("theirs", [False, True], ids=["lakeidx", "other writers"])
def test_a_head_is_read(codec: str, theirs: bool) -> None:
    data = as_others_write(written(codec)) if theirs else written(codec)
    schema, found, blocks = packed_blocks(data)
    assert (schema, found) == (SCHEMA.encode(), codec)
    assert [(b.count, bytes(b.packed)) for b in blocks] == [(100, b"blocks")]
    assert packed_blocks(written(codec))[0] is schema
