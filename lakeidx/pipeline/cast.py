"""Casts landing columns to the table's types, column by column, and tells which rows cannot be cast.

The bulk is one Arrow cast. Only when that fails, the distinct values are cast by halving, so that few bad values cost a few
casts more and rows are never looked at one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.pipeline.nested_json import nested_from_json
from lakeidx.types import BYTES_ROOTS, TIMESTAMP_ROOTS, DataType, Root, to_arrow

_TRUE_FALSE = {"true": True, "t": True, "yes": True, "y": True, "1": True,
               "false": False, "f": False, "no": False, "n": False, "0": False}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CastColumn:
    """A cast column.

    values   array of the wanted type; null where the cast failed
    failed   bool[n], None when every value was cast
    """

    values: pa.Array
    failed: np.ndarray | None = None


def cast_column(column: pa.ChunkedArray | pa.Array, wanted: DataType) -> CastColumn:
    """Cast a column to a Paimon type's Arrow type; values that do not fit are marked, not guessed.

    Text is read as SQL would: ISO dates and times, decimals in plain notation, hex for binary, true/false.
    A fraction that the type cannot hold, an overflow and a text that is no such value fail.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], type=column.type)
    target = to_arrow(wanted)
    if array.type == target:
        return CastColumn(array)
    if pa.types.is_null(array.type):
        return CastColumn(pa.nulls(len(array), target))
    if pa.types.is_dictionary(array.type):
        inner = cast_column(array.dictionary, wanted)
        return _take_back(inner, array.indices)
    try:
        return CastColumn(_cast(array, wanted, target))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OverflowError, ValueError) as error:
        if isinstance(error, pa.ArrowNotImplementedError) or pa.types.is_nested(array.type):
            return _halve(array, wanted, target)
    encoded = array.dictionary_encode()
    return _take_back(_halve(encoded.dictionary, wanted, target), encoded.indices)


def _take_back(distinct: CastColumn, indices: pa.Array) -> CastColumn:
    values = distinct.values.take(indices)
    if distinct.failed is None:
        return CastColumn(values)
    present = np.asarray(pc.is_valid(indices))
    codes = np.asarray(pc.fill_null(indices, 0))
    return CastColumn(values, distinct.failed[codes] & present)


def _halve(array: pa.Array, wanted: DataType, target: pa.DataType) -> CastColumn:
    failed = np.zeros(len(array), dtype=bool)
    pieces: list[pa.Array] = []
    stack = [(0, len(array))]
    while stack:
        start, length = stack.pop()
        if length == 0:
            continue
        try:
            pieces.append(_cast(array.slice(start, length), wanted, target))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OverflowError, ValueError):
            if length == 1:
                failed[start] = True
                pieces.append(pa.nulls(1, target))
            else:
                half = length // 2
                stack.append((start + half, length - half))
                stack.append((start, half))
    values = pa.concat_arrays(pieces) if pieces else pa.nulls(0, target)
    return CastColumn(values, failed if failed.any() else None)


def _cast(array: pa.Array, wanted: DataType, target: pa.DataType) -> pa.Array:
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type):
        return _cast_text(array, wanted, target)
    if wanted.root is Root.VARIANT or (wanted.is_nested and array.type != target):
        return pa.array(array.to_pylist(), type=target)
    if pa.types.is_boolean(array.type) != (wanted.root is Root.BOOLEAN) and not pa.types.is_string(target):
        raise pa.ArrowInvalid(f"{array.type} is not {wanted}")
    if pa.types.is_floating(array.type) and pa.types.is_decimal(target):
        # Through text, so that 0.1 becomes 0.1 and a fraction the scale cannot hold fails instead of being rounded.
        return pc.cast(pc.cast(array, pa.string()), target, safe=True)
    if pa.types.is_timestamp(array.type) and wanted.root in TIMESTAMP_ROOTS:
        return _cast_timestamp(array, target)
    if pa.types.is_timestamp(array.type) and wanted.root is Root.DATE:
        days = pc.cast(array, pa.date32(), safe=False)
        if not pc.all(pc.equal(pc.cast(days, array.type), array)).as_py() and len(array) > array.null_count:
            raise pa.ArrowInvalid("a timestamp with a time of day is not a DATE")
        return days
    if wanted.root in BYTES_ROOTS and not pa.types.is_string(array.type):
        return pc.cast(array, target)
    return pc.cast(array, target, safe=True)


def _cast_timestamp(array: pa.Array, target: pa.DataType) -> pa.Array:
    if (array.type.tz is None) != (target.tz is None):
        # A landing file without zone holds wall-clock values; a zone is neither invented nor dropped silently ...
        if array.type.tz is None:
            return pc.cast(pc.assume_timezone(array, "UTC"), target, safe=True)
        # ... but UTC instants are what files of other tools hold for TIMESTAMP, and their UTC wall clock is meant.
        return pc.cast(pc.cast(array, pa.timestamp(array.type.unit, "UTC")), pa.timestamp(target.unit), safe=True)
    return pc.cast(array, target, safe=True)


def _cast_text(array: pa.Array, wanted: DataType, target: pa.DataType) -> pa.Array:
    if pa.types.is_string(target):
        return pc.cast(array, target)
    if wanted.root in BYTES_ROOTS:
        return decode_hex(pc.cast(array, pa.string()))
    if wanted.is_nested or wanted.root is Root.VARIANT:
        return nested_from_json(pc.cast(array, pa.string()), wanted)
    text = pc.utf8_trim_whitespace(pc.cast(array, pa.string()))
    if wanted.root is Root.BOOLEAN:
        lowered = pc.utf8_lower(text)
        position = pc.index_in(lowered, pa.array(list(_TRUE_FALSE)))
        if position.null_count != array.null_count:
            raise pa.ArrowInvalid("not true or false")
        return pa.array(list(_TRUE_FALSE.values())).take(position)
    if wanted.root in TIMESTAMP_ROOTS:
        zoned = pc.match_substring_regex(text, r"(Z|[+-]\d\d:?\d\d)$")
        if wanted.root is Root.TIMESTAMP_LTZ and not pc.all(zoned, min_count=0).as_py():
            text = pc.if_else(pc.fill_null(zoned, True), text, pc.binary_join_element_wise(text, "Z", ""))
        if wanted.root is Root.TIMESTAMP and pc.any(zoned, min_count=0).as_py():
            raise pa.ArrowInvalid("a TIMESTAMP has no zone")
        return _parse_timestamps(text, target)
    if wanted.root in (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT):
        return pc.cast(pc.replace_substring_regex(text, r"^\+", ""), target, safe=True)
    return pc.cast(text, target, safe=True)


def _parse_timestamps(text: pa.Array, target: pa.DataType) -> pa.Array:
    # Arrow refuses more fraction digits than the unit has, and fewer are padded; ns takes all, then a safe cast decides.
    try:
        return pc.cast(text, target, safe=True)
    except pa.ArrowInvalid:
        return pc.cast(pc.cast(text, pa.timestamp("ns", target.tz), safe=True), target, safe=True)


_NIBBLE = np.full(256, 255, dtype=np.uint8)
for _i, _c in enumerate(b"0123456789abcdef"):
    _NIBBLE[_c] = _i
    _NIBBLE[ord(chr(_c).upper())] = _i


def decode_hex(text: pa.StringArray) -> pa.BinaryArray:
    """Hex text to bytes, whole column at once; ValueError when a value is not hex or has an odd number of digits."""
    n = len(text)
    filled = pc.fill_null(text, "")
    lengths = np.asarray(pc.binary_length(filled)).astype(np.int64)
    if (lengths % 2).any():
        raise ValueError("odd number of hex digits")
    joined = np.frombuffer("".join(filled.to_pylist()).encode(), dtype=np.uint8)
    nibbles = _NIBBLE[joined]
    if (nibbles == 255).any():
        raise ValueError("not hex")
    data = (nibbles[0::2] << 4) | nibbles[1::2]
    offsets = np.zeros(n + 1, dtype=np.int32)
    np.cumsum(lengths // 2, out=offsets[1:])
    out = pa.BinaryArray.from_buffers(pa.binary(), n, [None, pa.py_buffer(offsets), pa.py_buffer(data.tobytes())])
    return out if text.null_count == 0 else pc.if_else(pc.is_valid(text), out, pa.scalar(None, pa.binary()))
