"""Values of a lookup file: a key's row with its position and sequence number; or only the position; or nothing.

=======================  ==================================================================
processor                value bytes
=======================  ==================================================================
value                    compacted row, i64 LE sequence number, u8 row kind
position-and-value       compacted row, i64 LE position in the data file, i64 LE sequence number, u8 row kind
position                 varint (64 bits) position in the data file
empty                    none
=======================  ==================================================================

Rows are compacted with the schema the data file was written with, so a lookup file outlives changes of the schema.

source   org.apache.paimon.mergetree.lookup.PersistValueProcessor, PersistValueAndPosProcessor, PersistPositionProcessor,
         PersistEmptyProcessor, release 1.4.2
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from lakeidx.codec.arrays import frozen
from lakeidx.codec.kernels import store_words
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError
from lakeidx.lookup.packed import take_packed

Int64s = npt.NDArray[np.int64]
#: Bytes of a varint below 2**63.
_MAX_VARINT = 9


class Processor(StrEnum):
    """Content of the values of a lookup file; the text is part of its name."""

    VALUE = "value"
    POSITION_AND_VALUE = "position-and-value"
    POSITION = "position"
    EMPTY = "empty"

    @property
    def has_rows(self) -> bool:
        """True when a value contains the row."""
        return self in (Processor.VALUE, Processor.POSITION_AND_VALUE)

    @property
    def tail(self) -> int:
        """Bytes after the row, where there is one."""
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


def encode_value_rows(
    rows: RowBytes, sequences: Int64s, kinds: npt.NDArray[np.int8], positions: Int64s | None
) -> RowBytes:
    """Complete the values of n entries, in place: the tail of each row; with positions when there are any.

    rows   compacted rows, each with room for its tail (`Processor.tail`)
    """
    ends = frozen(rows.offsets[1:])
    if positions is not None:
        store_words(rows.data, ends, -17, frozen(positions.view(np.uint64)))
    store_words(rows.data, ends, -9, frozen(sequences.view(np.uint64)))
    rows.data[ends - 1] = kinds.view(np.uint8)
    return rows


def decode_value_rows(values: RowBytes, processor: Processor, path: str | None = None) -> ValueRows:
    """Decode values.

    errors   CorruptFileError for one that is too short or has a row kind that does not exist
    """
    width = processor.tail
    lengths = values.lengths - width
    if len(lengths) and lengths.min() < 0:
        raise CorruptFileError("a value is shorter than its sequence number and row kind", path=path)
    tails = values.data[values.offsets[1:, None] + np.arange(-width, 0)]
    kinds = np.ascontiguousarray(tails[:, -1]).view(np.int8)
    if len(kinds) and (kinds.min() < 0 or kinds.max() > 3):
        raise CorruptFileError("a value has a row kind that does not exist", path=path)
    rows = take_packed(values.data.ctypes.data + values.offsets[:-1], lengths)
    positions = _int64(tails[:, :8]) if processor is Processor.POSITION_AND_VALUE else None
    return ValueRows(rows, _int64(tails[:, -9:-1]), kinds, positions)


def encode_positions(positions: Int64s) -> RowBytes:
    """Encode values that consist only of a position, from positions >= 0."""
    widths = np.ones(len(positions), np.int64)
    for bits in range(7, 63, 7):
        widths += positions >= 1 << bits
    offsets = np.zeros(len(positions) + 1, np.int64)
    np.cumsum(widths, out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    for i in range(int(widths.max(initial=0))):
        some = np.flatnonzero(widths > i)
        more = np.where(widths[some] > i + 1, 128, 0)
        out[offsets[some] + i] = (positions[some] >> (7 * i)) & 127 | more
    return RowBytes(out, offsets)


def decode_positions(values: RowBytes, rows: int, path: str | None = None) -> Int64s:
    """Return int64[n]: positions in a data file of so many rows.

    errors   CorruptFileError for a value that is not one varint, or a position behind the last row
    """
    widths, starts = values.lengths, values.offsets[:-1] - values.offsets[0]
    flat = values.flat
    if len(widths) and (widths.min() < 1 or widths.max() > _MAX_VARINT):
        raise CorruptFileError("a value is not a position", path=path)
    out = np.zeros(len(widths), np.int64)
    for i in range(int(widths.max(initial=0))):
        some = np.flatnonzero(widths > i)
        byte = flat[starts[some] + i].astype(np.int64)
        if ((byte >= 128) != (widths[some] > i + 1)).any():
            raise CorruptFileError("a value is not a position", path=path)
        out[some] |= (byte & 127) << (7 * i)
    if len(out) and out.max() >= rows:
        raise CorruptFileError(f"a stored position is {out.max()}, but the data file has {rows} rows", path=path)
    return out


def _int64(columns: npt.NDArray[np.uint8]) -> Int64s:
    return np.ascontiguousarray(columns).view("<i8").reshape(-1).astype(np.int64, copy=False)
