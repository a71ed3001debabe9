"""Sets of row positions of one data file: deletion vectors, and rows a file index has selected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt


class Bitmap(Protocol):
    """Part of a roaring bitmap's interface that lakeidx uses (``pyroaring.BitMap`` and ``BitMap64``)."""

    def __len__(self) -> int: ...

    def to_array(self) -> object:
        """Return the positions, rising, as an ``array.array``."""
        ...


Positions: TypeAlias = "Bitmap | npt.NDArray[np.integer]"


def sorted_positions(positions: Positions) -> npt.NDArray[np.int64]:
    """Return int64[k] rising positions of a bitmap or array."""
    if isinstance(positions, np.ndarray):
        return np.unique(positions).astype(np.int64)
    return np.asarray(positions.to_array()).astype(np.int64)


class RowFilter:
    """Rows of a file that are wanted.

    deleted    positions to leave out
    selected   positions to keep; None keeps all
    """

    def __init__(self, deleted: Positions | None, selected: Positions | None) -> None:
        self._deleted = sorted_positions(deleted) if deleted is not None and len(deleted) else None
        self._selected = sorted_positions(selected) if selected is not None else None

    @property
    def keeps_all(self) -> bool:
        """Nothing is filtered."""
        return self._deleted is None and self._selected is None

    @property
    def selects(self) -> bool:
        """Positions to keep are given."""
        return self._selected is not None

    def keeps_any(self, first: int, rows: int) -> bool:
        """Return False when surely no row of a stretch is wanted."""
        if self._selected is not None and len(_between(self._selected, first, rows)) == 0:
            return False
        return self._deleted is None or len(_between(self._deleted, first, rows)) < rows

    def mask(self, first: int, rows: int) -> npt.NDArray[np.bool_] | None:
        """Return bool[rows] of the stretch that begins at position `first`; None when all rows are wanted."""
        if self._selected is None:
            out = np.ones(rows, np.bool_)
        else:
            out = np.zeros(rows, np.bool_)
            out[_between(self._selected, first, rows)] = True
        if self._deleted is not None:
            out[_between(self._deleted, first, rows)] = False
        return None if out.all() else out


def _between(positions: npt.NDArray[np.int64], first: int, rows: int) -> npt.NDArray[np.int64]:
    """Return the positions in a stretch, counted from its beginning."""
    begin, end = np.searchsorted(positions, (first, first + rows))
    return positions[begin:end] - first


@dataclass(slots=True)
class ReadCounters:
    """Cost of reading data files; sums over files.

    files              files opened
    row_groups         row groups of these files
    row_groups_read    those that were decoded, if only the columns of a filter
    rows_read          rows decoded
    rows_given         rows handed on, after positions were filtered
    bytes_read         compressed bytes of the decoded columns
    bytes_spared       compressed bytes of the same columns in row groups that were left out, or of which only the columns
                       of the filter were decoded
    """

    files: int = 0
    row_groups: int = 0
    row_groups_read: int = 0
    rows_read: int = 0
    rows_given: int = 0
    bytes_read: int = 0
    bytes_spared: int = 0

    def add(self, other: ReadCounters) -> None:
        """Add another reader's counts to these."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
