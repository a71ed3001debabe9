"""Base classes of the readers and writers of both stores: closing a file, gathering single entries into columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import ClassVar, Generic, Protocol, Self, TypeVar

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.packed import contiguous
from lakeidx.lookup.store import StoreType

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


class _HasPath(Protocol):
    path: str


File = TypeVar("File", bound=_HasPath)


class OpenReader(Generic[File]):
    """A reader of an open file, until it is closed.

    file    may be shared with other readers
    """

    _type: ClassVar[StoreType]

    def __init__(self, file: File) -> None:
        self._open: File | None = file
        self._path = file.path

    @property
    def path(self) -> str:
        """The data file."""
        return self._path

    @property
    def store_type(self) -> StoreType:
        """Which format it has."""
        return self._type

    def close(self) -> None:
        """Release the file."""
        self._open = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _file(self) -> File:
        if self._open is None:
            raise InvalidInputError("the reader is closed", path=self._path)
        return self._open


class EntryWriter(ABC):
    """A writer that gets entries one by one or in columns, in order.

    order   form of the keys
    """

    def __init__(self, order: KeyOrder) -> None:
        self._order = order
        self._puts = EntryBatch()
        #: Entries written, without those that are still gathered.
        self._entries = 0

    def put(self, key: bytes, value: bytes) -> None:
        """Add one entry; it is checked when its batch is written."""
        if self._puts.add(key, value):
            self._write(*self._puts.take())

    def write(self, keys: RowBytes, values: RowBytes) -> None:
        """Add n entries. The arrays may be used again when the file is finished and must not change before."""
        self._write_gathered()
        self._write(keys, values)

    @abstractmethod
    def abort(self) -> None:
        """Remove what was written; nothing after the file is finished."""

    @abstractmethod
    def _write(self, keys: RowBytes, values: RowBytes) -> None:
        """Add n entries to the file."""

    def _write_gathered(self) -> None:
        if len(self._puts):
            self._write(*self._puts.take())

    def _checked(self, keys: RowBytes, values: RowBytes) -> tuple[RowBytes, RowBytes]:
        """Check and convert the columns for kernels: keys and values as many, and the keys of the right form."""
        keys, values = contiguous(keys), contiguous(values)
        if len(keys) != len(values):
            raise InvalidInputError(f"{len(keys)} keys but {len(values)} values")
        self._order.check(keys, first=self._entries)
        return keys, values

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()
