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

from lakeidx.codec.arrays import is_text

_BYTES_OF_TEXT = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}


def check_layout(rows: pa.RecordBatch) -> None:
    """Look at all offsets, indices and lengths, whatever the values; ArrowInvalid for those that lead nowhere."""
    # The sizes of buffers and children first: what is looked at next relies on them.
    rows.validate()
    for column in rows.columns:
        _check(column, text=False)


def is_utf8(values: pa.Table | pa.ChunkedArray | pa.Array) -> bool:
    """Return True when all text in the values, nested text and dictionaries included, is UTF-8."""
    if isinstance(values, pa.Table):
        return all(map(is_utf8, values.columns))
    try:
        for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
            _check(chunk, text=True)
    except pa.ArrowInvalid:
        return False
    return True


def _check(array: pa.Array, *, text: bool) -> None:
    """Validate an array level by level: a view of a whole one, which is simpler, ends the process for some maps (Arrow 26)."""
    t = array.type
    if isinstance(t, pa.BaseExtensionType):
        _check(array.storage, text=text)
    elif pa.types.is_struct(t):
        for i in range(t.num_fields):
            _check(array.field(i), text=text)
    elif pa.types.is_dictionary(t):
        pa.DictionaryArray.from_arrays(array.indices, pa.nulls(len(array.dictionary)))
        _check(array.dictionary, text=text)
    elif pa.types.is_map(t) or pa.types.is_list(t) or pa.types.is_large_list(t):
        parts = [array.keys, array.items] if pa.types.is_map(t) else [array.values]
        build = pa.LargeListArray if pa.types.is_large_list(t) else pa.ListArray
        build.from_arrays(array.offsets, pa.nulls(len(parts[0]))).validate(full=True)
        for part in parts:
            _check(part, text=text)
    elif pa.types.is_list_view(t) or pa.types.is_large_list_view(t):
        views = pa.LargeListViewArray if pa.types.is_large_list_view(t) else pa.ListViewArray
        views.from_arrays(array.offsets, array.sizes, pa.nulls(len(array.values))).validate(full=True)
        _check(array.values, text=text)
    elif pa.types.is_fixed_size_list(t):
        _check(array.values, text=text)
    elif pa.types.is_nested(t):
        array.validate(full=True)
    else:
        array.view(_valid_type(t, text=text)).validate(full=True)


def _valid_type(t: pa.DataType, *, text: bool) -> pa.DataType:
    """Return a type of the same bytes all of which are values; with `text` text stays what it is."""
    if pa.types.is_decimal(t):
        return pa.binary(t.byte_width)
    if pa.types.is_date(t) or pa.types.is_time(t) or pa.types.is_timestamp(t):
        return pa.int32() if t.bit_width == 32 else pa.int64()
    return t if text else _BYTES_OF_TEXT.get(t, t)


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
