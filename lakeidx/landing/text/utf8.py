"""Text that is not UTF-8: Arrow's JSON reader and makers of Arrow data (Spark) do not look, and who reads it later fails."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakeidx.codec.columns import is_text


def is_utf8(values: pa.Table | pa.ChunkedArray | pa.Array) -> bool:
    """Return True when all text in the values, nested text and dictionaries included, is UTF-8."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def without_broken_text(rows: pa.Table) -> tuple[pa.Table, dict[str, NDArray[np.bool_]]]:
    """Put null in the place of values with text that is not UTF-8.

    returns   the rows, and of each column with such values which they were
    """
    broken = {}
    for i, field in enumerate(rows.schema):
        if _may_hold_text(field.type) and not is_utf8(rows.column(i)):
            column = rows.column(i)
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            broken[field.name] = mask = _broken(column)
            rows = rows.set_column(i, field.name, pc.if_else(pa.array(mask), pa.scalar(None, column.type), column))
    return rows, broken


def _may_hold_text(t: pa.DataType) -> bool:
    return is_text(t) or pa.types.is_nested(t) or pa.types.is_dictionary(t)


def _broken(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Find the values by halving, so that few of them cost few looks."""
    mask = np.zeros(len(column), dtype=bool)
    stack = [(0, len(column))]
    while stack:
        start, length = stack.pop()
        # Copied: a slice of a nested array is judged by all that its children hold.
        if length == 0 or is_utf8(column.take(pa.array(np.arange(start, start + length)))):
            continue
        if length == 1:
            mask[start] = True
        else:
            half = length // 2
            stack += [(start, half), (start + half, length - half)]
    return mask
