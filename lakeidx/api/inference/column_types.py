"""Types of columns by their values in samples, and how these are spelled."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.arrays import is_text
from lakeidx.landing.read import LandingOptions
from lakeidx.landing.written.spelling import cast_spelled
from lakeidx.types import format_type, from_arrow, parse_type

#: (decimal, thousands) that are tried, the first wins of those that as many columns fit.
_NUMBERS = ((".", ""), (".", ","), (",", ""), (",", "."), (",", " "), (".", "'"))
_DATES = ("iso", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%d.%m.%y")
_CLOCKS = (" %H:%M:%S", " %H:%M", " %I:%M %p", " %I:%M:%S %p")
_WORDS = (("ja", "nein"), ("wahr", "falsch"), ("oui", "non"), ("vrai", "faux"), ("si", "no"), ("sí", "no"), ("sì", "no"),
          ("verdadero", "falso"), ("vero", "falso"), ("sim", "não"), ("tak", "nie"), ("prawda", "fałsz"))  # fmt: skip
_OWN_WORDS = {"true", "false", "t", "f", "yes", "no", "y", "n"}
_NULLS = ("NULL", "null", "NaN", "nan", "N/A", "n/a", "#N/A", "\\N", "None", "k. A.")
_MONEY = re.compile(
    r"(?i)(price|amount|total|cost|revenue|salary|balance|fee|tax|betrag|preis|summe|umsatz|gehalt|montant|prix|importe|precio|"
    r"importo|prezzo|kwota|cena|valor)"
)
_MOST_FRACTION = 4
_DIGITS = 18
_EXACT = "DECIMAL, which is exact, as money has to be; take DOUBLE if it was measured"


@dataclass(frozen=True, slots=True)
class ColumnTypes:
    """Types of columns as texts, what is to say of single ones, and options that say how their values are spelled."""

    types: Mapping[str, Any]
    comments: Mapping[str, str]
    options: LandingOptions


def infer_types(rows: pa.Table, options: LandingOptions, *, written: bool = True) -> ColumnTypes:
    """Infer the types of columns of texts; others have those they have, but money, which is exact.

    written   texts are how values are written; not so of formats that have types, and rows in memory
    """
    texts = [f.name for f in rows.schema if written and is_text(f.type)]
    options = _with_nulls(rows, texts, options)
    nulls = pa.array(options.null_values)
    distinct = {n: _distinct(rows.column(n), nulls) for n in texts}
    options = _with_numbers(distinct, options)
    types: dict[str, Any] = {}
    comments: dict[str, str] = {}
    formats: list[str] = []
    words: list[tuple[str, str]] = []
    for field in rows.schema:
        name = field.name
        if name in distinct:
            types[name], comments[name] = _of_texts(distinct[name], options, formats, words)
        else:
            types[name], comments[name] = _of_typed(rows.column(name), name)
    if formats and formats != ["iso"] and not options.date_formats:
        options = replace(options, date_formats=tuple(dict.fromkeys(formats)))
    if words:
        true, false = zip(*dict.fromkeys(words), strict=True)
        options = replace(options, true_values=options.true_values + true, false_values=options.false_values + false)
    return ColumnTypes(types, {n: c for n, c in comments.items() if c}, options)


def _distinct(column: pa.ChunkedArray, nulls: pa.Array) -> pa.Array:
    values = pc.drop_null(pc.unique(column.cast(pa.string())))
    return pc.filter(values, pc.invert(pc.is_in(values, nulls)))


def _with_nulls(rows: pa.Table, texts: Sequence[str], options: LandingOptions) -> LandingOptions:
    """Add words for null that stand among other values which all are numbers or dates."""
    if options.null_values != ("",):
        return options
    found: list[str] = []
    for name in texts:
        values = _distinct(rows.column(name), pa.array(["", *_NULLS]))
        there = [w for w in _NULLS if pc.any(pc.equal(rows.column(name), w), min_count=0).as_py()]
        if there and len(values) and not pc.any(pc.match_substring_regex(values, r"^\D+$"), min_count=0).as_py():
            found += there
    return replace(options, null_values=("", *dict.fromkeys(found))) if found else options


def _fits(values: pa.Array, t: str, options: LandingOptions) -> bool:
    failed = cast_spelled(values, parse_type(t), options).failed
    return failed is None or not failed.any()


def _with_numbers(distinct: Mapping[str, pa.Array], options: LandingOptions) -> LandingOptions:
    """Choose how numbers are spelled: as most columns are."""
    if options.decimal != "." or options.thousands:
        return options
    shown = [v for v in distinct.values() if len(v) and pc.all(pc.match_substring_regex(v, r"^\s*[-+]?[\d.,]")).as_py()]
    tried = [replace(options, decimal=point, thousands=group) for point, group in _NUMBERS]
    return max(tried, key=lambda o: sum(_fits(v, "DOUBLE", o) for v in shown)) if shown else options


def _of_texts(
    values: pa.Array, options: LandingOptions, formats: list[str], words: list[tuple[str, str]]
) -> tuple[str, str]:
    """Return the type of a column of texts and what is to say of it; formats and words get what it needs."""
    if not len(values):
        return "STRING", "has no value: STRING is a guess"
    lowered = {str(v).strip().lower() for v in values.to_pylist()[:3]} if len(values) <= 2 else set()
    if lowered and lowered <= _OWN_WORDS:
        return "BOOLEAN", ""
    for pair in _WORDS:
        if len(lowered) == 2 and lowered == set(pair):
            words.append(pair)
            return "BOOLEAN", f"{pair[0]} is true, {pair[1]} is false"
    if pc.any(pc.match_substring_regex(values, r"^\s*[-+]?0\d")).as_py() and _fits(values, "DOUBLE", options):
        return "STRING", "has zeros before numbers, which numbers lose: STRING"
    if _fits(values, "DOUBLE", options):
        return _of_numbers(values, options)
    return _of_dates(values, options, formats) or ("STRING", "")


def _of_numbers(values: pa.Array, options: LandingOptions) -> tuple[str, str]:
    point = re.escape(options.decimal)
    # Programs whose numbers with nulls are floats write 5.0.
    if (
        _fits(values, "BIGINT", options)
        and pc.all(pc.match_substring_regex(values, rf"^[^{point}eE]*({point}0)?$")).as_py()
    ):
        return "BIGINT", ""
    fraction = pc.max(pc.utf8_length(pc.replace_substring_regex(values, rf"^[^{point}]*{point}?", ""))).as_py()
    whole = pc.max(pc.utf8_length(pc.replace_substring_regex(values, rf"{point}.*$|\D", ""))).as_py()
    exponent = pc.any(pc.match_substring_regex(values, r"(?i)[en]")).as_py()
    if exponent or fraction > _MOST_FRACTION or whole + fraction > _DIGITS:
        return "DOUBLE", ""
    return f"DECIMAL({_DIGITS}, {max(fraction, 2)})", _EXACT


def _of_dates(values: pa.Array, options: LandingOptions, formats: list[str]) -> tuple[str, str] | None:
    given = options.date_formats
    fitting = []
    for form in given or _DATES:
        if _fits(values, "DATE", replace(options, date_formats=(form,))):
            fitting.append(form)
    if fitting:
        formats.append(fitting[0])
        other = f"; it may also be {fitting[1]}: change date_formats then" if len(fitting) > 1 and not given else ""
        return "DATE", "" if fitting[0] == "iso" else f"read as {fitting[0]}{other}"
    for t in ("TIMESTAMP(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE"):
        tried = given or ("iso", *(d + c for d in _DATES[1:] for c in _CLOCKS))
        fitting = [form for form in tried if _fits(values, t, replace(options, date_formats=(form,)))]
        if fitting:
            formats.append(fitting[0])
            by_first = replace(options, date_formats=(fitting[0],))
            precision = next(p for p in (0, 3, 6) if _fits(values, t.replace("6", str(p)), by_first))
            return t.replace("6", str(precision)), "" if fitting[0] == "iso" else f"read as {fitting[0]}"
    return None


def _of_typed(values: pa.ChunkedArray, name: str) -> tuple[Any, str]:
    t = format_type(from_arrow(values.type, where=f"column {name}"))
    if pa.types.is_floating(values.type) and _MONEY.search(name):
        exact = f"DECIMAL({_DIGITS}, {_MOST_FRACTION})"
        if _fits(values.combine_chunks(), exact, LandingOptions()):
            return exact, f"DOUBLE in the files; {_EXACT}"
    return t, "has no value: STRING is a guess" if pa.types.is_null(values.type) else ""
