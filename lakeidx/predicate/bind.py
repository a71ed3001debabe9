"""Names and literals of a predicate resolved against a table's columns.

Literals cast to a column's type: Python values and SQL text become internal values (see `lakeidx.types`).

A literal between two values of the type (5.5 for an INT) or outside its range (300 for a TINYINT) is legal in a
comparison. It is cast to the greatest value not above it and marked, and `lakeidx.predicate.bind` turns the comparison
into one that means the same.

Predicates on a table's present columns, rewritten for the columns of an older data file.

A file written under an older schema lacks columns added since, and holds others under old names and narrower types. Its
statistics and indexes refer to those.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation
from functools import cache
from typing import Any

import numpy as np

from lakeidx.errors import InvalidInputError, did_you_mean
from lakeidx.predicate.tree import (
    FALSE,
    TRUE,
    And,
    Compare,
    Constant,
    In,
    IsNull,
    Leaf,
    Match,
    MatchKind,
    Op,
    Or,
    Predicate,
    Values,
    and_,
    columns,
    like_prefix,
    like_text,
    or_,
    project,
    rename,
)
from lakeidx.types import BYTES_ROOTS, INT_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Field, Root

_INT_BITS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}
_CONTEXT = Context(prec=200, rounding=ROUND_FLOOR)
_EPOCH = dt.date(1970, 1, 1)
_DAY_NS = 86_400_000_000_000
_DATE = r"(?P<y>\d{4})-(?P<mo>\d{1,2})-(?P<d>\d{1,2})"
_TIME = r"(?P<h>\d{1,2}):(?P<mi>\d{2})(?::(?P<s>\d{2})(?:\.(?P<f>\d{1,9}))?)?"
_ZONE = r"(?P<zone>Z|UTC|[+-]\d{2}:?\d{2})"
_TIMESTAMP_PATTERN = re.compile(rf"^{_DATE}(?:[T ]\s*{_TIME}\s*{_ZONE}?)?$", re.IGNORECASE | re.ASCII)
_TIME_PATTERN = re.compile(rf"^{_TIME}$", re.ASCII)
_NON_FINITE = {"nan": math.nan, "infinity": math.inf, "+infinity": math.inf, "-infinity": -math.inf,
               "inf": math.inf, "+inf": math.inf, "-inf": -math.inf}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Literal:
    """A value in a column's type.

    value   internal value: equal to the literal, or when `exact` is false the greatest one below it
    exact   whether some value of the type equals the literal
    beyond  +1: above every value of the type, -1: below every one (`value` is then None), 0: inside
    """

    value: Any
    exact: bool = True
    beyond: int = 0


def cast_literal(value: Any, t: DataType, *, where: str = "literal", strict_float: bool = False) -> Literal:
    """Convert a literal to a column's type.

    value         a Python or NumPy scalar, an internal value of `t`, or text as SQL writes a value of `t`
                  ('2024-01-31', '1.5'). Aware datetimes and text with a zone are taken as that instant; a LTZ column
                  takes values without zone as UTC.
    where         what messages name
    strict_float  a FLOAT column takes a value that is no 32-bit float for inexact; otherwise (SQL text) it is rounded
                  to the nearest
    errors        InvalidInputError when a value of this kind cannot be compared with the type
    """
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        value = value.item()
    if t.root in INT_ROOTS:
        return _to_int(value, t, where)
    if t.root in (Root.FLOAT, Root.DOUBLE):
        return _to_float(value, t, where, strict_float)
    if t.root in TIMESTAMP_ROOTS:
        return _to_timestamp(value, t, where)
    cast = _SIMPLE.get(t.root)
    if cast is not None:
        return cast(value, t, where)
    raise InvalidInputError(
        f"{where}: values of type {t} cannot be compared; only IS NULL and IS NOT NULL are possible"
    )


def _refuse(value: Any, t: DataType, where: str, hint: str = "") -> InvalidInputError:
    shown = repr(value) if len(repr(value)) <= 80 else repr(value)[:77] + "..."
    return InvalidInputError(
        f"{where}: {shown} cannot be compared with {t.with_nullable(True)}{'; ' + hint if hint else ''}"
    )


def _to_decimal(value: Any, t: DataType, where: str) -> Decimal | float:
    """Return the number, exactly; a float only when it is not finite."""
    if isinstance(value, bool):
        raise _refuse(value, t, where)
    if isinstance(value, int):
        return Decimal(value)
    if isinstance(value, Decimal):
        return value if value.is_finite() else math.nan if value.is_nan() else float(value)
    if isinstance(value, float):
        return Decimal(value) if math.isfinite(value) else value
    if isinstance(value, str):
        special = _NON_FINITE.get(value.strip().lower())
        if special is not None:
            return special
        try:
            number = Decimal(value.strip())
        except InvalidOperation:
            number = Decimal("NaN")
        if number.is_finite():
            return number
    raise _refuse(value, t, where)


def _to_int(value: Any, t: DataType, where: str) -> Literal:
    number = _to_decimal(value, t, where)
    limit = 1 << (_INT_BITS[t.root] - 1)
    if isinstance(number, float):  # NaN stands above every number
        return Literal(None, False, -1 if number < 0 else 1)
    if number > limit - 1 and number.to_integral_value(ROUND_FLOOR) > limit - 1:
        return Literal(None, False, 1)
    if number < -limit:
        return Literal(None, False, -1)
    floor = int(number.to_integral_value(ROUND_FLOOR))
    return Literal(floor, number == floor)


def _to_float(value: Any, t: DataType, where: str, strict: bool) -> Literal:
    number = _to_decimal(value, t, where)
    try:
        result = float(number)
    except OverflowError:
        result = math.copysign(math.inf, number)
    if isinstance(value, float):
        result = value  # keeps -0.0
    if t.root is Root.DOUBLE or not math.isfinite(result):
        return Literal(result)
    with np.errstate(over="ignore"):
        nearest = np.float32(result)
    if np.isfinite(nearest) and (not strict or float(nearest) == result):
        return Literal(float(nearest))
    below = nearest if float(nearest) < result else np.nextafter(nearest, np.float32(-np.inf))
    return Literal(float(below), False)


def _to_decimal_column(value: Any, t: DataType, where: str) -> Literal:
    # A Python float means its shortest text here: 0.1 is the decimal 0.1.
    number = _to_decimal(repr(value) if isinstance(value, float) else value, t, where)
    if isinstance(number, float):
        return Literal(None, False, -1 if number < 0 else 1)
    limit = Decimal(10) ** (t.precision - t.scale)
    if number >= limit:
        return Literal(None, False, 1)
    if number <= -limit:
        return Literal(None, False, -1)
    floor = number.quantize(Decimal(1).scaleb(-t.scale), context=_CONTEXT)
    if floor <= -limit:
        return Literal(None, False, -1)
    return Literal(floor, floor == number)


def _to_bool(value: Any, t: DataType, where: str) -> Literal:
    if isinstance(value, bool):
        return Literal(value)
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return Literal(value.strip().lower() == "true")
    raise _refuse(value, t, where, "write TRUE or FALSE")


def _to_string(value: Any, t: DataType, where: str) -> Literal:
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise _refuse(value, t, where, "it contains a lone surrogate") from None
        return Literal(value)
    raise _refuse(value, t, where, f"write it in quotes: '{value}'" if isinstance(value, (int, Decimal)) else "")


def _to_bytes(value: Any, t: DataType, where: str) -> Literal:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return Literal(bytes(value))
    raise _refuse(value, t, where, "write the bytes in hex: X'1F'")


def _to_date(value: Any, t: DataType, where: str) -> Literal:
    if isinstance(value, int) and not isinstance(value, bool):
        return Literal(value)  # epoch days, the internal value
    nanos, _ = _instant(value, t, where)
    days = nanos // _DAY_NS
    return Literal(days, days * _DAY_NS == nanos)


def _to_time(value: Any, t: DataType, where: str) -> Literal:
    if isinstance(value, int) and not isinstance(value, bool):
        return Literal(value)  # ms of day, the internal value
    if isinstance(value, str):
        match = _TIME_PATTERN.match(value.strip())
        if match is None:
            raise _refuse(value, t, where, "write it as 'HH:MM:SS'")
        nanos = _nanos_of_day(match, value, t, where)
    elif isinstance(value, dt.time) and value.tzinfo is None:
        nanos = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000_000 + value.microsecond * 1000
    else:
        raise _refuse(value, t, where)
    return Literal(nanos // 1_000_000, nanos % 1_000_000 == 0)


def _to_timestamp(value: Any, t: DataType, where: str) -> Literal:
    if isinstance(value, tuple) and len(value) == 2 and all(type(v) is int for v in value):
        nanos, zoned = value[0] * 1_000_000 + value[1], None
    else:
        nanos, zoned = _instant(value, t, where)
    if zoned and t.root is Root.TIMESTAMP:
        raise _refuse(value, t, where, "the column has no time zone: leave the zone out")
    unit = 10 ** (9 - t.precision)
    arrow_unit = 1_000_000 if t.precision <= 3 else 1000 if t.precision <= 6 else 1
    floor = nanos // unit * unit
    if not -(1 << 63) <= floor // arrow_unit < 1 << 63:
        return Literal(None, False, 1 if floor > 0 else -1)
    return Literal((floor // 1_000_000, floor % 1_000_000), floor == nanos)


def _instant(value: Any, t: DataType, where: str) -> tuple[int, bool]:
    """Return the nanoseconds since 1970-01-01 00:00 (of UTC when a zone is given), and whether one was."""
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            raise _refuse(value, t, where)
        unit, step = np.datetime_data(value.dtype)
        scale = {"D": _DAY_NS, "h": _DAY_NS // 24, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}.get(
            unit
        )
        if scale is None:
            raise _refuse(value, t, where)
        return int(value.astype("int64")) * scale * step, False
    if isinstance(value, dt.datetime):
        zoned = value.tzinfo is not None
        offset = value.utcoffset() or dt.timedelta(0)
        since = value.replace(tzinfo=None) - offset - dt.datetime(1970, 1, 1)
        micros = (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds
        return micros * 1000 + int(getattr(value, "nanosecond", 0)), zoned
    if isinstance(value, dt.date):
        return (value - _EPOCH).days * _DAY_NS, False
    match = _TIMESTAMP_PATTERN.match(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise _refuse(
            value,
            t,
            where,
            "write it as 'YYYY-MM-DD'" + ("" if t.root is Root.DATE else " or 'YYYY-MM-DD HH:MM:SS.ffffff'"),
        )
    try:
        days = (dt.date(int(match["y"]), int(match["mo"]), int(match["d"])) - _EPOCH).days
    except ValueError as error:
        raise _refuse(value, t, where, str(error)) from None
    nanos = days * _DAY_NS + (_nanos_of_day(match, value, t, where) if match["h"] else 0)
    zone = match["zone"]
    if zone is not None and zone.upper() not in ("Z", "UTC"):
        digits = zone[1:].replace(":", "")
        seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
        nanos -= (seconds if zone[0] == "+" else -seconds) * 1_000_000_000
    return nanos, zone is not None


def _nanos_of_day(match: re.Match[str], value: Any, t: DataType, where: str) -> int:
    hour, minute, second = int(match["h"]), int(match["mi"]), int(match["s"] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise _refuse(value, t, where, "no such time of day")
    return ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + int((match["f"] or "").ljust(9, "0"))


_SIMPLE: dict[Root, Callable[[Any, DataType, str], Literal]] = {
    Root.DECIMAL: _to_decimal_column,
    Root.BOOLEAN: _to_bool,
    Root.DATE: _to_date,
    Root.TIME: _to_time,
    **dict.fromkeys(STRING_ROOTS, _to_string),
    **dict.fromkeys(BYTES_ROOTS, _to_bytes),
}


_FLOAT_ROOTS = (Root.FLOAT, Root.DOUBLE)


def bind(pred: Predicate, fields: Sequence[Field], *, strict_float: bool = False) -> Predicate:
    """Rewrite the predicate with every literal an internal value of its column's type.

    fields  the table's columns
    errors  InvalidInputError: a column that does not exist (with suggestions), a literal that cannot be compared with
            its column, LIKE on a column that is no string, an entry of a column that is no map with string keys

    A literal that no value of the type equals is moved to the next value below and the operator adjusted (``i > 5.5``
    becomes ``i > 5``); a comparison that can hold for no value, or for every one, becomes an IN or NOT IN of nothing.
    Blanks at the end of a literal do not count for a CHAR column.
    """
    by_name = {f.name: f for f in fields}
    return _bind(pred, by_name, strict_float)


def _bind(pred: Predicate, by_name: Mapping[str, Field], strict: bool) -> Predicate:
    if isinstance(pred, Constant):
        return pred
    if isinstance(pred, And):
        return _sorted(and_(_bind(c, by_name, strict) for c in pred.children))
    if isinstance(pred, Or):
        return _sorted(or_(_bind(c, by_name, strict) for c in pred.children))
    assert isinstance(pred, Leaf)
    t = reference_type(pred, by_name)
    where = f"column {pred.column!r}"
    if isinstance(pred, Compare):
        return _bind_compare(pred, t, where, strict)
    if isinstance(pred, In):
        literals = [(None if v is None else cast_literal(v, t, where=where, strict_float=strict)) for v in pred.values]
        kept = [None if v is None else v.value for v in literals if v is None or v.exact]
        if t.root is Root.CHAR:
            kept = [form for v in kept for form in ((None,) if v is None else _char_forms(v, t))]
        return replace(pred, values=Values.of(kept))
    if isinstance(pred, Match):
        if t.root not in STRING_ROOTS:
            raise InvalidInputError(
                f"{where}: {pred.kind.value.upper()} needs a string column, not {t.with_nullable(True)}"
            )
        return _bind_match(pred, t)
    return pred


def _sorted(pred: Predicate) -> Predicate:
    """Sort the lists that bound children were joined to."""
    if isinstance(pred, In):
        return replace(pred, values=Values.of(pred.values))
    if isinstance(pred, (And, Or)):
        return replace(pred, children=tuple(_sorted(c) if isinstance(c, In) else c for c in pred.children))
    return pred


def _bind_match(pred: Match, t: DataType) -> Predicate:
    """Make a pattern without wildcards an equality, which prunes more; not of a CHAR, whose equality passes over blanks."""
    if pred.kind is not MatchKind.LIKE or t.root is Root.CHAR:
        return pred
    text, whole = like_prefix(pred.text)
    return Compare(pred.column, Op.NE if pred.negated else Op.EQ, text, pred.map_key) if whole else pred


def _bind_compare(pred: Compare, t: DataType, where: str, strict: bool) -> Predicate:
    if pred.value is None:
        _cast_probe(t, where)
        return pred
    literal = cast_literal(pred.value, t, where=where, strict_float=strict)
    if t.root is Root.CHAR:
        return _compare_char(pred, _char_forms(literal.value, t))
    if literal.exact:
        return replace(pred, value=literal.value)
    outcome = _inexact(pred.op, literal)
    if isinstance(outcome, Op):
        return replace(pred, op=outcome, value=literal.value)
    return In(pred.column, Values.of(()), negated=outcome, map_key=pred.map_key)


def _char_forms(text: str, t: DataType) -> tuple[str, str]:
    """Return a literal as writers of CHAR columns store it: padded, as SQL's do, and without blanks, as Java's API may."""
    bare = text.rstrip(" ")
    return bare.ljust(t.length), bare


def _compare_char(pred: Compare, forms: tuple[str, str]) -> Predicate:
    equal = In(pred.column, Values.of(forms), map_key=pred.map_key)
    if pred.op is Op.EQ or pred.op is Op.NE:
        return replace(equal, negated=pred.op is Op.NE)
    ordered = replace(pred, value=forms[0])
    if pred.op is Op.LT:
        return and_((ordered, replace(equal, negated=True)))
    return or_((ordered, equal)) if pred.op is Op.GE else ordered


def _inexact(op: Op, literal: Literal) -> Op | bool:
    """Choose the operator to use with the value below the literal; or whether the comparison is true for all or for no value."""
    if op is Op.EQ or op is Op.NE:
        return op is Op.NE
    below = op in (Op.LT, Op.LE)
    if literal.beyond:
        return below == (literal.beyond > 0)
    return Op.LE if below else Op.GT


def bind_foreign(field: Field, op: Op, value: Any) -> Predicate | None:
    """Return the comparison of another engine as a bound one that every row it selects passes.

    field    the column
    value    a Python value; texts also for what is written as text in SQL (numbers, dates, times)
    returns  None when lakeidx does not compare as engines do that know the column by its Arrow type, or not with such a value.
             To them, the blanks of a CHAR are characters like others: only equality says something about a CHAR's stored text
    """
    root = field.type.root
    numbers = isinstance(value, (int, float, Decimal)) and (
        root in INT_ROOTS or root in _FLOAT_ROOTS or root is Root.DECIMAL
    )
    if not (isinstance(value, bytes if root in BYTES_ROOTS else str) or numbers):
        return None
    # To IEEE 754, NaN is unequal to itself, to lakeidx equal.
    if root in _FLOAT_ROOTS and "nan" in str(value).lower():
        return None
    made: Predicate = Compare(field.name, op, value)
    if root is Root.CHAR:
        if op not in (Op.EQ, Op.NE):
            return None
        made = Match(field.name, MatchKind.LIKE, like_text(value), negated=op is Op.NE)
    try:
        return bind(made, [field])
    except InvalidInputError:
        return None


def _cast_probe(t: DataType, where: str) -> None:
    """Refuse a comparison with a type that has no order, whatever the literal."""
    if t.is_nested or t.root is Root.VARIANT:
        cast_literal(0, t, where=where)


def reference_type(leaf: Leaf, by_name: Mapping[str, Field]) -> DataType:
    """Return the type of what a leaf tests: the column's, or the value type for an entry of a map column."""
    field = by_name.get(leaf.source)
    if field is None:
        raise InvalidInputError(unknown_column(leaf.source, by_name))
    if leaf.map_key is None:
        return field.type
    if field.type.root is not Root.MAP or field.type.key is None or field.type.key.root not in STRING_ROOTS:
        raise InvalidInputError(f"column {leaf.source!r}: {leaf.column} needs a map with string keys, not {field.type}")
    assert field.type.element is not None
    return field.type.element


def unknown_column(name: str, known: Mapping[str, Any] | Sequence[str]) -> str:
    """Return the message for a column that does not exist, with the nearest names."""
    return f"unknown column {name!r}; {did_you_mean(name, known, listing='the table has:')}"


_WIDTH = {Root.TINYINT: 1, Root.SMALLINT: 2, Root.INT: 4, Root.BIGINT: 8}


class BoundPredicate:
    """A predicate on a table's columns, for files of all of its schemas.

    predicate   bound to `fields`
    fields      the columns rows are read as
    columns     those that must be read to evaluate it
    """

    def __init__(self, predicate: Predicate, fields: Sequence[Field]) -> None:
        self.predicate, self.columns = predicate, columns(predicate)
        self._fields = fields
        self._of_files: dict[int, tuple[Predicate, frozenset[str]]] = {}

    def of_files(self, schema_id: int, fields: Sequence[Field]) -> tuple[Predicate, frozenset[str]]:
        """Return what a file's own columns must pass (see `devolve`), and which columns those are; made once for each schema.

        fields   the columns of the schema, by its id
        """
        if schema_id not in self._of_files:
            made = devolve(self.predicate, self._fields, fields)
            self._of_files[schema_id] = made, frozenset(columns(made))
        return self._of_files[schema_id]

    def projected(self, keep: Collection[str]) -> BoundPredicate:
        """Return what the predicate says of some columns alone."""
        return BoundPredicate(project(self.predicate, keep), self._fields)


def devolve(pred: Predicate, table_fields: Sequence[Field], file_fields: Sequence[Field]) -> Predicate:
    """Return the strongest predicate over a file's own columns that a selected row of the file must pass.

    pred          bound to `table_fields`
    table_fields  the columns the predicate refers to
    file_fields   the columns of the schema the file was written with; a column is the same when its id is
    returns       a predicate over the file's names and types. A column the file lacks reads as null: IS NULL is TRUE,
                  all else FALSE. A test of a column whose type changed other than by widening is TRUE, for the cast
                  decides which rows it selects.
    """
    by_name = {f.name: f for f in table_fields}
    by_id = {f.id: f for f in file_fields}

    def walk(node: Predicate) -> Predicate:
        if isinstance(node, And):
            return and_(walk(c) for c in node.children)
        if isinstance(node, Or):
            return or_(walk(c) for c in node.children)
        if not isinstance(node, Leaf):
            return node
        now = by_name.get(node.source)
        then = by_id.get(now.id) if now is not None else None
        if now is None or then is None:
            return TRUE if now is None or (isinstance(node, IsNull) and not node.negated) else FALSE
        if not keeps_values(then.type, now.type):
            return TRUE
        same = rename(node, {now.name: then.name})
        # Literals are values of the column's type already; only of another type they are cast. Texts are the same in all types,
        # and what a CHAR became compares its blanks.
        as_now = then.type.with_nullable(True) == now.type.with_nullable(True) or then.type.root in STRING_ROOTS
        return same if as_now else bind(same, file_fields, strict_float=True)

    return walk(pred)


@cache
def keeps_values(old: DataType, new: DataType) -> bool:
    """Return whether reading a column of type `old` as `new` leaves every value what it was, in the same internal form."""
    if old.with_nullable(True) == new.with_nullable(True):
        return True
    if old.root in INT_ROOTS and new.root in INT_ROOTS:
        return _WIDTH[old.root] <= _WIDTH[new.root]
    if old.root is Root.FLOAT and new.root is Root.DOUBLE:
        return True
    if old.root in STRING_ROOTS and new.root is Root.VARCHAR:
        return old.length <= new.length
    if old.root is Root.VARBINARY and new.root is Root.VARBINARY:
        return old.length <= new.length
    if old.root is Root.DECIMAL and new.root is Root.DECIMAL:
        return old.scale <= new.scale and old.precision - old.scale <= new.precision - new.scale
    return old.root in TIMESTAMP_ROOTS and old.root is new.root and old.precision <= new.precision
