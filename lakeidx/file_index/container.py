"""The container of all file indexes of one data file: ``<data file>.index``, or embedded in the data file's manifest
entry.

Everything **big endian**; head, then the payloads one after another.

====================  ===============================================================================================
piece                 bytes
====================  ===============================================================================================
magic                 i64 1493475289347502 (``00054e4ed01a35ae``)
version               i32 1
head length           i32: bytes before the payloads, magic included
columns               i32
per column            name (u16 length, modified UTF-8; a map entry is ``col[key]``), i32 number of indexes
per index             type name (as above), i32 start (from the container's first byte; -1: empty index), i32 length
redundant length      i32: 0 from Java; lakeidx: bytes of the checksums that follow
checksums             ``4c 58 43 31`` ("LXC1"), u32 CRC-32 of each payload in directory order, u32 CRC-32 of the head up
                      to here
====================  ===============================================================================================

Java reads the columns and passes over the rest of the head, so containers with checksums are Java's, too.

What is detected: with checksums (containers of lakeidx), any changed, missing or added byte in the head or in a payload
that is read. Without (Java's containers): a head that does not parse, payloads that do not be one after another up to
the end, and what the payload's own form promises (counts, orders, lengths, the number of rows). Not detected there: a
changed bit of a bloom filter, or a changed value or row position that keeps every order and length; only the writer's
checksum could tell.

source   org.apache.paimon.fileindex.FileIndexFormat, release 1.4.2
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from lakeidx.codec.containers.checksum import crc32
from lakeidx.codec.cursor import Cursor, write_java_utf
from lakeidx.errors import CorruptFileError, InvalidInputError, UnsupportedError

MAGIC = 1493475289347502
VERSION = 1
_EMPTY_START = -1
_CHECKSUM_TAG = b"LXC1"
_FIXED = struct.Struct(">qii")
_FIRST_READ = 1 << 16

#: What a source of bytes gives; payloads are handed on without a copy.
Bytes: TypeAlias = bytes | memoryview


@dataclass(frozen=True, slots=True)
class IndexAt:
    """Place of one payload.

    column    the column, or ``col[key]``
    type      index type
    start     from the container's first byte; -1 for the empty index of a file without rows
    length    bytes
    checksum  CRC-32 of the payload; None when the container has none
    """

    column: str
    type: str
    start: int
    length: int
    checksum: int | None = None

    @property
    def is_empty(self) -> bool:
        """True for the index of a column of a file without rows."""
        return self.start == _EMPTY_START


def encode_index_container(indexes: Mapping[str, Mapping[str, bytes | None]], *, checksums: bool = True) -> bytes:
    """Pack payloads.

    indexes    column -> index type -> payload (None: empty index); order is kept
    checksums  leave out for the very bytes Java writes
    errors     InvalidInputError for names of more than 65,535 bytes or a container of 2 GiB and more
    """
    count = sum(len(by_type) for by_type in indexes.values())
    trailer = len(_CHECKSUM_TAG) + 4 * count + 4 if checksums else 0
    try:
        names = {name: write_java_utf(name) for column, by_type in indexes.items() for name in (column, *by_type)}
    except ValueError as e:
        raise InvalidInputError(f"file index: {e}") from e
    head_length = _FIXED.size + 4 + sum(len(names[column]) + 4 for column in indexes)
    head_length += sum(len(names[kind]) + 8 for by_type in indexes.values() for kind in by_type) + 4 + trailer
    total = head_length + sum(len(p) for by_type in indexes.values() for p in by_type.values() if p is not None)
    if total > 0x7FFFFFFF:
        raise InvalidInputError(f"the file indexes of one data file take {total} bytes; Paimon's limit is 2 GiB")
    head = [_FIXED.pack(MAGIC, VERSION, head_length), struct.pack(">i", len(indexes))]
    body, start, sums = [], head_length, []
    for column, by_type in indexes.items():
        head.append(names[column] + struct.pack(">i", len(by_type)))
        for kind, payload in by_type.items():
            data = payload or b""
            head.append(names[kind] + struct.pack(">ii", _EMPTY_START if payload is None else start, len(data)))
            body.append(data)
            sums.append(crc32(data))
            start += len(data)
    head.append(struct.pack(">i", trailer))
    if checksums:
        head.append(_CHECKSUM_TAG + struct.pack(f">{count}I", *sums))
        head.append(struct.pack(">I", crc32(*head)))
    return b"".join(head + body)


class FileIndexContainer:
    """A container opened for reading: the directory, and payloads on demand.

    read     gives ``length`` bytes from ``offset`` of the container
    size     bytes of the container
    path     named in errors
    errors   CorruptFileError when the head is damaged; UnsupportedError for a newer version

    Opening reads the head (at most two reads); each payload requested is one more read, checked by itself.
    """

    def __init__(self, read: Callable[[int, int], Bytes], size: int, path: str | None = None) -> None:
        self._read, self._size, self.path = read, size, path
        self._ahead = self._fetch(0, min(size, _FIRST_READ))
        head_length = self._head_length(self._ahead)
        head = self._ahead if head_length <= len(self._ahead) else self._fetch(0, head_length)
        self.entries = _decode_head(bytes(head[:head_length]), size, path)

    @classmethod
    def from_bytes(cls, data: bytes, path: str | None = None) -> FileIndexContainer:
        """Open a container in memory."""
        view = memoryview(data)
        return cls(lambda offset, length: view[offset : offset + length], len(data), path)

    def indexes_of(self, column: str) -> tuple[IndexAt, ...]:
        """Return the indexes of a column (or map entry ``col[key]``), in directory order."""
        return tuple(e for e in self.entries if e.column == column)

    def payload(self, entry: IndexAt) -> Bytes:
        """Read the bytes of one index, checked against their checksum when the container has it."""
        end = entry.start + entry.length
        ahead = end <= len(self._ahead)
        data = self._ahead[entry.start : end] if ahead else self._fetch(entry.start, entry.length)
        if entry.checksum is not None and crc32(data) != entry.checksum:
            message = f"the {entry.type} index of {entry.column!r} does not match its checksum"
            raise CorruptFileError(message, path=self.path, offset=entry.start)
        return data

    def _fetch(self, offset: int, length: int) -> Bytes:
        data = self._read(offset, length)
        if len(data) != length:
            message = f"expected {length} bytes, found {len(data)}"
            raise CorruptFileError(message, path=self.path, offset=offset)
        return data

    def _head_length(self, data: Bytes) -> int:
        cursor = Cursor(data, self.path)
        magic = cursor.i64be()
        if magic != MAGIC:
            raise cursor.error(
                f"expected the magic of a file index {MAGIC:#018x}, found {magic & (1 << 64) - 1:#018x}", at=0
            )
        version = cursor.i32be()
        length = cursor.i32be()
        if not _FIXED.size + 8 <= length <= self._size:
            raise cursor.error(f"a head of {length} bytes in a container of {self._size}", at=12)
        if version < VERSION:
            raise cursor.error(f"expected version {VERSION}, found {version}", at=8)
        if version > VERSION:
            raise UnsupportedError(f"file index version {version}; lakeidx reads {VERSION}", path=self.path)
        return length


def decode_index_container(data: bytes, path: str | None = None) -> dict[str, dict[str, bytes | None]]:
    """Decode all payloads: column -> index type -> payload (None: empty index); everything is checked."""
    container = FileIndexContainer.from_bytes(data, path)
    decoded: dict[str, dict[str, bytes | None]] = {}
    for entry in container.entries:
        decoded.setdefault(entry.column, {})[entry.type] = None if entry.is_empty else bytes(container.payload(entry))
    return decoded


def _decode_head(head: bytes, size: int, path: str | None) -> tuple[IndexAt, ...]:
    cursor = Cursor(head, path)
    cursor.skip(_FIXED.size)
    entries: list[IndexAt] = []
    seen: set[tuple[str, str]] = set()
    columns = cursor.i32be()
    if columns < 0:
        raise cursor.error(f"{columns} columns", at=_FIXED.size)
    end = len(head)
    for _ in range(columns):
        column, count = cursor.java_utf(), cursor.i32be()
        if count < 0:
            raise cursor.error(f"{count} indexes of column {column!r}", at=cursor.pos - 4)
        for _ in range(count):
            at = cursor.pos
            entry = IndexAt(column, cursor.java_utf(), cursor.i32be(), cursor.i32be())
            if (column, entry.type) in seen:
                raise cursor.error(f"column {column!r} has two {entry.type} indexes", at=at)
            if (entry.start, entry.length) != (_EMPTY_START, 0):
                if entry.start != end or entry.length < 0:
                    message = f"expected the {entry.type} index of {column!r} at {end}, found {entry.length} bytes at {entry.start}"
                    raise cursor.error(message, at=at)
                end += entry.length
            seen.add((column, entry.type))
            entries.append(entry)
    if end != size:
        raise cursor.error(f"the indexes end at {end}, the container at {size}", at=cursor.pos)
    sums = _decode_checksums(cursor, head, len(entries))
    return tuple(entries) if sums is None else tuple(
        IndexAt(e.column, e.type, e.start, e.length, c) for e, c in zip(entries, sums, strict=True)
    )  # fmt: skip


def _decode_checksums(cursor: Cursor, head: bytes, count: int) -> tuple[int, ...] | None:
    at = cursor.pos
    length = cursor.i32be()
    if length != cursor.remaining:
        raise cursor.error(f"{length} further bytes announced, the head has {cursor.remaining}", at=at)
    if length == 0:
        return None
    trailer = cursor.bytes(length)
    if length != len(_CHECKSUM_TAG) + 4 * count + 4 or not trailer.startswith(_CHECKSUM_TAG):
        raise cursor.error(f"expected the checksums of {count} indexes, found {length} other bytes", at=at + 4)
    *sums, own = struct.unpack(f">{count + 1}I", trailer[len(_CHECKSUM_TAG) :])
    if crc32(head[:-4]) != own:
        raise cursor.error("the head does not match its checksum", at=0)
    return tuple(sums)
