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

Written by `lakeidx.codec.containers.avro_write`.

source   Avro 1.11 specification; org.apache.paimon.format.avro.AvroFileFormat, release 1.4.2
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fastavro import parse_schema, schemaless_reader
from fastavro.schema import SchemaParseException

from lakeidx.codec.containers.avro_codecs import DECODE_ERRORS, INFLATE_ERRORS, Unpack, inflate_of
from lakeidx.codec.containers.avro_schemas import plain_schema
from lakeidx.codec.containers.checksum import crc32
from lakeidx.codec.cursor import Cursor
from lakeidx.errors import CorruptFileError

MAGIC = b"Obj\x01"
SYNC_SIZE = 16
SCHEMA_KEY, CODEC_KEY, CHECKSUM_KEY = b"avro.schema", b"avro.codec", b"lakeidx.crc32"
RECORDS = "records"
Record = dict[str, Any]


def block_schema(record: dict[str, Any]) -> Any:
    """Return fastavro's form of a block of records of a schema."""
    # The array is the only field of a record, which adds no bytes: fastavro parses all but records anew in each call.
    array = {"type": "array", "items": record}
    return parse_schema({"type": "record", "name": "_lakeidx_block", "fields": [{"name": RECORDS, "type": array}]})


def decode_container(data: bytes, path: str | None = None) -> list[Record]:
    """Read all records of an Avro object container file, by the schema in its header.

    returns  one dict per record, keys and value shapes as the writer's schema says; timestamps as plain integers
    errors   CorruptFileError
    """
    return [record for block in open_blocks(data, path)[1] for record in block]


def open_blocks(data: bytes, path: str | None = None) -> tuple[bytes, Iterator[list[Record]]]:
    """Return the JSON text of the writer's schema, and the records block by block: those of one can be freed before the next.

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
    stream = io.BytesIO(b"".join((encode_long(count), body, b"\x00")))
    try:
        found: Any = schemaless_reader(stream, schema, None)
        records: Any = found[RECORDS]
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
    return block_schema(plain_schema(text))


def _read_head(cursor: Cursor) -> tuple[bytes, bytes, bytes]:
    """Read the writer's schema, the sync marker and the codec; checks the checksum of the whole file where there is one.

    errors   CorruptFileError
    """
    found = bytes(cursor.view(min(4, len(cursor))))
    if found != MAGIC:
        raise cursor.error(f"not an Avro file: expected {MAGIC!r}, found {found!r}", at=0)
    meta = _read_meta(cursor)
    sync = cursor.bytes(SYNC_SIZE)
    schema, codec, wanted = meta.get(SCHEMA_KEY, b""), meta.get(CODEC_KEY, b"null"), meta.get(CHECKSUM_KEY)
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


@functools.lru_cache(maxsize=1024)
def encode_long(value: int) -> bytes:
    """Encode a long as Avro does; those of small files come again and again."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


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
