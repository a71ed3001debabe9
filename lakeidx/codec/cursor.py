"""Bounds-checked reader of binary files: the one place where "not enough bytes" becomes a CorruptFileError.

Byte order is part of every method's name (``i32be``, ``i32le``); nothing here depends on the machine.
"""

from __future__ import annotations

import struct

from lakeidx.errors import CorruptFileError

_I16BE = struct.Struct(">h")
_I32BE = struct.Struct(">i")
_I32LE = struct.Struct("<i")
_I64BE = struct.Struct(">q")
_MAX_VARINT_BYTES = 10


class Cursor:
    """Reads forward over a byte string.

    data     what to read; never copied
    path     the file named in errors
    base     added to positions in errors, when `data` is a part of a file
    errors   CorruptFileError from every method that would pass the end
    """

    __slots__ = ("_base", "_data", "_path", "pos")

    def __init__(self, data: bytes | memoryview, path: str | None = None, *, base: int = 0) -> None:
        self._data = memoryview(data)
        self._path = path
        self._base = base
        self.pos = 0

    def __len__(self) -> int:
        return len(self._data)

    @property
    def remaining(self) -> int:
        """Bytes not read yet."""
        return len(self._data) - self.pos

    @property
    def path(self) -> str | None:
        """The file named in errors."""
        return self._path

    def error(self, message: str, *, at: int | None = None) -> CorruptFileError:
        """Make a CorruptFileError for this file at a position (default: the current one); the caller raises it."""
        return CorruptFileError(message, path=self._path, offset=self._base + (self.pos if at is None else at))

    def seek(self, pos: int) -> None:
        """Seek to a position counted from the start of `data`."""
        if not 0 <= pos <= len(self._data):
            raise self.error(f"position {pos} lies outside the {len(self._data)} bytes", at=0)
        self.pos = pos

    def skip(self, n: int) -> None:
        """Pass over n bytes."""
        self._take(n)

    def u8(self) -> int:
        """Return one unsigned byte."""
        return self._data[self._take(1)]

    def i8(self) -> int:
        """Return one signed byte."""
        value = self._data[self._take(1)]
        return value - 256 if value > 127 else value

    def i16be(self) -> int:
        """Return signed 16 bits, big endian."""
        return int(_I16BE.unpack_from(self._data, self._take(2))[0])

    def i32be(self) -> int:
        """Return signed 32 bits, big endian."""
        return int(_I32BE.unpack_from(self._data, self._take(4))[0])

    def i32le(self) -> int:
        """Return signed 32 bits, little endian."""
        return int(_I32LE.unpack_from(self._data, self._take(4))[0])

    def i64be(self) -> int:
        """Return signed 64 bits, big endian."""
        return int(_I64BE.unpack_from(self._data, self._take(8))[0])

    def varint(self) -> int:
        """Return unsigned LEB128 of at most 64 bits."""
        start, value = self.pos, 0
        if start < len(self._data) and (byte := self._data[start]) < 0x80:
            self.pos = start + 1
            return byte
        for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >= 1 << 64:
                    break
                return value
        raise self.error("varint does not fit 64 bits", at=start)

    def zigzag(self) -> int:
        """Return signed 64 bits as Avro writes them: zigzag in a varint."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def bytes(self, n: int) -> bytes:
        """Read the next n bytes."""
        start = self._take(n)
        return self._data[start : start + n].tobytes()

    def view(self, n: int) -> memoryview:
        """Read the next n bytes without a copy."""
        start = self._take(n)
        return self._data[start : start + n]

    def rest(self) -> memoryview:
        """Return the bytes not read yet, without a copy; the position stays."""
        return self._data[self.pos :]

    def java_utf(self) -> str:
        """Read a string as ``java.io.DataOutput.writeUTF`` writes it: u16 big-endian byte count, then modified UTF-8."""
        start = self.pos
        length = self.i16be() & 0xFFFF
        raw = self.bytes(length)
        try:
            # Modified UTF-8: U+0000 as C0 80, astral characters as two 3-byte surrogates.
            text = raw.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
            return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
        except UnicodeDecodeError as e:
            raise self.error(f"not modified UTF-8: {e.reason}", at=start + 2) from e

    def _take(self, n: int) -> int:
        start = self.pos
        if n < 0 or n > len(self._data) - start:
            raise self.error(f"expected {n} more bytes, found {len(self._data) - start}")
        self.pos = start + n
        return start


def write_java_utf(text: str) -> bytes:
    """Encode a string as ``java.io.DataOutput.writeUTF`` does; the inverse of `Cursor.java_utf`.

    errors   ValueError when the text takes more than 65,535 bytes
    """
    raw = b"".join(
        unit.to_bytes(1, "big")
        if 0 < unit < 0x80
        else chr(unit).encode("utf-8", "surrogatepass")
        if unit
        else b"\xc0\x80"
        for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    )
    if len(raw) > 0xFFFF:
        raise ValueError(f"a Java UTF string has at most 65535 bytes, not {len(raw)}")
    return struct.pack(">H", len(raw)) + raw
