"""Validity of Arrow data of strangers: what must not reach a kernel at all, and text that is not UTF-8.

Arrow's own full validation also judges values (a time of day of 24 hours, more digits than a decimal has, text that is not UTF-8),
and one such value fails all the others. Here only what it says of the layout is an error of the whole; values are up to the cast,
which rejects their rows. Arrow's JSON reader and makers of Arrow data (Spark) do not look at text, and who reads it later fails.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakeidx.codec.columns import is_text

_LISTS = (
    (pa.types.is_list, pa.list_),
    (pa.types.is_large_list, pa.large_list),
    (pa.types.is_list_view, pa.list_view),
    (pa.types.is_large_list_view, pa.large_list_view),
)
_BYTES_OF_TEXT = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}


def check_layout(rows: pa.RecordBatch) -> None:
    """Look at all offsets, indices and lengths, whatever the values; ArrowInvalid for those that lead nowhere."""
    for column in rows.columns:
        column.view(_layout(column.type, keep_text=False)).validate(full=True)


def is_utf8(values: pa.Table | pa.ChunkedArray | pa.Array) -> bool:
    """Return True when all text in the values, nested text and dictionaries included, is UTF-8."""
    if isinstance(values, pa.Table):
        return all(map(is_utf8, values.columns))
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    try:
        for chunk in chunks:
            chunk.view(_layout(chunk.type, keep_text=True)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _layout(t: pa.DataType, *, keep_text: bool) -> pa.DataType:
    """Return a type of the same bytes whose values are all valid, save text that is to be kept."""

    def of(field: pa.Field) -> pa.Field:
        # Arrow shows no null as a value that is required, also below a null where nobody looks.
        return field.with_type(_layout(field.type, keep_text=keep_text)).with_nullable(True)

    if pa.types.is_struct(t):
        return pa.struct([of(f) for f in t])
    if pa.types.is_map(t):
        return pa.map_(of(t.key_field).with_nullable(False), of(t.item_field))
    if pa.types.is_dictionary(t):
        return pa.dictionary(t.index_type, _layout(t.value_type, keep_text=keep_text), t.ordered)
    if pa.types.is_fixed_size_list(t):
        return pa.list_(of(t.value_field), t.list_size)
    for is_list, make in _LISTS:
        if is_list(t):
            return make(of(t.value_field))
    if pa.types.is_decimal(t):
        return pa.binary(t.byte_width)
    if pa.types.is_date(t) or pa.types.is_time(t) or pa.types.is_timestamp(t):
        return pa.int32() if t.bit_width == 32 else pa.int64()
    return t if keep_text else _BYTES_OF_TEXT.get(t, t)


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
