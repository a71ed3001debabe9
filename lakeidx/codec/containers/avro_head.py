"""The head of an Avro object container file: magic, metadata and sync marker, with the checksum that lakeidx adds.

What the bytes are is said in `lakeidx.codec.containers.avro`.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakeidx.codec.containers.avro_codecs import codec_name
from lakeidx.codec.containers.checksum import crc32
from lakeidx.codec.cursor import Cursor

MAGIC = b"Obj\x01"
SYNC_SIZE = 16
_SCHEMA, _CODEC, _CHECKSUM = "avro.schema", "avro.codec", "lakeidx.crc32"


def file_head(schema: str, codec: str, sync: bytes, blocks: Iterable[bytes | memoryview]) -> bytes:
    """Return the bytes before the blocks of a file; their number does not depend on the blocks."""
    name = codec_name(codec)
    checksum = _checksum((schema.encode(), name.encode(), sync, *blocks))
    texts = (_SCHEMA, schema, _CODEC, name, _CHECKSUM, checksum)
    return b"".join((MAGIC, encode_long(len(texts) // 2), *map(_encode_string, texts), b"\x00", sync))


def _checksum(parts: Iterable[bytes | memoryview]) -> str:
    return f"{crc32(*parts):08x}"


def read_head(cursor: Cursor) -> tuple[bytes, bytes, bytes]:
    """Read the writer's schema, the sync marker and the codec."""
    found = bytes(cursor.view(min(4, len(cursor))))
    if found != MAGIC:
        raise cursor.error(f"not an Avro file: expected {MAGIC!r}, found {found!r}", at=0)
    meta = _read_meta(cursor)
    sync = cursor.bytes(SYNC_SIZE)
    schema, codec, wanted = meta.get(_SCHEMA, b""), meta.get(_CODEC, b"null"), meta.get(_CHECKSUM)
    if wanted is not None and _checksum((schema, codec, sync, cursor.rest())).encode() != wanted:
        raise cursor.error(f"the header's checksum does not match: the file was changed, or cut at {len(cursor)} bytes")
    return schema, sync, codec


def _read_meta(cursor: Cursor) -> dict[str, bytes]:
    meta: dict[str, bytes] = {}
    while (count := cursor.zigzag()) != 0:
        if count < 0:
            count = -count
            cursor.zigzag()
        for _ in range(count):
            key = cursor.bytes(cursor.zigzag())
            meta[key.decode("utf-8", "replace")] = cursor.bytes(cursor.zigzag())
    return meta


def encode_long(value: int) -> bytes:
    """Encode a long as Avro does."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _encode_string(text: str) -> bytes:
    """Encode a text as Avro does."""
    raw = text.encode()
    return encode_long(len(raw)) + raw
