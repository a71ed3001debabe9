"""Key columns as codes that compare for equality: int64 where one column allows it, packed bytes otherwise.

Codes of a batch and of a data file are comparable when both were made for the same key types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.rows.binary_row_vec import encode_rows
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root

_INT_VIEWS: dict[Root, Any] = {
    Root.TINYINT: np.int8,
    Root.SMALLINT: np.int16,
    Root.INT: np.int32,
    Root.BIGINT: np.int64,
    Root.DATE: np.int32,
    Root.TIME: np.int32,
    **dict.fromkeys(TIMESTAMP_ROOTS, np.int64),
}


@dataclass(frozen=True, slots=True, eq=False)
class KeyCodes:
    """n keys; exactly one of the two is set.

    ints   int64[n], in the keys' own order (so ranges can be compared, too)
    rows   n byte strings: a lone string or binary key as it is (then their order is the keys'), else BinaryRows
    """

    ints: npt.NDArray[np.int64] | None = None
    rows: RowBytes | None = None

    def __len__(self) -> int:
        if self.ints is not None:
            return len(self.ints)
        assert self.rows is not None
        return len(self.rows)

    def take(self, keys: npt.NDArray[np.int64]) -> KeyCodes:
        """Return some of the keys."""
        return KeyCodes(
            None if self.ints is None else self.ints[keys], None if self.rows is None else self.rows.take(keys)
        )


def key_codes(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]) -> KeyCodes:
    """Encode n keys as codes.

    columns   trimmed primary key, no nulls
    errors    InvalidInputError for nulls
    """
    for column in columns:
        if column.null_count:
            raise InvalidInputError(f"{column.null_count} keys are null")
    if len(columns) == 1:
        root = types[0].root
        if root in _INT_VIEWS:
            return KeyCodes(ints=int_view(columns[0], types[0]))
        if root in STRING_ROOTS or root in BYTES_ROOTS:
            return KeyCodes(rows=RowBytes.from_arrow(columns[0]))
    return KeyCodes(rows=encode_rows(columns, types))


def int_view(column: pa.Array | pa.ChunkedArray, data_type: DataType) -> npt.NDArray[np.int64]:
    """Return an integer, date or time column as int64 in the order of its values."""
    if isinstance(column, pa.ChunkedArray):
        parts = [int_view(chunk, data_type) for chunk in column.chunks]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)
    if not len(column):
        # What is taken of nothing may have a buffer that holds no whole number.
        return np.zeros(0, np.int64)
    width = np.dtype(_INT_VIEWS[data_type.root])
    raw = np.frombuffer(column.buffers()[1] or b"", width)[column.offset : column.offset + len(column)]
    return raw.astype(np.int64, copy=False)


def has_int_view(data_type: DataType) -> bool:
    """Return True for types that `int_view` accepts."""
    return data_type.root in _INT_VIEWS
