"""Avro object container files, as Paimon writes its manifests.

=======  =============================================================================================
bytes    content
=======  =============================================================================================
4        ``Obj`` 01
varies   map of metadata (long count, then string key + bytes value each, closed by count 0)
16       sync marker, random per file
then     blocks: long record count, long byte length, the (compressed) records, the sync marker again
=======  =============================================================================================

Longs are zigzag varints. Avro itself has no checksum, and a file that is cut at a block is a whole one to it: files that lakeidx
writes hold one in their metadata, under ``"lakeidx.crc32"``, eight hexadecimal digits over the schema, the codec, the sync marker
and all blocks. Other programs pass over it; a file without it is read as it is.

Records are decoded by fastavro, a whole block per call (a block is an Avro array without its count and end mark); by the
*writer's* schema, so that callers pick fields by name, take ``None`` for those that are missing and keep those they do not know
(`lakeidx.codec.containers.avro_unknown`).

source   Avro 1.11 specification; org.apache.paimon.format.avro.AvroFileFormat, release 1.4.2
"""

from __future__ import annotations

import functools
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, takewhile
from typing import Any, TypeVar

from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.schema import SchemaParseException

from lakeidx.codec.containers.avro_codecs import (
    DECODE_ERRORS,
    INFLATE_ERRORS,
    Unpack,
    codec_name,
    compressor,
    inflate_of,
)
from lakeidx.codec.containers.avro_schemas import plain_schema
from lakeidx.codec.containers.checksum import crc32
from lakeidx.codec.cursor import Cursor
from lakeidx.errors import CorruptFileError

MAGIC = b"Obj\x01"
SYNC_SIZE = 16
_SCHEMA, _CODEC, _CHECKSUM = b"avro.schema", b"avro.codec", b"lakeidx.crc32"
#: Digits of a checksum, and their number as Avro writes it.
_DIGITS, _DIGITS_LENGTH = 8, b"\x10"
# The Java writer closes a block once this many uncompressed bytes are in it.
BLOCK_BYTES = 64_000
_RECORDS = "records"
Record = dict[str, Any]
T = TypeVar("T")


class RecordSchema:
    """A record schema, parsed once: its exact text for file headers, and fastavro's form of a block of these records.

    raw   the text as bytes
    """

    __slots__ = ("block", "raw", "text")

    def __init__(self, schema: dict[str, Any]) -> None:
        self.text = json.dumps(schema, separators=(",", ":"))
        self.raw = self.text.encode()
        self.block = _block_schema(schema)


def _block_schema(record: dict[str, Any]) -> Any:
    # The array is the only field of a record, which adds no bytes: fastavro parses all but records anew in each call.
    array = {"type": "array", "items": record}
    return parse_schema({"type": "record", "name": "_lakeidx_block", "fields": [{"name": _RECORDS, "type": array}]})


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
    copier = RecordCopier(schema.text, codec=codec, level=level, sync=sync)
    for count, body in encode_blocks(items, schema, to_record, codec=codec, level=level):
        copier.add_block(count, body)
    return copier.finish()


def encode_blocks(
    items: Sequence[T], schema: RecordSchema, to_record: Callable[[T], Record], *, codec: str, level: int = 1
) -> Iterator[tuple[int, bytes]]:
    """Encode the blocks of a file: of each the number of records, and these, compressed; arguments of `encode_container`."""
    compress = compressor(codec, level)
    start, step = 0, 64
    while start < len(items):
        chunk = [to_record(item) for item in items[start : start + step]]
        buffer = io.BytesIO()
        schemaless_writer(buffer, schema.block, {_RECORDS: chunk})
        raw = buffer.getbuffer()
        # An array is its count, its items and a closing 0; a block wants the items alone.
        yield len(chunk), compress(raw[len(_encode_long(len(chunk))) : -1])
        start += step
        step = max(1, BLOCK_BYTES * len(chunk) // len(raw))


class RecordCopier:
    """Writes an Avro object container file of records or blocks that are encoded already, for files that are rolled at a size
    or changed in part.

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
        self.size = _head_size(schema, codec)

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

    def add_all(self, records: Sequence[bytes]) -> None:
        """Add records."""
        at = 0
        while at < len(records):
            at = self.add(records, at)

    def add_block(self, count: int, body: bytes | memoryview) -> None:
        """Add a block of the same codec as it is, of so many records; records that wait for their own block follow it."""
        parts = _framed(count, body, self._sync)
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


def decode_container(data: bytes, path: str | None = None) -> list[Record]:
    """Read all records of an Avro object container file, by the schema in its header.

    returns  one dict per record, keys and value shapes as the writer's schema says; timestamps as plain integers
    errors   CorruptFileError
    """
    return [record for block in _decode_blocks(data, path) for record in block]


def _decode_blocks(data: bytes, path: str | None = None) -> Iterator[list[Record]]:
    """Decode a container block by block, so that one block's records can be freed before the next is read.

    errors   as `decode_container`, those of blocks while iterating
    """
    return open_blocks(data, path)[1]


def open_blocks(data: bytes, path: str | None = None) -> tuple[bytes, Iterator[list[Record]]]:
    """Return the JSON text of the writer's schema, and `_decode_blocks`.

    errors   as `decode_container`; those of the header at once
    """
    cursor = Cursor(data, path)
    text, sync, codec = _read_head(cursor)
    schema = _read_schema(text, path)
    return text, _blocks(cursor, schema, sync, inflate_of(codec, cursor))


@dataclass(frozen=True, slots=True)
class PackedBlock:
    """A block as it is in a file.

    count    records in it
    packed   its compressed records, a part of the file's bytes
    """

    count: int
    packed: memoryview
    unpack: Unpack


def packed_blocks(data: bytes, path: str | None = None) -> tuple[bytes, str, Iterator[PackedBlock]]:
    """Return the JSON text of the writer's schema, the codec, and the blocks as stored, for walks over them.

    errors   as `decode_container`, but nothing is decompressed
    """
    cursor = Cursor(data, path)
    text, sync, codec = _read_head(cursor)
    unpack = inflate_of(codec, cursor)
    blocks = (PackedBlock(count, packed, unpack) for count, packed, _ in _packed(cursor, sync))
    return text, codec.decode(), blocks


def decode_records(writer: bytes, records: Sequence[bytes], path: str | None = None) -> list[Record]:
    """Decode single records that were cut out of blocks.

    writer   JSON text of the schema they were written with
    errors   CorruptFileError
    """
    if not records:
        return []
    return _decode_block(_read_schema(writer, path), len(records), b"".join(records), path, 0)


def _packed(cursor: Cursor, sync: bytes) -> Iterator[tuple[int, memoryview, int]]:
    """Yield of each block the number of records, the compressed bytes, and their position."""
    while cursor.remaining:
        at = cursor.pos
        count, size = cursor.zigzag(), cursor.zigzag()
        if count < 0 or size < 0:
            raise cursor.error(f"a block cannot have {count} records in {size} bytes", at=at)
        start = cursor.pos
        body = cursor.view(size)
        if cursor.bytes(SYNC_SIZE) != sync:
            raise cursor.error(
                "the sync marker after the block is not the one of the header", at=cursor.pos - SYNC_SIZE
            )
        yield count, body, start


def _blocks(cursor: Cursor, schema: Any, sync: bytes, inflate: Unpack) -> Iterator[list[Record]]:
    for count, packed, at in _packed(cursor, sync):
        try:
            body = inflate(packed)
        except INFLATE_ERRORS as e:
            raise cursor.error(f"the block does not decompress: {e}", at=at) from e
        if count > len(body):
            raise cursor.error(f"a block of {len(body)} bytes cannot hold {count} records", at=at)
        if count:
            yield _decode_block(schema, count, body, cursor.path, at)


def _decode_block(schema: Any, count: int, body: bytes, path: str | None, at: int) -> list[Record]:
    stream = io.BytesIO(b"".join((_encode_long(count), body, b"\x00")))
    try:
        found: Any = schemaless_reader(stream, schema, None)
        records: Any = found[_RECORDS]
    except DECODE_ERRORS as e:
        raise CorruptFileError(
            f"the block's {count} records do not follow the schema: {e!r}", path=path, offset=at
        ) from e
    if not isinstance(records, list) or len(records) != count or stream.read(1):
        raise CorruptFileError(f"the block does not hold exactly {count} records", path=path, offset=at)
    return records


def _read_schema(text: bytes, path: str | None) -> Any:
    try:
        return _parse(text)
    except (*DECODE_ERRORS, RecursionError, AttributeError, SchemaParseException) as e:
        raise CorruptFileError(f"the header's avro.schema cannot be read: {e}", path=path, offset=4) from e


@functools.lru_cache(maxsize=64)
def _parse(text: bytes) -> Any:
    # Manifests of one table repeat one schema text; parsing it costs more than decoding a small file.
    return _block_schema(plain_schema(text))


def _head_size(schema: str, codec: str) -> int:
    """Return the bytes of `_file_head`."""
    return len(_prefix(schema, codec)[0]) + _DIGITS + 1 + SYNC_SIZE


def _file_head(schema: str, codec: str, sync: bytes, blocks: Iterable[bytes | memoryview]) -> bytes:
    """Return the bytes before the blocks of a file; their number does not depend on the blocks."""
    prefix, start = _prefix(schema, codec)
    return b"%b%08x\x00%b" % (prefix, crc32(sync, *blocks, start=start), sync)


def _read_head(cursor: Cursor) -> tuple[bytes, bytes, bytes]:
    """Read the writer's schema, the sync marker and the codec; checks the checksum of the whole file where there is one.

    errors   CorruptFileError
    """
    found = bytes(cursor.view(min(4, len(cursor))))
    if found != MAGIC:
        raise cursor.error(f"not an Avro file: expected {MAGIC!r}, found {found!r}", at=0)
    meta = _read_meta(cursor)
    sync = cursor.bytes(SYNC_SIZE)
    schema, codec, wanted = meta.get(_SCHEMA, b""), meta.get(_CODEC, b"null"), meta.get(_CHECKSUM)
    if wanted is not None and wanted != b"%08x" % crc32(sync, cursor.rest(), start=crc32(schema, codec)):
        raise cursor.error(f"the header's checksum does not match: the file was changed, or cut at {len(cursor)} bytes")
    return _same(schema), sync, codec


@functools.lru_cache(maxsize=64)
def _same(schema: bytes) -> bytes:
    """Return one object for the schema of all files of a writer: entries in memory refer to it."""
    return schema


def _read_meta(cursor: Cursor) -> dict[bytes, bytes]:
    meta: dict[bytes, bytes] = {}
    while (count := cursor.zigzag()) != 0:
        if count < 0:
            count = -count
            cursor.zigzag()
        for _ in range(count):
            key = cursor.bytes(cursor.zigzag())
            meta[key] = cursor.bytes(cursor.zigzag())
    return meta


def _framed(count: int, body: bytes | memoryview, sync: bytes) -> tuple[bytes, bytes, bytes | memoryview, bytes]:
    """Return the bytes of a block: of how many records, its length, the compressed records, the sync marker."""
    return _encode_long(count), _encode_long(len(body)), body, sync


@functools.lru_cache(maxsize=1024)
def _encode_long(value: int) -> bytes:
    """Encode a long as Avro does; those of small files come again and again."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _encode_bytes(raw: bytes) -> bytes:
    """Encode a byte string as Avro does."""
    return _encode_long(len(raw)) + raw


def header_schema(data: bytes, path: str | None = None) -> Any:
    """Return the writer's schema of an Avro file, as JSON, without reading a record.

    errors   CorruptFileError
    """
    cursor = Cursor(data, path)
    text = _read_head(cursor)[0]
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as e:
        raise cursor.error("avro.schema is not JSON") from e


@functools.lru_cache(maxsize=64)
def _prefix(schema: str, codec: str) -> tuple[bytes, int]:
    """Return the head up to its checksum, and the checksum of schema and codec."""
    raw, name = schema.encode(), codec_name(codec).encode()
    texts = (_SCHEMA, raw, _CODEC, name, _CHECKSUM)
    written = b"".join((MAGIC, _encode_long(len(texts) // 2 + 1), *map(_encode_bytes, texts), _DIGITS_LENGTH))
    return written, crc32(raw, name)
