"""A table as a PyArrow dataset: engines that read datasets hand down which columns and rows they want.

A filter that can be said in lakeidx's own terms prunes partitions, buckets, files, row groups and pages. It is taken only when it
can be turned back into exactly the expression that came; PyArrow applies every filter to the rows in any case.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lakeidx.api.looking import LookingMixin

_OPERATORS: dict[type[ast.cmpop], tuple[Any, str]] = {
    ast.Eq: (eq, "="),
    ast.NotEq: (ne, "<>"),
    ast.Lt: (lt, "<"),
    ast.LtE: (le, "<="),
    ast.Gt: (gt, ">"),
    ast.GtE: (ge, ">="),
}


class TableDataset(ds.Dataset):  # type: ignore[misc]
    """The newest state of a table, at the moment of each scan, as a dataset."""

    def __init__(self, table: LookingMixin) -> None:
        # The base class has no constructor to call: everything engines ask of a dataset is below.
        self.table = table

    @property
    def schema(self) -> pa.Schema:
        """Columns of the newest schema."""
        return self.table.schema.arrow_schema

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any
    ) -> ds.Scanner:
        """Plan a scan of some columns of the rows that a filter keeps.

        columns  names, in order; None = all
        """
        wanted = list(columns) if columns is not None else list(self.table.schema.field_names)
        needed = self._needed(wanted, filter)
        where = None if filter is None else where_of(filter, self.schema)
        scan = self.table.scan(where=where, columns=needed)
        batches: Iterator[pa.RecordBatch] = (b for t in scan.batches() for b in t.to_batches())
        return ds.Scanner.from_batches(batches, schema=scan.arrow_schema, columns=wanted, filter=filter)

    def _needed(self, wanted: Sequence[str], filter: pc.Expression | None) -> list[str]:
        """Return the wanted columns and those that the filter names anywhere."""
        text = "" if filter is None else str(filter)
        return [n for n in self.table.schema.field_names if n in wanted or n in text] or [
            self.table.schema.field_names[0]
        ]


def where_of(expression: pc.Expression, schema: pa.Schema) -> str | None:
    """Translate a filter to SQL text; None when it has more than comparisons of columns with numbers and texts."""
    try:
        tree = ast.parse(str(expression), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    parts = list(_comparisons(tree, schema))
    if not parts or None in parts:
        return None
    found = [p for p in parts if p is not None]
    # What was read out of a text is valid only if it is the same expression again.
    if not reduce(and_, (e for e, _ in found)).equals(expression):
        return None
    return " AND ".join(text for _, text in found)


def _comparisons(node: ast.expr, schema: pa.Schema) -> Iterator[tuple[pc.Expression, str] | None]:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        for value in node.values:
            yield from _comparisons(value, schema)
        return
    yield _comparison(node, schema)


def _comparison(node: ast.expr, schema: pa.Schema) -> tuple[pc.Expression, str] | None:
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.left, ast.Name):
        return None
    right = node.comparators[0]
    name, known = node.left.id, _OPERATORS.get(type(node.ops[0]))
    if known is None or name not in schema.names or not isinstance(right, ast.Constant):
        return None
    value = right.value
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    literal = str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
    try:
        scalar = pa.scalar(value, schema.field(name).type)
    except (pa.ArrowException, TypeError, ValueError):
        return None
    return known[0](pc.field(name), scalar), f"`{name}` {known[1]} {literal}"
