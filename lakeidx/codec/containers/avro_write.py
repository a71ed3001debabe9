"""Avro object container files written; `lakeidx.codec.containers.avro` has their layout, and reads them."""

from __future__ import annotations

import functools
import io
import json
import os
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, islice, takewhile
from typing import Any, TypeVar

from fastavro import schemaless_writer

from lakeidx.codec.containers.avro import (
    CHECKSUM_KEY,
    CODEC_KEY,
    MAGIC,
    RECORDS,
    SCHEMA_KEY,
    SYNC_SIZE,
    Record,
    block_schema,
    encode_long,
)
from lakeidx.codec.containers.avro_codecs import codec_name, compressor
from lakeidx.codec.containers.checksum import crc32

T = TypeVar("T")
#: Digits of a checksum, and their number as Avro writes it.
_DIGITS, _DIGITS_LENGTH = 8, b"\x10"
# The Java writer closes a block once this many uncompressed bytes are in it.
BLOCK_BYTES = 64_000


class RecordSchema:
    """A record schema, parsed once: its exact text for file headers, and fastavro's form of a block of these records.

    raw   the text as bytes
    """

    __slots__ = ("block", "raw", "text")

    def __init__(self, schema: dict[str, Any]) -> None:
        self.text = json.dumps(schema, separators=(",", ":"))
        self.raw = self.text.encode()
        self.block = block_schema(schema)


def encode_container(
    items: Sequence[T],
    schema: RecordSchema,
    to_record: Callable[[T], Record],
    *,
    codec: str = "zstandard",
    level: int = 1,
    sync: bytes | None = None,
) -> bytes:
    """Write an Avro object container file.

    to_record   makes an item's record; called block by block, so that not all records are there at once
    codec       ``zstandard`` (or ``zstd``), ``null``, ``deflate`` or ``snappy``
    level       for zstandard and deflate
    sync        16 bytes; random when left out
    errors      InvalidInputError for another codec
    """
    copier, compress = RecordCopier(schema.text, codec=codec, level=level, sync=sync), compressor(codec, level)
    start, step = 0, 64
    while start < len(items):
        chunk = [to_record(item) for item in items[start : start + step]]
        buffer = io.BytesIO()
        schemaless_writer(buffer, schema.block, {RECORDS: chunk})
        raw = buffer.getbuffer()
        # An array is its count, its items and a closing 0; a block wants the items alone.
        copier.add_block(len(chunk), compress(raw[len(encode_long(len(chunk))) : -1]))
        start += step
        step = max(1, BLOCK_BYTES * len(chunk) // len(raw))
    return copier.finish()


class RecordCopier:
    """Writes an Avro object container file of records or blocks that are encoded already, for files that are rolled at a size.

    schema   JSON text of the schema the records were written with
    codec    as `encode_container` takes it
    sync     16 bytes; random when left out
    errors   InvalidInputError for another codec
    """

    def __init__(self, schema: str, *, codec: str, level: int, sync: bytes | None = None) -> None:
        self._compress = compressor(codec, level)
        self._sync = os.urandom(SYNC_SIZE) if sync is None else sync
        self._schema, self._codec = schema, codec
        self._blocks: list[bytes | memoryview] = []
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self.size = len(_prefix(schema, codec)[0]) + _DIGITS + 1 + SYNC_SIZE

    @property
    def pending(self) -> bool:
        """True when records wait for their block to be closed, so that they are not part of `size`."""
        return bool(self._pending)

    def add(self, records: Sequence[bytes], first: int = 0) -> int:
        """Add records from position `first` on, up to the one that closes a block; return the position after the last one added."""
        sizes = accumulate(map(len, islice(records, first, None)), initial=self._pending_bytes)
        below = [*takewhile(BLOCK_BYTES.__gt__, sizes)]
        last = first + len(below)
        self._pending += records[first:last]
        self._pending_bytes = below[-1]
        if last > len(records):
            return len(records)
        self._close_block()
        return last

    def add_block(self, count: int, body: bytes | memoryview) -> None:
        """Add a block of the same codec as it is, of so many records; records that wait for their own block follow it."""
        parts = encode_long(count), encode_long(len(body)), body, self._sync
        self._blocks += parts
        self.size += sum(map(len, parts))

    def finish(self) -> bytes:
        """Return the file."""
        if self._pending:
            self._close_block()
        return b"".join((_file_head(self._schema, self._codec, self._sync, self._blocks), *self._blocks))

    def _close_block(self) -> None:
        self.add_block(len(self._pending), self._compress(b"".join(self._pending)))
        self._pending, self._pending_bytes = [], 0


def _file_head(schema: str, codec: str, sync: bytes, blocks: Iterable[bytes | memoryview]) -> bytes:
    """Return the bytes before the blocks of a file; their number does not depend on the blocks."""
    prefix, start = _prefix(schema, codec)
    return b"%b%08x\x00%b" % (prefix, crc32(sync, *blocks, start=start), sync)


def _encode_bytes(raw: bytes) -> bytes:
    """Encode a byte string as Avro does."""
    return encode_long(len(raw)) + raw


@functools.lru_cache(maxsize=64)
def _prefix(schema: str, codec: str) -> tuple[bytes, int]:
    """Return the head up to its checksum, and the checksum of schema and codec."""
    raw, name = schema.encode(), codec_name(codec).encode()
    texts = (SCHEMA_KEY, raw, CODEC_KEY, name, CHECKSUM_KEY)
    written = b"".join((MAGIC, encode_long(len(texts) // 2 + 1), *map(_encode_bytes, texts), _DIGITS_LENGTH))
    return written, crc32(raw, name)
