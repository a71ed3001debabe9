"""Predicates over the columns of a table: a small tree of frozen values.

The tree has no NOT. Negation is pushed down to the leaves when a predicate is built, so only AND and OR stand above
them. Both are monotone: a leaf that is NULL (SQL's third truth value) can be taken for false everywhere, and no reader
of the tree needs three-valued logic. What negation must not forget is kept in the leaves: each one has its exact
opposite under SQL's rules, and a null literal stays in its leaf (``a = NULL`` and ``a <> NULL`` select nothing, both
ways round).

Order of values: integers, decimals, dates and times by value; strings by code point (= by UTF-8 bytes); byte strings
unsigned; false < true; FLOAT and DOUBLE as Spark orders them (NaN equals NaN and is greater than every number, -0.0
equals 0.0).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any


class Op(StrEnum):
    """Comparison operators, spelled as SQL spells them."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def opposite(self) -> Op:
        """The operator that is true for a non-null value exactly when this one is false."""
        return _OPPOSITE[self]

    @property
    def mirrored(self) -> Op:
        """The operator after the two sides changed places (``5 < a`` is ``a > 5``)."""
        return _MIRRORED[self]


_OPPOSITE = {Op.EQ: Op.NE, Op.NE: Op.EQ, Op.LT: Op.GE, Op.GE: Op.LT, Op.GT: Op.LE, Op.LE: Op.GT}
_MIRRORED = {Op.EQ: Op.EQ, Op.NE: Op.NE, Op.LT: Op.GT, Op.GT: Op.LT, Op.LE: Op.GE, Op.GE: Op.LE}


class MatchKind(StrEnum):
    """How a string is matched; LIKE is a whole pattern with ``%``, ``_`` and the escape character ``\\``."""

    PREFIX = "startswith"
    SUFFIX = "endswith"
    CONTAINS = "contains"
    LIKE = "like"


class Predicate:
    """Root of the tree. Combine with ``&``, ``|`` and ``~`` (Python's ``and``, ``or``, ``not`` cannot be
    overloaded).
    """

    __slots__ = ()

    def __and__(self, other: Predicate) -> Predicate:
        return and_((self, other))

    def __or__(self, other: Predicate) -> Predicate:
        return or_((self, other))

    def __invert__(self) -> Predicate:
        return negate(self)

    def __bool__(self) -> bool:
        raise TypeError("a predicate has no truth value: combine with & | ~, and test 'is None' for absence")


@dataclass(frozen=True, slots=True)
class Constant(Predicate):
    """TRUE (every row) or FALSE (no row)."""

    value: bool


TRUE = Constant(True)
FALSE = Constant(False)


@dataclass(frozen=True, slots=True)
class Leaf(Predicate):
    """A test of one column; a row whose column is null passes only an IS NULL.

    column   the name the test refers to: a column, or ``col[key]`` for one entry of a map column (null when the key is
             absent). It is the name that statistics and file indexes are filed under.
    map_key  the key, when `column` names a map entry
    """

    column: str

    @property
    def map_key(self) -> str | None:
        """The key when `column` names a map entry, else None."""
        return None

    @property
    def source(self) -> str:
        """The table column that must be read for this test."""
        return _source_column(self.column, self.map_key)


@dataclass(frozen=True, slots=True)
class Compare(Leaf):
    """``column op value``. A null `value` (None) makes the test pass for no row."""

    op: Op
    value: Any
    map_key: str | None = None


@dataclass(frozen=True, slots=True)
class In(Leaf):
    """``column [NOT] IN (values)`` for non-null columns; empty: no row, or with `negated` every non-null one.

    A None among the values is SQL's NULL: IN ignores it, NOT IN then passes for no row.
    """

    values: tuple[Any, ...]
    negated: bool = False
    map_key: str | None = None


@dataclass(frozen=True, slots=True)
class IsNull(Leaf):
    """``column IS [NOT] NULL``."""

    negated: bool = False
    map_key: str | None = None


@dataclass(frozen=True, slots=True)
class Match(Leaf):
    """``column [NOT] LIKE …`` and its simple forms; `text` is the part, or the pattern when `kind` is LIKE."""

    kind: MatchKind
    text: str
    negated: bool = False
    map_key: str | None = None


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """True when all children are. Build with `and_`, which flattens and simplifies."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """True when at least one child is. Build with `or_`, which flattens and simplifies."""

    children: tuple[Predicate, ...]


def and_(children: Iterable[Predicate]) -> Predicate:
    """Build the conjunction, flattened, without TRUE and repeated children; TRUE for none, FALSE as soon as one is FALSE."""
    return _join(children, And, TRUE, FALSE)


def or_(children: Iterable[Predicate]) -> Predicate:
    """Build the disjunction, flattened, without FALSE and repeated children; FALSE for none, TRUE as soon as one is TRUE."""
    return _join(children, Or, FALSE, TRUE)


def _join(
    children: Iterable[Predicate], kind: type[And] | type[Or], neutral: Constant, absorbing: Constant
) -> Predicate:
    flat: dict[Predicate, None] = {}
    for child in children:
        if child == absorbing:
            return absorbing
        if isinstance(child, kind):
            flat.update(dict.fromkeys(child.children))
        elif child != neutral:
            flat[child] = None
    if not flat:
        return neutral
    return next(iter(flat)) if len(flat) == 1 else kind(tuple(flat))


def between(column: str, low: Any, high: Any, *, map_key: str | None = None) -> Predicate:
    """Build ``column BETWEEN low AND high``, both ends included."""
    return and_((Compare(column, Op.GE, low, map_key), Compare(column, Op.LE, high, map_key)))


def negate(pred: Predicate) -> Predicate:
    """Negate as SQL NOT, pushed down to the leaves: selects rows for which `pred` is false, not those for which it is NULL."""
    if isinstance(pred, Constant):
        return FALSE if pred.value else TRUE
    if isinstance(pred, And):
        return or_(negate(c) for c in pred.children)
    if isinstance(pred, Or):
        return and_(negate(c) for c in pred.children)
    if isinstance(pred, Compare):
        return replace(pred, op=pred.op.opposite)
    assert isinstance(pred, (In, IsNull, Match))
    return replace(pred, negated=not pred.negated)


def map_reference(column: str, key: str) -> str:
    """Return the name of one entry of a map column, as file indexes spell it: ``col[key]``."""
    return f"{column}[{key}]"


def _source_column(reference: str, map_key: str | None) -> str:
    """Return the table column of a leaf's name."""
    return reference if map_key is None else reference[: -len(map_key) - 2]
