"""Predicates from ``WHERE`` text, through sqlglot.

Strings are in single quotes (``''`` for a quote inside), names bare or in ``"`` or backticks, bytes as ``X'1F'``, map
entries as ``m['key']``. What the text may hold is listed in `parse_where`; anything else is refused by name, never
guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, ClassVar, TypeAlias

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokens import Tokenizer as BaseTokenizer

from lakeidx.errors import InvalidInputError
from lakeidx.predicate.bind import bind, reference_type
from lakeidx.predicate.like import like_predicate
from lakeidx.predicate.tree import (
    FALSE,
    TRUE,
    Compare,
    In,
    IsNull,
    Match,
    MatchKind,
    Op,
    Predicate,
    and_,
    between,
    map_reference,
    or_,
)
from lakeidx.types import TIMESTAMP_ROOTS, Field, Root

Node: TypeAlias = Any  # a node of sqlglot's tree; the name of their common class differs between releases


class LakeidxWhere(Dialect):
    """Standard SQL quoting plus backticks; sqlglot files the dialect under this class's name."""

    class Tokenizer(BaseTokenizer):
        """Quotes of identifiers and of byte strings."""

        IDENTIFIERS: ClassVar = ['"', "`"]
        HEX_STRINGS: ClassVar = [("X'", "'"), ("x'", "'")]


_OPS = {exp.EQ: Op.EQ, exp.NEQ: Op.NE, exp.LT: Op.LT, exp.LTE: Op.LE, exp.GT: Op.GT, exp.GTE: Op.GE}
_AFFIX = {exp.StartsWith: MatchKind.PREFIX, exp.EndsWith: MatchKind.SUFFIX, exp.Contains: MatchKind.CONTAINS}
_SUPPORTED = (
    "= <> < <= > >= <=>, [NOT] IN, BETWEEN, LIKE, IS [NOT] NULL/TRUE/FALSE, startswith/endswith/contains, AND, OR, NOT"
)
_TEMPORAL = TIMESTAMP_ROOTS | {Root.DATE, Root.TIME}
_PARTS = frozenset({"this", "expression", "expressions", "low", "high"})
_ZONED_CASTS = frozenset({"TIMESTAMPTZ", "TIMESTAMPLTZ"})
_TEMPORAL_CASTS = _ZONED_CASTS | {"DATE", "TIME", "TIMESTAMP", "TIMESTAMPNTZ"}
_PLAIN_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}", re.ASCII)


def parse_where(text: str, fields: Sequence[Field]) -> Predicate:
    """Read a WHERE expression against a table's columns.

    text     comparisons of a column with a literal (either way round), ``<=>``, IN, BETWEEN, LIKE (with ESCAPE, ``\\``
             by default), IS [NOT] NULL / TRUE / FALSE / DISTINCT FROM, startswith, endswith, contains, a bare BOOLEAN
             column, TRUE and FALSE, joined by AND, OR and NOT. Literals are numbers, strings, TRUE, FALSE, NULL,
             X'hex', DATE '…', TIME '…', TIMESTAMP '…' and their CAST forms; dates and times are also taken from plain
             strings.
    fields   the table's columns; names are case sensitive
    returns  the predicate, NOT pushed down, every literal an internal value of its column's type
    errors   InvalidInputError: text that does not parse, an unknown column, a literal of another type than its column,
             anything else SQL allows here (functions, arithmetic, subqueries, comparisons of two columns)
    """
    if not text.strip():
        raise InvalidInputError("the WHERE expression is empty")
    try:
        tree = sqlglot.parse_one(text, read=LakeidxWhere, into=exp.Condition)
        return bind(_Reader(fields).predicate(tree), fields)
    except (sqlglot.errors.ParseError, sqlglot.errors.TokenError) as error:
        raise InvalidInputError(f"cannot read the WHERE expression {_short(text)}: {_reason(error)}") from None
    except RecursionError:
        raise InvalidInputError(f"the WHERE expression {_short(text)} is nested too deeply") from None


def _reason(error: Exception) -> str:
    inner: BaseException = error
    while inner.__cause__ is not None:
        inner = inner.__cause__
    details = getattr(inner, "errors", None) or [{}]
    if details[0].get("description"):
        near = details[0].get("highlight")
        return f"{details[0]['description']}" + (f" near {near!r}" if near else "")
    return re.sub(r"\x1b\[[0-9;]*m", "", str(inner)).splitlines()[0]


def _short(text: str) -> str:
    return repr(text if len(text) <= 120 else text[:117] + "...")


class _Reader:
    """One walk over sqlglot's tree. Literals come out as Python values; `bind` casts them."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = {f.name: f for f in fields}

    def predicate(self, node: Node) -> Predicate:
        node = node.unnest()
        self._check_parts(node)
        if isinstance(node, (exp.And, exp.Or)):
            join: Callable[..., Predicate] = and_ if isinstance(node, exp.And) else or_
            return join([self.predicate(child) for child in node.flatten()])
        if isinstance(node, exp.Not):
            return ~self.predicate(node.this)
        if type(node) in _OPS:
            return self._compare(node, _OPS[type(node)])
        if isinstance(node, (exp.NullSafeEQ, exp.NullSafeNEQ)):
            same = self._null_safe(node)
            return same if isinstance(node, exp.NullSafeEQ) else ~same
        if isinstance(node, exp.In):
            return self._in(node)
        if isinstance(node, exp.Between):
            name, key = self._column(node.this, node)
            return between(
                name,
                self._literal(node.args["low"], name, key),
                self._literal(node.args["high"], name, key),
                map_key=key,
            )
        if isinstance(node, exp.Is):
            return self._is(node)
        if isinstance(node, (exp.Like, exp.Escape)):
            return self._like(node)
        if type(node) in _AFFIX:
            name, key = self._column(node.this, node)
            return Match(name, _AFFIX[type(node)], self._text(node.expression, node), map_key=key)
        if isinstance(node, exp.Boolean):
            return TRUE if node.this else FALSE
        return self._bare(node)

    def _check_parts(self, node: Node) -> None:
        """Refuse what hangs on a node and is not examined here: sqlglot keeps modifiers (NOT, SYMMETRIC, …) as extra
        parts.
        """
        known = _PARTS | {"negate"} if isinstance(node, exp.Like) else _PARTS
        extra = [name for name, part in node.args.items() if part and name not in known]
        if extra:
            raise self._refuse(node)

    def _bare(self, node: Node) -> Predicate:
        if isinstance(node, (exp.Column, exp.Bracket)):
            name, key = self._column(node, node)
            probe = IsNull(name, map_key=key)
            t = reference_type(probe, self._fields)
            if t.root is Root.BOOLEAN:
                return Compare(name, Op.EQ, True, key)
            raise InvalidInputError(
                f"column {name!r} is {t.with_nullable(True)}, not a condition: compare it with something"
            )
        raise self._refuse(node)

    def _compare(self, node: Node, op: Op) -> Predicate:
        left, right = node.this.unnest(), node.expression.unnest()
        if not _is_reference(left) and _is_reference(right):
            left, right, op = right, left, op.mirrored
        name, key = self._column(left, node)
        return Compare(name, op, self._literal(right, name, key), key)

    def _null_safe(self, node: Node) -> Predicate:
        equal = self._compare(node, Op.EQ)
        assert isinstance(equal, Compare)
        null = IsNull(equal.column, map_key=equal.map_key)
        # Never NULL itself: the second half makes the negation pass for null columns.
        return null if equal.value is None else and_((equal, ~null))

    def _in(self, node: exp.In) -> Predicate:
        if (
            node.args.get("query") is not None
            or node.args.get("unnest") is not None
            or node.args.get("field") is not None
        ):
            raise self._refuse(node, "IN needs a list of literals")
        name, key = self._column(node.this, node)
        return In(name, tuple(self._literal(v, name, key) for v in node.expressions), map_key=key)

    def _is(self, node: exp.Is) -> Predicate:
        name, key = self._column(node.this, node)
        other = node.expression.unnest()
        null = IsNull(name, map_key=key)
        if isinstance(other, exp.Null):
            return null
        if isinstance(other, exp.Boolean):
            return and_((Compare(name, Op.EQ, bool(other.this), key), ~null))
        raise self._refuse(node)

    def _like(self, node: Node) -> Predicate:
        like, escape = (node.this, self._text(node.expression, node)) if isinstance(node, exp.Escape) else (node, "\\")
        if not isinstance(like, exp.Like):
            raise self._refuse(node)
        self._check_parts(like)
        if len(escape) != 1:
            raise self._refuse(node, "ESCAPE needs one character")
        name, key = self._column(like.this, node)
        if isinstance(like.expression.unnest(), exp.Null):
            return Compare(name, Op.EQ, None, key)
        match = like_predicate(name, self._text(like.expression, node), escape=escape, map_key=key)
        return ~match if like.args.get("negate") else match

    def _column(self, node: Node, whole: Node) -> tuple[str, str | None]:
        """Return the leaf's name, and the key when it is an entry of a map."""
        node = node.unnest()
        if isinstance(node, exp.Bracket) and isinstance(node.this, exp.Column) and len(node.expressions) == 1:
            key = node.expressions[0]
            if not (isinstance(key, exp.Literal) and key.is_string):
                raise self._refuse(whole, "an entry of a map is written column['key']")
            name, _ = self._column(node.this, whole)
            return map_reference(name, key.this), key.this
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            raise self._refuse(whole, "one side must be a column")
        if node.table:
            raise self._refuse(
                whole, f"{node.sql()} looks like a field inside a column; only whole columns can be tested"
            )
        reference_type(IsNull(node.name), self._fields)
        return node.name, None

    def _text(self, node: Node, whole: Node) -> str:
        node = node.unnest()
        if isinstance(node, exp.Literal) and node.is_string:
            return str(node.this)
        raise self._refuse(whole, "a string in single quotes is needed here")

    def _literal(self, node: Node, name: str, key: str | None) -> Any:
        node = node.unnest()
        if isinstance(node, exp.Column) and node.name not in self._fields and node.this.args.get("quoted"):
            hint = f"double quotes and backticks name columns; write a string as '{node.name}'"
            raise InvalidInputError(f"unknown column {node.name!r}: {hint}")
        if _is_reference(node):
            raise self._refuse(node.parent or node, "comparing two columns is not supported")
        value, zoned = self._constant(node)
        root = reference_type(IsNull(name, map_key=key), self._fields).root
        if root in _TEMPORAL and isinstance(value, (int, Decimal)):
            raise InvalidInputError(f"column {name!r}: write dates and times as strings, not as the number {value}")
        if zoned and root is Root.TIMESTAMP:
            raise InvalidInputError(f"column {name!r} has no time zone: write TIMESTAMP '…'")
        return value

    def _constant(self, node: Node) -> tuple[Any, bool]:
        """Return a literal's Python value, and whether the text calls it a timestamp with zone."""
        node = node.unnest()
        if isinstance(node, exp.Literal):
            return (str(node.this) if node.is_string else _number(node.this)), False
        if isinstance(node, exp.Neg):
            value, _ = self._constant(node.this)
            if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
                return _negated(value), False
        elif isinstance(node, exp.Boolean):
            return bool(node.this), False
        elif isinstance(node, exp.Null):
            return None, False
        elif isinstance(node, exp.HexString):
            digits = str(node.this)
            return bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2)), False
        elif isinstance(node, exp.Cast):
            return self._typed_constant(node)
        raise self._refuse(node, "a literal is needed here")

    def _typed_constant(self, node: exp.Cast) -> tuple[Any, bool]:
        """Parse DATE '…', TIME '…', TIMESTAMP '…' and their CAST forms; only where the type named changes nothing in
        the text's value.
        """
        kind = node.to.this.value
        value, _ = self._constant(node.this)
        plain_date = isinstance(value, str) and _PLAIN_DATE.fullmatch(value.strip()) is not None
        known = kind in _TEMPORAL_CASTS and isinstance(value, str) and not node.to.expressions
        if not known or (kind == "DATE" and not plain_date):
            raise self._refuse(node, "write the literal in the column's own type instead of a cast")
        return value, kind in _ZONED_CASTS

    def _refuse(self, node: Node, why: str = "") -> InvalidInputError:
        shown = _short(node.sql(dialect=LakeidxWhere))
        return InvalidInputError(f"not supported in WHERE: {shown}; {why or 'supported are ' + _SUPPORTED}")


def _is_reference(node: Node) -> bool:
    return isinstance(node, (exp.Column, exp.Bracket))


def _negated(value: int | Decimal) -> int | Decimal:
    """Negate with every digit: Decimal's own minus rounds to the context's 28. Zero stays without sign, as in SQL."""
    return value.copy_negate() if isinstance(value, Decimal) and value else -value


def _number(text: str) -> int | Decimal:
    number = Decimal(text)
    return int(text) if text.isdigit() else number
