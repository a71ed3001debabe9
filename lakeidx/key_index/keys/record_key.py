"""Record keys as text: Hudi's form of a primary key.

A key of one column is its value as text; a key of several is ``col:value,col:value``, with ``__null__`` for null and
``__empty__`` for an empty text. Values read as Java prints them: integers in decimal, dates and times in ISO form,
booleans ``true``/``false``, decimals plain; binary values, which Hudi cannot use as keys, in hex.

In a key of several columns lakeidx puts a backslash before each ``,`` and backslash inside a text, which Hudi does
not: without it two different keys could read the same, and an index that has only the text (HBase) could not tell
them apart.

source   org.apache.hudi.keygen.KeyGenUtils#getRecordKey, release 1.0.2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.key_index.bucket.ids import EMPTY_VALUE, NULL_VALUE


def record_keys(
    columns: Sequence[pa.Array | pa.ChunkedArray], names: Sequence[str], *, escaped: bool = True
) -> RowBytes:
    """Record keys of n rows, UTF-8.

    columns  key columns, at least one
    escaped  False = without the backslashes, letter for letter as Hudi writes them
    errors   InvalidInputError for no column, a type without text form, or a null in a key of one column
    """
    if not columns:
        raise InvalidInputError("a record key needs at least one column")
    if len(columns) == 1:
        only = _value_text(columns[0])
        if only.null_count:
            raise InvalidInputError(f"{only.null_count} record keys are null")
        return RowBytes.from_arrow(only)
    parts: list[Any] = []
    for name, column in zip(names, columns, strict=True):
        text = _value_text(column)
        if _is_text(_type(column)):
            if escaped:
                text = pc.replace_substring_regex(text, r"([\\,])", r"\\\1")
                text = pc.replace_substring_regex(text, f"^({NULL_VALUE}|{EMPTY_VALUE})$", r"\\\1")
            text = pc.if_else(pc.equal(text, ""), EMPTY_VALUE, text)
        parts.append(pc.binary_join_element_wise(name, pc.fill_null(text, NULL_VALUE), ":"))
    return RowBytes.from_arrow(pc.binary_join_element_wise(*parts, ","))


def _type(column: pa.Array | pa.ChunkedArray) -> pa.DataType:
    return column.type


def _is_text(t: pa.DataType) -> bool:
    if pa.types.is_dictionary(t):
        t = t.value_type
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t))


def _value_text(column: pa.Array | pa.ChunkedArray) -> Any:
    """Format a column as text, nulls kept.

    returns  Arrow string column of the same length
    errors   InvalidInputError for nested types
    """
    t = _type(column)
    if pa.types.is_dictionary(t):
        return _value_text(column.cast(t.value_type))
    if pa.types.is_string(t) or pa.types.is_large_string(t):
        return column
    if pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t):
        return _hex(column)
    if pa.types.is_nested(t):
        raise InvalidInputError(f"a column of type {t} has no text as a key")
    if pa.types.is_timestamp(t) and t.tz is not None:
        column = column.cast(pa.timestamp(t.unit))
    return column.cast(pa.string())


def _hex(column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    texts = [pa.array([None if v is None else v.hex() for v in c.to_pylist()], pa.string()) for c in chunks]
    return pa.chunked_array(texts, pa.string())
