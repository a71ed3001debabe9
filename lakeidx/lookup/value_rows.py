"""What a lookup file says of a key: its row, and where and when it was written.

=======================  ==================================================================
processor                value bytes
=======================  ==================================================================
value                    compacted row, i64 LE sequence number, u8 row kind
position-and-value       compacted row, i64 LE position in the data file, i64 LE sequence number, u8 row kind
=======================  ==================================================================

Rows are compacted with the schema the data file was written with, so a lookup file outlives changes of the schema.

source   org.apache.paimon.mergetree.lookup.PersistValueProcessor, PersistValueAndPosProcessor, release 1.4.2
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from lakeidx.codec.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError

Int64s = npt.NDArray[np.int64]


class Processor(StrEnum):
    """What the values of a lookup file hold; the text is part of its name."""

    VALUE = "value"
    POSITION_AND_VALUE = "position-and-value"

    @property
    def tail(self) -> int:
        """Bytes after the row."""
        return 9 if self is Processor.VALUE else 17


@dataclass(frozen=True, slots=True)
class ValueRows:
    """Decoded values.

    rows        compacted rows
    sequences   int64[n]
    kinds       int8[n]
    positions   int64[n] in the data file; None when they were not kept
    """

    rows: RowBytes
    sequences: Int64s
    kinds: npt.NDArray[np.int8]
    positions: Int64s | None


def encode_value_rows(values: ValueRows) -> RowBytes:
    """Values of n entries; with positions when there are any."""
    columns = [values.sequences.astype("<i8").view(np.uint8).reshape(-1, 8), values.kinds.view(np.uint8).reshape(-1, 1)]
    if values.positions is not None:
        columns.insert(0, values.positions.astype("<i8").view(np.uint8).reshape(-1, 8))
    tails = np.concatenate(columns, axis=1)
    width = tails.shape[1]
    offsets = np.zeros(len(values.rows) + 1, np.int64)
    np.cumsum(values.rows.lengths + width, out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    is_row, at = _tails(offsets, width)
    out[at] = tails
    out[is_row] = values.rows.flat
    return RowBytes(out, offsets)


def decode_value_rows(values: RowBytes, processor: Processor, path: str | None = None) -> ValueRows:
    """Take values apart.

    errors   CorruptFileError for one that is too short or has a row kind that does not exist
    """
    width = processor.tail
    lengths = values.lengths - width
    if len(lengths) and lengths.min() < 0:
        raise CorruptFileError("a value is shorter than its sequence number and row kind", path=path)
    starts = values.offsets - values.offsets[0]
    is_row, at = _tails(starts, width)
    flat = values.flat
    tails = flat[at]
    kinds = np.ascontiguousarray(tails[:, -1]).view(np.int8)
    if len(kinds) and (kinds.min() < 0 or kinds.max() > 3):
        raise CorruptFileError("a value has a row kind that does not exist", path=path)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    positions = _int64(tails[:, :8]) if processor is Processor.POSITION_AND_VALUE else None
    return ValueRows(RowBytes(flat[is_row], offsets), _int64(tails[:, -9:-1]), kinds, positions)


def _tails(offsets: Int64s, width: int) -> tuple[npt.NDArray[np.bool_], Int64s]:
    """Which bytes belong to rows, and int64[n, width]: where the bytes of the tails are."""
    at = (offsets[1:] - width)[:, None] + np.arange(width, dtype=np.int64)
    is_row = np.ones(int(offsets[-1]), np.bool_)
    is_row[at] = False
    return is_row, at


def _int64(columns: npt.NDArray[np.uint8]) -> Int64s:
    return np.ascontiguousarray(columns).view("<i8").reshape(-1).astype(np.int64, copy=False)
