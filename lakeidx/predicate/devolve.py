"""Predicates on a table's present columns, rewritten for the columns of an older data file.

A file written under an older schema lacks columns added since, and holds others under old names and narrower types. Its
statistics and indexes refer to those.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from lakeidx.predicate.bind import bind
from lakeidx.predicate.tree import FALSE, TRUE, And, IsNull, Leaf, Or, Predicate, and_, or_, rename
from lakeidx.types import INT_ROOTS, STRING_ROOTS, DataType, Field, Root
from lakeidx.types.widening import is_widening

_FLOAT_ROOTS = frozenset({Root.FLOAT, Root.DOUBLE})


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
    alike = ({old.root, new.root} <= roots for roots in (INT_ROOTS, STRING_ROOTS, _FLOAT_ROOTS))
    return is_widening(old, new) and (old.root is new.root or any(alike))
