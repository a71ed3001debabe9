"""Spark's pushed filters as predicates of lakeidx."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from lakeidx.errors import InvalidInputError
from lakeidx.predicate import Compare, In, IsNull, Match, MatchKind, Op, Predicate, and_, bind, negate
from lakeidx.types import TIMESTAMP_ROOTS, Field, Root

_COMPARE = {
    "EqualTo": Op.EQ, "GreaterThan": Op.GT, "GreaterThanOrEqual": Op.GE, "LessThan": Op.LT, "LessThanOrEqual": Op.LE,
}  # fmt: skip
_MATCH = {
    "StringStartsWith": MatchKind.PREFIX, "StringEndsWith": MatchKind.SUFFIX, "StringContains": MatchKind.CONTAINS,
}  # fmt: skip
# Spark keeps its own filter where values change form on the way (time zones) or compare by rules of their own.
_LEFT_TO_SPARK = (*TIMESTAMP_ROOTS, Root.FLOAT, Root.DOUBLE, Root.CHAR, Root.BINARY, Root.VARBINARY)


def push(filters: Sequence[Any], fields: Sequence[Field]) -> tuple[Predicate, list[Any]]:
    """Translate what can be translated exactly.

    filters   of pyspark.sql.datasource, joined by AND
    fields    the table's columns
    returns   the predicate, bound, and the filters that Spark must apply itself
    """
    known = {f.name: f for f in fields}
    taken: list[Predicate] = []
    left: list[Any] = []
    for one in filters:
        predicate = _translate(one, known, lambda p: bind(p, fields))
        if predicate is None:
            left.append(one)
        else:
            taken.append(predicate)
    return and_(taken), left


def _translate(one: Any, known: dict[str, Field], bound: Callable[[Predicate], Predicate]) -> Predicate | None:
    kind = type(one).__name__
    if kind == "Not":
        inner = _translate(one.child, known, bound)
        return None if inner is None else negate(inner)
    path: Sequence[str] = getattr(one, "attribute", ())
    if len(path) != 1 or path[0] not in known or known[path[0]].type.is_nested:
        return None
    name = path[0]
    if kind in ("IsNull", "IsNotNull"):
        return bound(IsNull(name, negated=kind == "IsNotNull"))
    if known[name].type.root in _LEFT_TO_SPARK:
        return None
    value = getattr(one, "value", None)
    if isinstance(value, datetime):
        return None
    made: Predicate
    if kind in _COMPARE:
        made = Compare(name, _COMPARE[kind], value)
    elif kind == "In":
        made = In(name, tuple(value or ()))
    elif kind in _MATCH and isinstance(value, str):
        made = Match(name, _MATCH[kind], value)
    else:
        return None
    try:
        return bound(made)
    except InvalidInputError:
        return None
