"""Base class of the writers of both stores: checking columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.packed import contiguous


class EntryWriter(ABC):
    """A writer that gets entries in columns, in order.

    order   form of the keys
    """

    def __init__(self, order: KeyOrder) -> None:
        self._order = order
        #: Entries written.
        self._entries = 0

    @abstractmethod
    def abort(self) -> None:
        """Remove what was written; nothing after the file is finished."""

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
