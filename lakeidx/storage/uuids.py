"""UUIDs as text.

A commit draws a dozen for names of files. Those of the standard library are objects that take four times as long, and nobody wants
but their text.
"""

from __future__ import annotations

import hashlib
import os
import struct

_PARTS = struct.Struct(">IHHQ")
_LAST_48 = (1 << 48) - 1


def random_uuid() -> str:
    """Draw a UUID (version 4)."""
    return _text(os.urandom(16), 4)


def named_uuid(namespace: bytes, name: str) -> str:
    """Make the UUID of a name (version 5): the same each time.

    namespace   the UUID of what the name is one of, 16 bytes
    """
    return _text(hashlib.sha1(namespace + name.encode(), usedforsecurity=False).digest()[:16], 5)


def _text(raw: bytes, version: int) -> str:
    a, b, c, d = _PARTS.unpack(raw)
    # The first digit of the third part says which version; the first two bits of the fourth that it is a UUID of RFC 9562.
    return f"{a:08x}-{b:04x}-{version}{c & 0xFFF:03x}-{d >> 48 & 0x3FFF | 0x8000:04x}-{d & _LAST_48:012x}"
