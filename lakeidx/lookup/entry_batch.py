"""Single entries gathered into columns, so that writers have one path for both."""

from __future__ import annotations

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError

_MAX_ENTRIES = 16384
_MAX_BYTES = 1 << 22


class EntryBatch:
    """Entries put one by one and not written yet."""

    def __init__(self) -> None:
        self._keys: list[bytes] = []
        self._values: list[bytes] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: bytes, value: bytes) -> bool:
        """Add one entry; True when the batch is full.

        errors   InvalidInputError when one of the two is not bytes
        """
        if not isinstance(key, bytes) or not isinstance(value, bytes):
            raise InvalidInputError(f"key and value are bytes, not {type(key).__name__} and {type(value).__name__}")
        self._keys.append(key)
        self._values.append(value)
        self._bytes += len(key) + len(value)
        return len(self._keys) >= _MAX_ENTRIES or self._bytes >= _MAX_BYTES

    def take(self) -> tuple[RowBytes, RowBytes]:
        """Return the gathered keys and values and clear the batch."""
        out = RowBytes.from_list(self._keys), RowBytes.from_list(self._values)
        self._keys, self._values, self._bytes = [], [], 0
        return out
