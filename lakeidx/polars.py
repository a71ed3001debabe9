"""Query tables with Polars (extra ``polars``): a lazy frame that hands columns, filters and row limits down to the scan."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeidx.api.system_table import SystemTable, open_any
from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError
from lakeidx.options.arguments import PathLike
from lakeidx.predicate import Op, Predicate, and_, bind_foreign
from lakeidx.types import Field

if TYPE_CHECKING:
    import polars as pl

_OPERATORS = {"Eq": Op.EQ, "NotEq": Op.NE, "Lt": Op.LT, "LtEq": Op.LE, "Gt": Op.GT, "GtEq": Op.GE}
_NUMBERS = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Int", "Dyn")


def scan(table: Table | SystemTable | PathLike, **state: Any) -> pl.LazyFrame:
    """Make a lazy frame of a table; its rows are read when it is collected.

    table    the table, or its directory as a path or URI; a system table, or its path ``TABLE$files``
    state    which state, as for `Table.scan`: ``snapshot``, ``tag`` or ``timestamp``; default the newest
    returns  a frame whose filters prune where they compare columns with numbers and texts; Polars applies all of them itself
    errors   InvalidInputError when Polars is not installed
    """
    try:
        import polars as pl
        from polars.io.plugins import register_io_source
    except ImportError as error:
        raise InvalidInputError("Polars is not installed: pip install 'lakeidx[polars]'") from error
    opened = open_any(table)
    # Conditions are on the columns of the table itself, and system tables have others.
    fields = opened.schema.fields if isinstance(opened, Table) else ()

    def read(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        needed = None
        if with_columns is not None:
            needed = list(
                dict.fromkeys([*with_columns, *(predicate.meta.root_names() if predicate is not None else ())])
            )
        where = None if predicate is None else _predicate_of(predicate, fields)
        # A limit counts rows after the filter, and only part of a filter may have been handed down.
        limit = n_rows if predicate is None else None
        left = n_rows
        for rows in opened.scan(where=where, columns=needed or None, limit=limit, **state).batches():
            frame = _frame(pl, rows)
            if predicate is not None:
                frame = frame.filter(predicate)
            if with_columns is not None:
                frame = frame.select(with_columns)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield frame
            if left is not None and left <= 0:
                return

    empty = _frame(pl, opened.scan(limit=0, **state).arrow_schema.empty_table())
    return register_io_source(read, schema=empty.schema)


def _predicate_of(predicate: pl.Expr, fields: Sequence[Field]) -> Predicate | None:
    """Translate those ANDed parts of a Polars filter that compare a column with a value."""
    try:
        tree = json.loads(predicate.meta.serialize(format="json"))
    except Exception:  # an expression that does not serialise (a Python function) is Polars' alone to apply
        return None
    return and_(_parts(tree, {f.name: f for f in fields}))


def _parts(tree: Any, fields: Mapping[str, Field]) -> Iterator[Predicate]:
    node = tree.get("BinaryExpr") if isinstance(tree, dict) else None
    if not isinstance(node, dict):
        return
    if node.get("op") == "And":
        yield from _parts(node.get("left"), fields)
        yield from _parts(node.get("right"), fields)
        return
    left, op = node.get("left"), _OPERATORS.get(str(node.get("op")))
    column = left.get("Column") if isinstance(left, dict) else None
    field, value = fields.get(str(column)), _literal(node.get("right"))
    found = None if field is None or op is None or value is None else bind_foreign(field, op, value)
    if found is not None:
        yield found


def _literal(tree: Any) -> int | str | None:
    """Return a whole number or a text; None for every other literal."""
    value = tree.get("Literal") if isinstance(tree, dict) else None
    while isinstance(value, dict) and len(value) == 1:
        kind, value = next(iter(value.items()))
        if isinstance(value, bool):
            return None
        if kind in _NUMBERS and isinstance(value, int):
            return value
        if kind in ("String", "Str", "StringOwned") and isinstance(value, str):
            return value
    return None


def _frame(polars: Any, rows: pa.Table) -> pl.DataFrame:
    frame: pl.DataFrame = polars.DataFrame(rows)
    return frame
