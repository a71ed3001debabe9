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

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from typing import Any, TypeVar

_T = TypeVar("_T")


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
    """Kinds of matching a string; LIKE is a whole pattern with ``%``, ``_`` and the escape character ``\\``."""

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


class Values(tuple[Any, ...]):
    """The values of a bound IN: internal values in rising order, each once, a None last.

    keys   the values without None, in a form that Python orders as predicates do (see `order_key`)
    """

    keys: list[Any]
    _kept: dict[Hashable, Any]

    @classmethod
    def of(cls, values: Iterable[Any]) -> Values:
        """Sort internal values of one type; what is sorted already comes back as it is."""
        if isinstance(values, Values):
            return values
        known = dict.fromkeys(values)
        has_null = None in known
        by_key = {order_key(v): v for v in known if v is not None}
        keys = sorted(by_key)
        made = cls([by_key[k] for k in keys] + [None] * has_null)
        made.keys, made._kept = keys, {}
        return made

    @property
    def has_null(self) -> bool:
        """True with a None among the values."""
        return len(self.keys) < len(self)

    @property
    def has_nan(self) -> bool:
        """True with a NaN, the greatest float, among the values."""
        return bool(self.keys) and is_nan(self[len(self.keys) - 1])

    def any_between(self, low: Any, high: Any) -> bool:
        """Return whether a value lies between two keys, both included; None = no bound."""
        at = 0 if low is None else bisect_left(self.keys, low)
        return at < len(self.keys) and (high is None or self.keys[at] <= high)

    def kept(self, name: Hashable, make: Callable[[Values], _T]) -> _T:
        """Return what was made of the values under this name before, else make it: values are tested file after file."""
        if name not in self._kept:
            self._kept[name] = make(self)
        found: _T = self._kept[name]
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return Values.of, (tuple(self),)


def order_key(value: Any) -> Any:
    """Return a key that orders internal values of one type; only floats need one (NaN equal to itself and above all
    numbers).
    """
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


def is_nan(value: Any) -> bool:
    """Return True for the float NaN only."""
    return isinstance(value, float) and math.isnan(value)


@dataclass(frozen=True, slots=True)
class In(Leaf):
    """``column [NOT] IN (values)`` for non-null columns; empty: no row, or with `negated` every non-null one.

    values   any tuple; of a bound leaf, `Values`. A None among them is SQL's NULL: IN ignores it, NOT IN then passes for no row.
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
    """Build the conjunction, flattened, without TRUE and repeated children; TRUE for none, FALSE as soon as one is FALSE.

    Values that a column must differ from become one NOT IN.
    """
    return _join(children, And, TRUE, FALSE)


def is_row(values: Mapping[str, Any]) -> Predicate:
    """Build the condition that columns have these values, where null is null."""
    return and_([IsNull(k) if v is None else Compare(k, Op.EQ, v) for k, v in values.items()])


def or_(children: Iterable[Predicate]) -> Predicate:
    """Build the disjunction, flattened, without FALSE and repeated children; FALSE for none, TRUE as soon as one is TRUE.

    Values that a column may equal become one IN.
    """
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
    joined = flat if len(flat) == 1 else _with_one_list(flat, negated=kind is And)
    return next(iter(joined)) if len(joined) == 1 else kind(tuple(joined))


def _with_one_list(children: Iterable[Predicate], *, negated: bool) -> list[Predicate]:
    """Make one [NOT] IN of all values that a column is compared with by [in]equality, in the place of the first."""
    alike: dict[Any, list[Any]] = {}
    for child in children:
        listed = isinstance(child, In) and child.negated is negated
        listed = listed or (isinstance(child, Compare) and child.op is (Op.NE if negated else Op.EQ))
        key = (child.column, child.map_key) if listed and isinstance(child, (In, Compare)) else len(alike)
        alike.setdefault(key, []).append(child)
    return [same[0] if len(same) == 1 else _one_list(same, negated) for same in alike.values()]


def _one_list(leaves: list[In | Compare], negated: bool) -> In:
    values = (leaf.values if isinstance(leaf, In) else (leaf.value,) for leaf in leaves)
    return In(leaves[0].column, tuple(chain.from_iterable(values)), negated, leaves[0].map_key)


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


def leaves(pred: Predicate) -> list[Leaf]:
    """Return all leaves, left to right."""
    if isinstance(pred, Leaf):
        return [pred]
    if isinstance(pred, (And, Or)):
        return [leaf for child in pred.children for leaf in leaves(child)]
    return []


def columns(pred: Predicate) -> tuple[str, ...]:
    """List the table columns that must be read to evaluate the predicate, in order of first use."""
    return tuple(dict.fromkeys(leaf.source for leaf in leaves(pred)))


def split_and(pred: Predicate) -> tuple[Predicate, ...]:
    """Split into the conjuncts: all must be true. TRUE has none."""
    if isinstance(pred, And):
        return pred.children
    return () if pred == TRUE else (pred,)


def project(pred: Predicate, keep: Collection[str]) -> Predicate:
    """Return the strongest predicate over some columns that `pred` implies (TRUE when it implies nothing about them).

    keep  table columns; a partition or a file that fails the result holds no selected row
    """
    if isinstance(pred, And):
        return and_(project(c, keep) for c in pred.children)
    if isinstance(pred, Or):
        return or_(project(c, keep) for c in pred.children)
    if isinstance(pred, Leaf) and pred.source not in keep:
        return TRUE
    return pred


def rename(pred: Predicate, mapping: Mapping[str, str]) -> Predicate:
    """Rename the columns of a predicate; columns that are not in `mapping` keep theirs."""
    if isinstance(pred, And):
        return and_(rename(c, mapping) for c in pred.children)
    if isinstance(pred, Or):
        return or_(rename(c, mapping) for c in pred.children)
    if isinstance(pred, Leaf):
        source = mapping.get(pred.source, pred.source)
        return replace(pred, column=source if pred.map_key is None else map_reference(source, pred.map_key))
    return pred


def equality_values(pred: Predicate, names: Sequence[str], *, limit: int = 1000) -> list[tuple[Any, ...]] | None:
    """Return all value combinations of some columns that a selected row can have, if = and IN fix every one of them.

    pred     bound: literals are internal values
    names    columns, e.g. the bucket keys
    limit    the most combinations to list
    returns  tuples in the order of `names`, without repetition; an empty list when no row can be selected;
             None when a column is not limited to listed values, or there are more than `limit` combinations
    """
    if pred == FALSE:
        return []
    domains = [_domain(pred, name) for name in names]
    if any(d is not None and not d for d in domains):
        return []
    if not domains or any(d is None for d in domains) or math.prod(len(d) for d in domains if d) > limit:
        return None
    return list(itertools.product(*(list(d) for d in domains if d)))


def _domain(pred: Predicate, name: str) -> dict[Any, None] | None:
    """Return the values that `pred` allows for a column, as the keys of a dict (which keeps their order); None = any."""
    if isinstance(pred, Constant):
        return None if pred.value else {}
    if isinstance(pred, And):
        known = [d for d in (_domain(c, name) for c in pred.children) if d is not None]
        return {v: None for v in known[0] if all(v in d for d in known[1:])} if known else None
    if isinstance(pred, Or):
        joined: dict[Any, None] = {}
        for child in pred.children:
            domain = _domain(child, name)
            if domain is None:
                return None
            joined.update(domain)
        return joined
    if isinstance(pred, Compare) and pred.column == name and (pred.op is Op.EQ or pred.value is None):
        return _listed((pred.value,))
    if isinstance(pred, In) and pred.column == name and not pred.negated:
        return _listed(pred.values)
    return None


def _listed(values: Sequence[Any]) -> dict[Any, None] | None:
    kept = [v for v in values if v is not None]
    # Zero has two encodings as a float and NaN many: a caller that hashes the values would miss rows.
    if any(isinstance(v, float) and (v == 0 or math.isnan(v)) for v in kept):
        return None
    return dict.fromkeys(kept)
