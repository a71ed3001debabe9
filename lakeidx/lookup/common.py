"""What readers and writers of both stores do alike: letting go of a file, and gathering single entries into columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import ClassVar, Generic, Protocol, Self, TypeVar

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.lookup.entry_batch import EntryBatch
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.packed import plain
from lakeidx.lookup.store import StoreType


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
        keys, values = plain(keys), plain(values)
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
