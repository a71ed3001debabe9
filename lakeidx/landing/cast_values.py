"""Casts of values to another type: texts, numbers, dates and times; and which of them cannot be cast.

The bulk is one Arrow cast. Only when that fails, the distinct values are cast by halving, so that few bad values cost a few
casts more and rows are never examined one by one.
"""

from __future__ import annotations

from binascii import unhexlify

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.arrays import is_text
from lakeidx.errors import InvalidInputError
from lakeidx.landing.cast import CastColumn, cast_array
from lakeidx.types import (
    BYTES_ROOTS,
    INT_ROOTS,
    NESTED_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    Root,
)

_TRUE_FALSE = {"true": True, "t": True, "yes": True, "y": True, "1": True,
               "false": False, "f": False, "no": False, "n": False, "0": False}  # fmt: skip
_VALUE_ERRORS = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError)
#: Decimals that hold all integers of 64 bits, and fractions that show that a number is none.
_WHOLE_AND_FRACTION = pa.decimal256(76, 38)
#: Texts that may be values of a type at all; what else is there fails without being tried. (Arrow reads ``0x10`` as 16.)
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_DAY = r"\d{4}-\d\d-\d\d"
_CLOCK = r"\d\d:\d\d(:\d\d(\.\d{1,9})?)?"
_ZONE = r"(Z|[+-]\d\d(:?\d\d)?)"
_UTC = r"(Z|[+-]00(:?00)?)"
PLAUSIBLE = {
    **dict.fromkeys(INT_ROOTS, _NUMBER),
    Root.DECIMAL: _NUMBER,
    Root.FLOAT: rf"{_NUMBER}|^[+-]?(?i:inf|infinity|nan)$",
    Root.DOUBLE: rf"{_NUMBER}|^[+-]?(?i:inf|infinity|nan)$",
    Root.DATE: rf"^{_DAY}$",
    Root.TIME: rf"^{_CLOCK}$",
    Root.TIMESTAMP: rf"^{_DAY}([ T]{_CLOCK}{_UTC}?)?$",
    Root.TIMESTAMP_LTZ: rf"^{_DAY}([ T]{_CLOCK}{_ZONE}?)?$",
}


def cast_changed(array: pa.Array, wanted: DataType, target: pa.DataType) -> CastColumn:
    """Cast an array that has another type than the wanted one, `target`; errors as for `cast_column`."""
    if array.type == pa.date64() and wanted.root in (Root.DATE, *TIMESTAMP_ROOTS):
        # Milliseconds, which need not be those of whole days.
        array = array.cast(pa.timestamp("ms"))
    if pa.types.is_null(array.type):
        return CastColumn(pa.nulls(len(array), target))
    if pa.types.is_dictionary(array.type):
        inner = cast_array(array.dictionary, wanted)
        return _take_back(inner, array.indices)
    if wanted.root in NESTED_ROOTS or wanted.root is Root.VARIANT:
        # Either is imported for few columns.
        if is_text(array.type):
            from lakeidx.landing.text.nested_json import cast_json

            return cast_json(array, wanted)
        from lakeidx.landing.cast_nested import cast_nested

        return cast_nested(array, wanted)
    if is_text(array.type):
        try:
            return CastColumn(_cast_text(array, wanted, target))
        except _VALUE_ERRORS:
            encoded = array.dictionary_encode()
            return _take_back(_cast_texts(encoded.dictionary, wanted, target), encoded.indices)
    if pa.types.is_boolean(array.type) != (wanted.root is Root.BOOLEAN) and not pa.types.is_string(target):
        raise InvalidInputError(f"{array.type} does not cast to {wanted}")
    try:
        return CastColumn(_cast(array, wanted, target))
    except pa.ArrowNotImplementedError as error:
        raise InvalidInputError(f"{array.type} does not cast to {wanted}") from error
    except _VALUE_ERRORS:
        pass
    if wanted.root in INT_ROOTS and (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        return _cast_numbers(array, target)
    encoded = array.dictionary_encode()
    return _take_back(_halve(encoded.dictionary, wanted, target), encoded.indices)


def _take_back(distinct: CastColumn, indices: pa.Array) -> CastColumn:
    values = distinct.values.take(indices)
    if distinct.failed is None:
        return CastColumn(values)
    present = np.asarray(pc.is_valid(indices))
    codes = np.asarray(pc.fill_null(indices, 0))
    return CastColumn(values, distinct.failed[codes] & present)


def _cast_texts(texts: pa.Array, wanted: DataType, target: pa.DataType) -> CastColumn:
    """Cast distinct texts of which some are invalid: drop impossible ones at once, and bisect the rest."""
    pattern = PLAUSIBLE.get(wanted.root)
    if pattern is None:
        return _halve(texts, wanted, target)
    texts = pc.cast(texts, pa.string())
    hopeless = pc.invert(pc.fill_null(pc.match_substring_regex(pc.utf8_trim_whitespace(texts), pattern), True))
    cast = _halve(pc.if_else(hopeless, pa.scalar(None, pa.string()), texts), wanted, target)
    failed = np.asarray(hopeless) if cast.failed is None else np.asarray(hopeless) | cast.failed
    return CastColumn(cast.values, failed)


def _cast_numbers(array: pa.Array, target: pa.DataType) -> CastColumn:
    """Cast numbers to integers; those that change on the way back do not fit."""
    info = np.iinfo(target.to_pandas_dtype())
    values = np.asarray(pc.fill_null(array, 0))
    if values.dtype.kind == "f":
        values = values.astype(np.float64)
        # 2**63 is a float, 2**63 - 1 is none: the upper bound is left out.
        fits = (values >= float(info.min)) & (values < float(info.max) + 1) & (values == np.trunc(values))
    else:
        fits = (values >= info.min) & (values <= info.max)
    out = np.where(fits, values, 0).astype(info.dtype)
    valid = np.asarray(pc.is_valid(array))
    return CastColumn(pa.array(out, target, mask=~(fits & valid)), ~fits & valid)


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
        except _VALUE_ERRORS:
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
    if is_text(array.type):
        return _cast_text(array, wanted, target)
    if pa.types.is_floating(array.type) and pa.types.is_decimal(target):
        # Through text, so that 0.1 becomes 0.1 and a fraction the scale cannot hold fails instead of being rounded.
        return pc.cast(pc.cast(array, pa.string()), target, safe=True)
    if pa.types.is_integer(array.type) and pa.types.is_decimal(target):
        # Arrow wants room for the largest integer of the type before it looks at the values.
        return pc.cast(pc.cast(array, pa.decimal256(20 + target.scale, target.scale)), target, safe=True)
    if pa.types.is_floating(target) and not pa.types.is_integer(array.type):
        return _finite(array, pc.cast(array, target))
    if pa.types.is_timestamp(array.type) and wanted.root in TIMESTAMP_ROOTS:
        return _cast_timestamp(array, target)
    if pa.types.is_timestamp(array.type) and wanted.root is Root.DATE:
        days = pc.cast(array, pa.date32(), safe=False)
        if not pc.all(pc.equal(pc.cast(days, array.type), array)).as_py() and len(array) > array.null_count:
            raise pa.ArrowInvalid("a timestamp with a time of day is not a DATE")
        return days
    return pc.cast(array, target, safe=True)


def _finite(before: pa.Array, after: pa.Array) -> pa.Array:
    """Keep `after`, unless a finite number became infinite in it."""
    written = pc.is_inf(before) if pa.types.is_floating(before.type) else pa.scalar(False)
    if pc.any(pc.and_not(pc.is_inf(after), written), min_count=0).as_py():
        raise pa.ArrowInvalid("a number is too large")
    return after


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
    text = pc.utf8_trim_whitespace(pc.cast(array, pa.string()))
    if wanted.root is Root.BOOLEAN:
        lowered = pc.utf8_lower(text)
        position = pc.index_in(lowered, pa.array(list(_TRUE_FALSE)))
        if position.null_count != array.null_count:
            raise pa.ArrowInvalid("not true or false")
        return pa.array(list(_TRUE_FALSE.values())).take(position)
    if wanted.root in TIMESTAMP_ROOTS:
        if wanted.root is Root.TIMESTAMP:
            # As with instants of other files: the wall clock of UTC is meant. Of another zone it may be that or UTC's.
            text = pc.replace_substring_regex(text, rf"(:\d\d(?:\.\d+)?){_UTC}$", r"\1")
        zoned = pc.match_substring_regex(text, rf":\d\d(\.\d+)?{_ZONE}$")
        if wanted.root is Root.TIMESTAMP_LTZ and not pc.all(zoned, min_count=0).as_py():
            text = pc.if_else(pc.fill_null(zoned, True), text, pc.binary_join_element_wise(text, "Z", ""))
        if wanted.root is Root.TIMESTAMP and pc.any(zoned, min_count=0).as_py():
            raise pa.ArrowInvalid("a TIMESTAMP has no zone")
        return _parse_timestamps(text, target)
    if wanted.root in INT_ROOTS:
        return _parse_integers(text, target)
    if wanted.root is Root.TIME:
        return _parse_times(text)
    if pa.types.is_floating(target):
        spelled = pc.match_substring(text, "inf", ignore_case=True)
        parsed = pc.cast(text, target, safe=True)
        if pc.any(pc.and_not(pc.is_inf(parsed), spelled), min_count=0).as_py():
            raise pa.ArrowInvalid("a number is too large")
        return parsed
    return pc.cast(text, target, safe=True)


def _parse_integers(text: pa.Array, target: pa.DataType) -> pa.Array:
    """Parse whole numbers, however they are written: 5.0 comes from programs whose columns of numbers with nulls are floats."""
    if pc.any(pc.match_substring(text, "x", ignore_case=True), min_count=0).as_py():
        raise pa.ArrowInvalid("hexadecimal is not decimal")
    text = pc.replace_substring_regex(text, r"^\+", "")
    if pc.any(pc.match_substring_regex(text, r"[.eE]"), min_count=0).as_py():
        text = pc.cast(text, _WHOLE_AND_FRACTION, safe=True)
    return pc.cast(text, target, safe=True)


def _parse_times(text: pa.Array) -> pa.Array:
    """Parse times of day; fractions below a millisecond fail. Arrow reads times only after a date."""
    moments = _parse_timestamps(pc.binary_join_element_wise("1970-01-01", text, " "), pa.timestamp("ms"))
    return pc.cast(pc.cast(pc.cast(moments, pa.int64()), pa.int32(), safe=True), pa.time32("ms"))


def _parse_timestamps(text: pa.Array, target: pa.DataType) -> pa.Array:
    # Arrow refuses more fraction digits than the unit has, and fewer are padded; a finer unit takes them, then a safe cast
    # decides. Microseconds first: nanoseconds end in 2262.
    for unit in (target.unit, "us"):
        try:
            return pc.cast(pc.cast(text, pa.timestamp(unit, target.tz), safe=True), target, safe=True)
        except pa.ArrowInvalid:
            continue
    return pc.cast(pc.cast(text, pa.timestamp("ns", target.tz), safe=True), target, safe=True)


def decode_hex(text: pa.StringArray) -> pa.BinaryArray:
    """Decode hex text to bytes; ValueError when a value is not hex or has an odd number of digits."""
    return pa.array([None if v is None else unhexlify(v) for v in text.to_pylist()], pa.binary())
