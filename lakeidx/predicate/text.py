"""Predicates as SQL text, for plans and messages; `parse_where` reads it back."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from typing import Any

from lakeidx.errors import InvalidInputError
from lakeidx.predicate.bind import reference_type
from lakeidx.predicate.like import like_text
from lakeidx.predicate.tree import And, Compare, Constant, In, IsNull, Leaf, Match, MatchKind, Or, Predicate
from lakeidx.types import TIMESTAMP_ROOTS, DataType, Field, Root

_EPOCH = dt.date(1970, 1, 1)
_EPOCH_SECOND = dt.datetime(1970, 1, 1)
_MAX_SHOWN = 20


def format_predicate(pred: Predicate, fields: Sequence[Field] = (), *, shorten: bool = False) -> str:
    """Format the predicate as SQL.

    fields   the table's columns: with them dates, times and timestamps are written as such instead of as internal
             values
    shorten  show only the first values of long IN lists (the text can then not be read back)
    """
    by_name = {f.name: f for f in fields}
    return _format(pred, by_name, shorten, nested=False)


def _format(pred: Predicate, by_name: Mapping[str, Field], shorten: bool, nested: bool) -> str:
    if isinstance(pred, Constant):
        return "TRUE" if pred.value else "FALSE"
    if isinstance(pred, (And, Or)):
        word = " AND " if isinstance(pred, And) else " OR "
        text = word.join(_format(c, by_name, shorten, nested=True) for c in pred.children)
        return f"({text})" if nested else text
    assert isinstance(pred, Leaf)
    name = _quote(pred.source) if pred.map_key is None else f"{_quote(pred.source)}[{_string(pred.map_key)}]"
    no = "NOT " if getattr(pred, "negated", False) else ""
    if isinstance(pred, IsNull):
        return f"{name} IS {no}NULL"
    if isinstance(pred, Match):
        pattern = pred.text if pred.kind is MatchKind.LIKE else _pattern(pred.kind, pred.text)
        return f"{name} {no}LIKE {_string(pattern)}"
    t = _type_of(pred, by_name)
    if isinstance(pred, Compare):
        return f"{name} {pred.op.value} {_value(pred.value, t)}"
    assert isinstance(pred, In)
    shown = [_value(v, t) for v in (pred.values[:_MAX_SHOWN] if shorten else pred.values)]
    if len(shown) < len(pred.values):
        shown.append(f"… {len(pred.values) - len(shown)} more")
    return f"{name} {no}IN ({', '.join(shown)})"


def _type_of(leaf: Leaf, by_name: Mapping[str, Field]) -> DataType | None:
    try:
        return reference_type(leaf, by_name)
    except InvalidInputError:
        return None


def _quote(name: str) -> str:
    # sqlglot takes a fifth of a second to import: only names that are shown need it.
    from sqlglot.tokens import Tokenizer

    plain = name.isascii() and name.isidentifier() and name.upper() not in Tokenizer.KEYWORDS
    return name if plain else "`" + name.replace("`", "``") + "`"


def _string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _pattern(kind: MatchKind, text: str) -> str:
    return ("" if kind is MatchKind.PREFIX else "%") + like_text(text) + ("" if kind is MatchKind.SUFFIX else "%")


def _value(value: Any, t: DataType | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (bytes, bytearray)):
        return f"X'{value.hex()}'"
    if isinstance(value, float) and not math.isfinite(value):
        return "'NaN'" if math.isnan(value) else "'Infinity'" if value > 0 else "'-Infinity'"
    if isinstance(value, str):
        return _string(value)
    if t is not None and t.root is Root.DATE and isinstance(value, int):
        return _date(value)
    if t is not None and t.root is Root.TIME and isinstance(value, int):
        return f"TIME '{_EPOCH_SECOND + dt.timedelta(milliseconds=value):%H:%M:%S}.{value % 1000:03d}'"
    if t is not None and t.root in TIMESTAMP_ROOTS and isinstance(value, tuple):
        return _timestamp(value)
    if isinstance(value, (dt.date, dt.time)):
        return f"'{value.isoformat()}'"
    return str(value)


def _date(days: int) -> str:
    try:
        return f"DATE '{_EPOCH + dt.timedelta(days=days)}'"
    except OverflowError:
        return f"epoch day {days}"


def _timestamp(value: tuple[int, int]) -> str:
    seconds, millis = divmod(value[0], 1000)
    try:
        second = _EPOCH_SECOND + dt.timedelta(seconds=seconds)
    except OverflowError:
        return f"epoch second {seconds}"
    fraction = f"{millis * 1_000_000 + value[1]:09d}".rstrip("0")
    return f"TIMESTAMP '{second.isoformat(sep=' ')}{'.' + fraction if fraction else ''}'"
