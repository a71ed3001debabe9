"""Fixed-width Arrow columns as NumPy arrays of their buffers, and back.

Nulls are carried beside the values; what is at a null position is whatever the buffer holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.data.engines.runs import Bools, Int64s
from lakeidx.types import TIMESTAMP_ROOTS, DataType, Root, to_arrow

_DTYPES: dict[Root, type[Any]] = {
    Root.TINYINT: np.int8,
    Root.SMALLINT: np.int16,
    Root.INT: np.int32,
    Root.DATE: np.int32,
    Root.TIME: np.int32,
    Root.BIGINT: np.int64,
    Root.FLOAT: np.float32,
    Root.DOUBLE: np.float64,
} | dict.fromkeys(TIMESTAMP_ROOTS, np.int64)


def fixed_values(column: pa.Array, t: DataType) -> npt.NDArray[Any]:
    """Return the values of a BOOLEAN (as bool), number, date, time or timestamp column, without a copy where there is a buffer.

    column   of ``to_arrow(t)``
    """
    if t.root is Root.BOOLEAN:
        found: npt.NDArray[Any] = column.fill_null(False).to_numpy(zero_copy_only=False)
        return found
    dtype = np.dtype(_DTYPES[t.root])
    buffer = column.buffers()[1]
    if buffer is None or len(column) == 0:
        return np.zeros(len(column), dtype)
    return np.frombuffer(buffer, dtype, len(column), column.offset * dtype.itemsize)


def decimal_words(column: pa.Array) -> tuple[Int64s, npt.NDArray[np.uint64]]:
    """Return the high (signed) and low (unsigned) 64 bits of the unscaled values of a decimal128 column."""
    buffer = column.buffers()[1]
    if buffer is None or len(column) == 0:
        return np.zeros(len(column), np.int64), np.zeros(len(column), np.uint64)
    # Arrow keeps 16-byte little-endian integers.
    words = np.frombuffer(buffer, "<u8", 2 * len(column), column.offset * 16).reshape(-1, 2)
    return np.ascontiguousarray(words[:, 1]).view(np.int64), np.ascontiguousarray(words[:, 0])


def array_of_values(values: npt.NDArray[Any], valid: Bools, t: DataType) -> pa.Array:
    """Return the numbers as an Arrow array of ``to_arrow(t)``; null where not valid."""
    return pa.Array.from_buffers(to_arrow(t), len(values), [_bitmap(valid), pa.py_buffer(np.ascontiguousarray(values))])


def array_of_decimals(high: Int64s, low: npt.NDArray[np.uint64], valid: Bools, t: DataType) -> pa.Array:
    """Return the unscaled 128-bit integers as a decimal array of ``to_arrow(t)``; null where not valid."""
    words = np.empty((len(high), 2), "<u8")
    words[:, 0] = low
    words[:, 1] = high.view(np.uint64)
    return pa.Array.from_buffers(to_arrow(t), len(high), [_bitmap(valid), pa.py_buffer(words)])


def _bitmap(valid: Bools) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
