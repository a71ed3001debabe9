"""Arrow columns as one array, and arrays in the form that kernels expect."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.errors import InvalidInputError
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, DataType, to_arrow

Column: TypeAlias = "pa.Array | pa.ChunkedArray"
Mask: TypeAlias = npt.NDArray[np.bool_]


def one_array(column: Column, t: DataType) -> pa.Array:
    """Return one contiguous Arrow array of ``to_arrow(t)``; bytes and text may stay large_ or of the other kind (same bytes).

    errors   InvalidInputError when the column does not cast to the type without loss; text and numbers are never taken
             for each other
    """
    wanted = to_arrow(t)
    try:
        if column.type != wanted:
            column = _as_type(column, t, wanted)
        return _combine(column) if isinstance(column, pa.ChunkedArray) else column
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as e:
        raise InvalidInputError(f"a column of {column.type} is not {t}: {e}") from e


def _as_type(column: Column, t: DataType, wanted: pa.DataType) -> Column:
    is_bytes = t.root in STRING_ROOTS or t.root in BYTES_ROOTS
    if is_bytes != _holds_bytes(column.type) and not pa.types.is_null(column.type):
        raise InvalidInputError(f"a column of {column.type} is not {t}")
    if is_bytes and _is_plain_bytes(column.type):
        return column
    return column.cast(pa.large_binary() if is_bytes and _is_view(column.type) else wanted)


def _is_plain_bytes(t: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_binary(t) or pa.types.is_large_binary(t)
    )


def is_text(t: pa.DataType) -> bool:
    """Return True for each of Arrow's types of strings."""
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t))


def _holds_bytes(t: pa.DataType) -> bool:
    if pa.types.is_dictionary(t):
        return _holds_bytes(t.value_type)
    return _is_plain_bytes(t) or _is_view(t) or bool(pa.types.is_fixed_size_binary(t) and not pa.types.is_decimal(t))


def _is_view(t: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(t) or pa.types.is_binary_view(t))


def _combine(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    if _is_plain_bytes(column.type) and column.nbytes > np.iinfo(np.int32).max:
        column = column.cast(pa.large_binary())
    return column.combine_chunks()


def null_mask(array: pa.Array) -> Mask | None:
    """Return bool[n], True where a value is; None when nothing is null."""
    if array.null_count == 0:
        return None
    return np.asarray(array.is_valid())


def values_of(array: pa.Array, dtype: Any, per_value: int = 1) -> npt.NDArray[Any]:
    """Return the value buffer of a fixed-width array: dtype[n * per_value], arbitrary values under nulls included, not copied."""
    if len(array) == 0:
        return np.zeros(0, dtype)
    raw = np.frombuffer(array.buffers()[1], dtype)
    return raw[array.offset * per_value : (array.offset + len(array)) * per_value]


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the array in the form kernels expect; copy only when it is strided or unaligned."""
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned):
        array = np.array(array, order="C")
        flags = array.flags
    if flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array
