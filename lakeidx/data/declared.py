"""Values fitted to the length or precision that their column declares, as SQL writers of Paimon tables do.

CHAR(n)                   padded with blanks to n characters: a key is then the same row, whoever wrote it
CHAR(n), VARCHAR(n)       blanks beyond n are cut off, any other character there makes the value unfit
BINARY(n), VARBINARY(n)   more than n bytes are unfit; fewer are not padded
TIMESTAMP(p), LTZ         more fraction digits than p are unfit

Java's table API stores what it is given; Spark's connector pads and refuses as above (text only), so that a Spark session would
otherwise see one CHAR key twice. TIME(p) is stored in milliseconds by all of them. Values within nested types are left alone.

source   CharVarcharCodegenUtils.charTypeWriteSideCheck of Spark 4.0; org.apache.paimon.utils.TypeUtils, release 1.4.2
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.types import BYTES_ROOTS, MAX_LENGTH, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root

_UNIT_DIGITS = {"ms": 3, "us": 6, "ns": 9}


def is_bounded(t: DataType) -> bool:
    """Return True for a type whose Arrow type holds values that do not fit it."""
    if t.root in TIMESTAMP_ROOTS:
        return t.precision % 3 != 0 or t.precision == 0
    return t.root is Root.CHAR or (t.root in STRING_ROOTS | BYTES_ROOTS and t.length != MAX_LENGTH)


def fit_declared(values: pa.Array, t: DataType) -> tuple[pa.Array, npt.NDArray[np.bool_] | None]:
    """Fit values of a type's Arrow type to the type.

    returns   values, null where they do not fit; and where that is, None when nowhere
    """
    if not is_bounded(t):
        return values, None
    if t.root in STRING_ROOTS:
        values, unfit = _fit_text(values, t)
    elif t.root in BYTES_ROOTS:
        unfit = pc.greater(pc.binary_length(values), t.length)
    else:
        step = 10 ** (_UNIT_DIGITS[values.type.unit] - t.precision)
        ticks = values.cast(pa.int64())
        unfit = pc.not_equal(pc.multiply(pc.divide(ticks, step), step), ticks)
    if not pc.any(unfit, min_count=0).as_py():
        return values, None
    return pc.if_else(unfit, pa.scalar(None, values.type), values), np.asarray(pc.fill_null(unfit, False))


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
