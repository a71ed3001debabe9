"""Names and literals of a predicate resolved against a table's columns, and against those of older data files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from lakeidx.errors import InvalidInputError, did_you_mean
from lakeidx.predicate.like import like_prefix, like_text
from lakeidx.predicate.literals import Literal, cast_literal
from lakeidx.predicate.tree import (
    And,
    Compare,
    Constant,
    In,
    Leaf,
    Match,
    MatchKind,
    Op,
    Or,
    Predicate,
    Values,
    and_,
    columns,
    or_,
    project,
)
from lakeidx.types import BYTES_ROOTS, INT_ROOTS, STRING_ROOTS, DataType, Field, Root

_FLOAT_ROOTS = (Root.FLOAT, Root.DOUBLE)


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
        """Return what a file's own columns must pass, and which columns those are; made once for each schema.

        See `lakeidx.predicate.devolve`.
        fields   the columns of the schema, by its id
        """
        if schema_id not in self._of_files:
            made = self.predicate
            if fields != self._fields:
                from lakeidx.predicate.devolve import devolve

                made = devolve(made, self._fields, fields)
            self._of_files[schema_id] = made, frozenset(columns(made))
        return self._of_files[schema_id]

    def projected(self, keep: Collection[str]) -> BoundPredicate:
        """Return what the predicate says of some columns alone."""
        return BoundPredicate(project(self.predicate, keep), self._fields)


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
