"""Texts of numbers, dates, times and truth values as a file spells them, to the texts that the cast reads; whole columns.

With options a text has to be spelled as they say: ``1.500`` is not taken for one and a half where the fraction follows a comma. A
minus may stand behind a number, as SAP writes it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakeidx.codec.arrays import is_text
from lakeidx.landing.cast import CastColumn, cast_column
from lakeidx.landing.types import LandingOptions
from lakeidx.landing.written.date_formats import parse_format, split_texts
from lakeidx.types import INT_ROOTS, DataType, Root, to_arrow

_NUMBERS = (*INT_ROOTS, Root.DECIMAL, Root.FLOAT, Root.DOUBLE)
_TIMES = (Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
#: Characters that are written for one of `LandingOptions.thousands`: blanks that do not break, other apostrophes.
_ALSO = {" ": "[ \u00a0\u202f\u2009]", "'": "['\u2019]"}
_ZONED = r":\d\d(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)\s*$"
_MIDNIGHT = r"^[0:.]*$"


def cast_spelled(column: pa.ChunkedArray | pa.Array, wanted: DataType, options: LandingOptions | None) -> CastColumn:
    """Cast a column of a file as `cast_column`, by the spelling that the options say.

    errors   as `cast_column`
    """
    if options is None:
        return cast_column(column, wanted)
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    if pa.types.is_dictionary(values.type) and is_text(values.type.value_type):
        values = values.cast(values.type.value_type)
    plain, unfit = _plain(values, wanted, options) if is_text(values.type) else (values, None)
    local = wanted.root is Root.TIMESTAMP_LTZ and options.timezone is not None
    cast = _cast_local(plain, wanted, str(options.timezone)) if local else cast_column(plain, wanted)
    if unfit is None or not unfit.any():
        return cast
    return CastColumn(cast.values, unfit if cast.failed is None else cast.failed | unfit)


def spelled_as(wanted: DataType, options: LandingOptions | None) -> str:
    """Return how texts of a type have to be spelled by the options, for messages; "" for the usual way."""
    if options is None:
        return ""
    if wanted.root in _NUMBERS and (options.decimal != "." or options.thousands):
        groups = f" and {options.thousands!r} between thousands" if options.thousands else ""
        return f" with {options.decimal!r} before the fraction{groups}"
    if wanted.root in _TIMES and options.date_formats:
        zone = f" of {options.timezone}" if wanted.root is Root.TIMESTAMP_LTZ and options.timezone else ""
        return f" as {' or '.join(options.date_formats)}{zone}"
    if wanted.root is Root.TIMESTAMP_LTZ and options.timezone:
        return f" of {options.timezone}, once on its clocks"
    if wanted.root is Root.BOOLEAN and (options.true_values or options.false_values):
        return f" ({', '.join((*options.true_values, *options.false_values))})"
    return ""


def _plain(texts: pa.Array, wanted: DataType, options: LandingOptions) -> tuple[pa.Array, NDArray[np.bool_] | None]:
    """Return texts as the cast reads them, null where they are not spelled as they have to be, and where that is so."""
    if wanted.root in _NUMBERS and (options.decimal != "." or options.thousands):
        return _marked(texts, _numbers(texts.cast(pa.string()), options))
    if wanted.root in _TIMES and options.date_formats:
        return _marked(texts, _times(texts.cast(pa.string()), wanted, options.date_formats))
    if wanted.root is Root.BOOLEAN and (options.true_values or options.false_values):
        return _truths(texts.cast(pa.string()), options), None
    return texts, None


def _marked(texts: pa.Array, plain: pa.Array) -> tuple[pa.Array, NDArray[np.bool_]]:
    return plain, np.asarray(pc.and_(pc.is_valid(texts), pc.is_null(plain)))


def _numbers(texts: pa.Array, options: LandingOptions) -> pa.Array:
    point = re.escape(options.decimal)
    group = _ALSO.get(options.thousands, re.escape(options.thousands))
    whole = rf"\d{{1,3}}(?:{group}\d{{3}})+|\d+" if options.thousands else r"\d+"
    digits = rf"(?:(?:{whole})(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?"
    texts = pc.replace_substring(pc.utf8_trim_whitespace(texts), "\u2212", "-")
    fits = pc.match_substring_regex(texts, rf"^(?:[+-]?{digits}|{digits}-|[+-]?(?i:inf|infinity|nan))$")
    plain = pc.replace_substring_regex(texts, group, "") if options.thousands else texts
    plain = pc.replace_substring(plain, options.decimal, ".")
    plain = pc.replace_substring_regex(plain, r"^([^-].*)-$", r"-\1")
    return pc.if_else(fits, plain, pa.scalar(None, pa.string()))


def _truths(texts: pa.Array, options: LandingOptions) -> pa.Array:
    """Return texts with the words of the file as true and false; others as they are."""
    words = {**dict.fromkeys(options.true_values, "true"), **dict.fromkeys(options.false_values, "false")}
    if "" in words:
        # A flag that is set or blank (SAP): CSV reads an empty text as null.
        texts = pc.fill_null(texts, "")
    at = pc.index_in(pc.utf8_lower(pc.utf8_trim_whitespace(texts)), pa.array([w.lower() for w in words], pa.string()))
    return pc.coalesce(pa.array(list(words.values()), pa.string()).take(at), texts)


def _times(texts: pa.Array, wanted: DataType, formats: Sequence[str]) -> pa.Array:
    """Return ISO texts by the first format that fits each, null where none does."""
    found = []
    for text in formats:
        form = parse_format(text)
        if form is None:
            found.append(_iso(texts, wanted))
            continue
        if not (form.has_time if wanted.root is Root.TIME else form.has_date):
            continue
        date, clock, zone = split_texts(texts, form)
        if wanted.root is Root.TIME:
            found.append(clock)
        elif wanted.root is Root.DATE:
            found.append(pc.if_else(pc.match_substring_regex(clock, _MIDNIGHT), date, pa.scalar(None, pa.string())))
        else:
            clock = pc.if_else(pc.equal(clock, ""), "00:00:00", clock)
            found.append(pc.binary_join_element_wise(pc.binary_join_element_wise(date, clock, " "), zone, ""))
    return pc.coalesce(*found) if found else pa.nulls(len(texts), pa.string())


def _iso(texts: pa.Array, wanted: DataType) -> pa.Array:
    from lakeidx.landing.cast_values import PLAUSIBLE

    plausible = pc.match_substring_regex(pc.utf8_trim_whitespace(texts), PLAUSIBLE[wanted.root])
    return pc.if_else(plausible, texts, pa.scalar(None, pa.string()))


def _cast_local(values: pa.Array, wanted: DataType, zone: str) -> CastColumn:
    """Cast times to instants; those without a zone are on the clocks of one, where each is there once."""
    if not is_text(values.type) and not (pa.types.is_timestamp(values.type) and values.type.tz is None):
        return cast_column(values, wanted)
    if not is_text(values.type):
        return _instants(values, wanted, zone)
    zoned = pc.fill_null(pc.match_substring_regex(values, _ZONED), False)
    local = _instants(pc.if_else(zoned, pa.scalar(None, values.type), values), wanted, zone)
    if not pc.any(zoned, min_count=0).as_py():
        return local
    given = cast_column(pc.if_else(zoned, values, pa.scalar(None, values.type)), wanted)
    failed = np.zeros(len(values), np.bool_)
    for part in (local, given):
        failed |= False if part.failed is None else part.failed
    return CastColumn(pc.coalesce(given.values, local.values), failed)


def _instants(values: pa.Array, wanted: DataType, zone: str) -> CastColumn:
    target = to_arrow(wanted)
    cast = cast_column(values, DataType(Root.TIMESTAMP, precision=wanted.precision))
    first, last = (
        pc.cast(pc.assume_timezone(cast.values, zone, ambiguous=which, nonexistent=which), target)
        for which in ("earliest", "latest")
    )
    # A time that clocks show twice, or never, on the days when they are put back or forward.
    unsure = np.asarray(pc.fill_null(pc.not_equal(first, last), False))
    if not unsure.any():
        return CastColumn(first, cast.failed)
    kept = pc.if_else(pa.array(unsure), pa.scalar(None, target), first)
    return CastColumn(kept, unsure if cast.failed is None else unsure | cast.failed)
