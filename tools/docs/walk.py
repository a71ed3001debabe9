"""Walk over the bytes of a file and name what they mean; the record is a dump with offsets."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

_SHOWN = 16
_LINES = 60


@dataclass(frozen=True)
class Piece:
    """Bytes of a file and what they mean."""

    offset: int
    data: bytes
    meaning: str


@dataclass
class Walk:
    """A position in some bytes, and the pieces before it.

    Everything that is read becomes a piece, so a finished walk has named every byte.
    """

    data: bytes
    position: int = 0
    pieces: list[Piece] = field(default_factory=list)

    def take(self, size: int, meaning: str) -> bytes:
        """Return the next bytes."""
        found = self.data[self.position : self.position + size]
        if len(found) != size:
            raise AssertionError(f"{meaning}: {size} bytes wanted at {self.position} of {len(self.data)}")
        self.pieces.append(Piece(self.position, found, meaning))
        self.position += size
        return found

    def number(self, form: str, meaning: str) -> int:
        """Return the next number, by a format of `struct`."""
        value = int(struct.unpack(form, self.take(struct.calcsize(form), ""))[0])
        return self._named(f"{meaning} = {value}", value)

    def varint(self, meaning: str) -> int:
        """Return the next unsigned LEB128 number."""
        value, size = _leb128(self.data, self.position)
        self.take(size, "")
        return self._named(f"{meaning} = {value}", value)

    def zigzag(self, meaning: str) -> int:
        """Return the next zigzag varint, Avro's int and long."""
        raw, size = _leb128(self.data, self.position)
        self.take(size, "")
        value = (raw >> 1) ^ -(raw & 1)
        return self._named(f"{meaning} = {value}", value)

    def _named(self, meaning: str, value: int) -> int:
        last = self.pieces.pop()
        self.pieces.append(Piece(last.offset, last.data, meaning))
        return value

    def rest(self) -> int:
        """Return the number of bytes that are left."""
        return len(self.data) - self.position

    def done(self) -> list[Piece]:
        """Return the pieces of a walk that has come to the end."""
        if self.rest():
            raise AssertionError(f"{self.rest()} bytes are not explained")
        return self.pieces


def _leb128(data: bytes, at: int) -> tuple[int, int]:
    value = shift = size = 0
    while True:
        byte = data[at + size]
        value |= (byte & 0x7F) << shift
        shift, size = shift + 7, size + 1
        if byte < 0x80:
            return value, size


def dump_text(pieces: list[Piece], title: str) -> str:
    """Return a dump as a block of Markdown; long pieces show their first bytes and their size."""
    shown = [(p, _hex(p.data)) for p in pieces]
    lines = [f"{p.offset:08x}  {text:<{_SHOWN * 3}} {p.meaning}".rstrip() for p, text in shown[:_LINES]]
    if len(shown) > _LINES:
        lines.append(f"… and {len(shown) - _LINES} pieces more")
    return "\n".join(("```text", title, *lines, "```"))


def _hex(data: bytes) -> str:
    if len(data) <= _SHOWN:
        return data.hex(" ")
    kept = _SHOWN - 5
    return f"{data[:kept].hex(' ')} … {len(data)} bytes"
