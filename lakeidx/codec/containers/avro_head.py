"""What frames the blocks of an Avro object container file: the head with the checksum that lakeidx adds, and lengths and marks.

What the bytes are is said in `lakeidx.codec.containers.avro`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from lakeidx.codec.containers.avro_codecs import codec_name
from lakeidx.codec.containers.checksum import crc32
from lakeidx.codec.cursor import Cursor

MAGIC = b"Obj\x01"
SYNC_SIZE = 16
_SCHEMA, _CODEC, _CHECKSUM = b"avro.schema", b"avro.codec", b"lakeidx.crc32"
#: Digits of a checksum, and their number as Avro writes it.
_DIGITS, _DIGITS_LENGTH = 8, b"\x10"
_AFTER_PREFIX = _DIGITS + 1 + SYNC_SIZE
#: Bytes in which heads mostly differ: they end with the length of the first text, which is the schema.
_TELLING = 20
_MOST_KNOWN = 64


@lru_cache(maxsize=64)
def _prefix(schema: str, codec: str) -> tuple[bytes, int]:
    """Return the head up to its checksum, and the checksum of schema and codec."""
    raw, name = schema.encode(), codec_name(codec).encode()
    texts = (_SCHEMA, raw, _CODEC, name, _CHECKSUM)
    written = b"".join((MAGIC, encode_long(len(texts) // 2 + 1), *map(_encode_bytes, texts), _DIGITS_LENGTH))
    return written, crc32(raw, name)


def head_size(schema: str, codec: str) -> int:
    """Return the bytes of `file_head`."""
    return len(_prefix(schema, codec)[0]) + _AFTER_PREFIX


def file_head(schema: str, codec: str, sync: bytes, blocks: Iterable[bytes | memoryview]) -> bytes:
    """Return the bytes before the blocks of a file; their number does not depend on the blocks."""
    prefix, start = _prefix(schema, codec)
    return b"%b%08x\x00%b" % (prefix, crc32(sync, *blocks, start=start), sync)


class _Known(NamedTuple):
    """What stands at the beginning of heads that were read, up to their checksum, or their sync marker when they have none."""

    begin: bytes
    schema: bytes
    codec: bytes
    start: int | None


#: Heads by their first bytes. Those of one writer's manifests differ in checksum and sync marker alone, and have 2 KB.
_KNOWN: dict[bytes, _Known] = {}


def read_head(cursor: Cursor) -> tuple[bytes, bytes, bytes]:
    """Read the writer's schema, the sync marker and the codec.

    returns  one object for the schema of all files whose heads begin alike
    errors   CorruptFileError
    """
    data = cursor.rest()
    known = _KNOWN.get(bytes(data[:_TELLING]))
    if known is None or bytes(data[: len(known.begin)]) != known.begin:
        return _read_anew(cursor)
    wanted = None
    cursor.skip(len(known.begin))
    if known.start is not None:
        wanted = cursor.bytes(_DIGITS)
        if cursor.u8():
            cursor.seek(0)
            return _read_anew(cursor)
    sync = cursor.bytes(SYNC_SIZE)
    if known.start is not None:
        _check(cursor, wanted, crc32(sync, cursor.rest(), start=known.start))
    return known.schema, sync, known.codec


def _read_anew(cursor: Cursor) -> tuple[bytes, bytes, bytes]:
    """Walk through a head; the twin of `read_head` that knows none."""
    whole = cursor.rest()
    found = bytes(cursor.view(min(4, len(cursor))))
    if found != MAGIC:
        raise cursor.error(f"not an Avro file: expected {MAGIC!r}, found {found!r}", at=0)
    meta = _read_meta(cursor)
    end = cursor.pos
    sync = cursor.bytes(SYNC_SIZE)
    schema, codec, wanted = meta.get(_SCHEMA, b""), meta.get(_CODEC, b"null"), meta.get(_CHECKSUM)
    start = None
    if wanted is not None:
        start = crc32(schema, codec)
        _check(cursor, wanted, crc32(sync, cursor.rest(), start=start))
        end -= _DIGITS + 1
    if wanted is None or whole[end - 1 : end + _DIGITS] == _DIGITS_LENGTH + wanted:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[bytes(whole[:_TELLING])] = _Known(bytes(whole[:end]), schema, codec, start)
    return schema, sync, codec


def _check(cursor: Cursor, wanted: bytes | None, found: int) -> None:
    if wanted != b"%08x" % found:
        raise cursor.error(f"the header's checksum does not match: the file was changed, or cut at {len(cursor)} bytes")


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


def framed(count: int, body: bytes | memoryview, sync: bytes) -> tuple[bytes, bytes, bytes | memoryview, bytes]:
    """Return the bytes of a block: of how many records, its length, the compressed records, the sync marker."""
    return encode_long(count), encode_long(len(body)), body, sync


@lru_cache(maxsize=1024)
def encode_long(value: int) -> bytes:
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
    return encode_long(len(raw)) + raw
