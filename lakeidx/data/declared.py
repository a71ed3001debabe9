"""Values fitted to the length, precision and range that their column declares, as SQL writers of Paimon tables do.

CHAR(n)                   padded with blanks to n characters: a key is then the same row, whoever wrote it
CHAR(n), VARCHAR(n)       blanks beyond n are cut off, any other character there makes the value unfit
BINARY(n), VARBINARY(n)   more than n bytes are unfit; fewer are not padded
TIMESTAMP(p), LTZ         more fraction digits than p are unfit
DATE, TIMESTAMP           days outside of the years 1 to 9999 are unfit: SQL, JSON, CSV and Python have no others
LTZ                       the same in any zone: a day more on either side
TIME                      anything but 00:00:00 to 23:59:59.999 is unfit
DECIMAL(p, s)             more than p digits, which a damaged or careless writer may leave, are unfit

Java's table API stores what it is given; Spark's connector pads and refuses as above (text only), so that a Spark session would
otherwise see one CHAR key twice. TIME(p) is stored in milliseconds by all of them. Lengths and precisions of values within nested
types are left alone, ranges are not.

source   CharVarcharCodegenUtils.charTypeWriteSideCheck of Spark 4.0; org.apache.paimon.utils.TypeUtils, release 1.4.2
"""

from __future__ import annotations

from decimal import Context, Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.types import BYTES_ROOTS, MAX_LENGTH, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root, timestamp_unit

_UNIT_DIGITS = {"ms": 3, "us": 6, "ns": 9}
_DAY_SECONDS = 86_400
#: Digits of the widest decimals of Arrow.
_WIDEST = 76
_EXACT = Context(prec=_WIDEST)
#: Days since the epoch of 0001-01-01, and of the day after 9999-12-31.
_FIRST_DAY, _END_DAY = -719_162, 2_932_897


def value_range(t: DataType) -> tuple[int, int] | None:
    """Return the least and the greatest value of a DATE, TIME, TIMESTAMP or DECIMAL, as the integers of its Arrow type.

    returns   None for other types, and for nanoseconds: all there are lie within
    """
    if t.root is Root.TIME:
        return 0, _DAY_SECONDS * 1000 - 1
    if t.root is Root.DATE:
        return _FIRST_DAY, _END_DAY - 1
    if t.root is Root.DECIMAL:
        return 1 - 10**t.precision, 10**t.precision - 1
    if t.root not in TIMESTAMP_ROOTS or t.precision > 6:
        return None
    # Midnight of a first and last day in a zone far from UTC is an instant of the day before or after.
    day, more = _DAY_SECONDS * 10 ** _UNIT_DIGITS[timestamp_unit(t.precision)], t.root is Root.TIMESTAMP_LTZ
    return (_FIRST_DAY - more) * day, (_END_DAY + more) * day - 1


def has_ranges(t: DataType) -> bool:
    """Return True when values inside a nested type may be out of their range."""
    inner = [c for c in (t.key, t.element) if c is not None] + [f.type for f in t.fields]
    return any(value_range(c) is not None or has_ranges(c) for c in inner)


def is_bounded(t: DataType) -> bool:
    """Return True for a type of a length or precision that its Arrow type does not keep."""
    if t.root in TIMESTAMP_ROOTS:
        return t.precision % 3 != 0 or t.precision == 0
    return t.root is Root.CHAR or (t.root in STRING_ROOTS | BYTES_ROOTS and t.length != MAX_LENGTH)


def fit_declared(values: pa.Array, t: DataType) -> tuple[pa.Array, npt.NDArray[np.bool_] | None]:
    """Fit values of a type's Arrow type to the type.

    returns   values, null where they do not fit; and where that is, None when nowhere
    """
    unfit = out_of_range(values, t)
    if is_bounded(t):
        if t.root in STRING_ROOTS:
            values, unfit = _fit_text(values, t)
        elif t.root in BYTES_ROOTS:
            unfit = pc.greater(pc.binary_length(values), t.length)
        else:
            step = 10 ** (_UNIT_DIGITS[values.type.unit] - t.precision)
            ticks = values.cast(pa.int64())
            finer = pc.not_equal(pc.multiply(pc.divide(ticks, step), step), ticks)
            unfit = finer if unfit is None else pc.or_(unfit, finer)
    if unfit is None or not pc.any(unfit, min_count=0).as_py():
        return values, None
    return pc.if_else(unfit, pa.scalar(None, values.type), values), np.asarray(pc.fill_null(unfit, False))


def out_of_range(values: pa.Array, t: DataType) -> pa.Array | None:
    """Find values out of a type's range; None when there are none."""
    bounds = value_range(t)
    if bounds is None:
        return None
    if t.root is Root.DECIMAL:
        kind = pa.decimal256(_WIDEST, t.scale)
        low, high = (pa.scalar(Decimal(bound).scaleb(-t.scale, _EXACT), kind) for bound in bounds)
    else:
        kind = pa.int32() if values.type.bit_width == 32 else pa.int64()
        low, high = (pa.scalar(bound, kind) for bound in bounds)
    numbers = values.cast(kind)
    found = pc.min_max(numbers).as_py()
    if found["min"] is None or (low.as_py() <= found["min"] and found["max"] <= high.as_py()):
        return None
    return pc.or_(pc.less(numbers, low), pc.greater(numbers, high))


def pad_char(values: pa.Array, t: DataType) -> pa.Array:
    """Pad the values of a CHAR column with blanks to its length; those of other columns stay as they are."""
    if t.root is not Root.CHAR or pc.min(pc.utf8_length(values)).as_py() in (None, t.length):
        return values
    return pc.utf8_rpad(values, width=t.length, padding=" ")


def _fit_text(values: pa.Array, t: DataType) -> tuple[pa.Array, pa.Array]:
    lengths = pc.utf8_length(values)
    unfit = pc.greater(lengths, t.length)
    if pc.any(unfit, min_count=0).as_py():
        cut = pc.utf8_slice_codeunits(values, 0, t.length)
        rest = pc.utf8_slice_codeunits(values, t.length)
        unfit = pc.greater(pc.utf8_length(pc.utf8_rtrim(rest, characters=" ")), 0)
        values = pc.if_else(unfit, values, cut)
    return pad_char(values, t), unfit
