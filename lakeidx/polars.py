"""Query tables with Polars (extra ``polars``): a lazy frame that hands columns, filters and row limits down to the scan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError

if TYPE_CHECKING:
    import polars as pl

_OPERATORS = {"Eq": "=", "NotEq": "<>", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_NUMBERS = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Int", "Dyn")


def scan(table: Table, **state: Any) -> pl.LazyFrame:
    """Make a lazy frame of a table; its rows are read when it is collected.

    state    which state, as for `Table.scan`: ``snapshot``, ``tag`` or ``timestamp``; default the newest
    returns  a frame whose filters prune where they compare columns with numbers and texts; Polars applies all of them itself
    errors   InvalidInputError when Polars is not installed
    """
    try:
        import polars as pl
        from polars.io.plugins import register_io_source
    except ImportError as error:
        raise InvalidInputError("Polars is not installed: pip install 'lakeidx[polars]'") from error

    def read(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        needed = None
        if with_columns is not None:
            needed = list(
                dict.fromkeys([*with_columns, *(predicate.meta.root_names() if predicate is not None else ())])
            )
        where = None if predicate is None else where_of(predicate)
        # A limit counts rows after the filter, and only part of a filter may have been handed down.
        limit = n_rows if predicate is None else None
        left = n_rows
        for rows in table.scan(where=where, columns=needed or None, limit=limit, **state).batches():
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

    empty = _frame(pl, table.scan(limit=0, **state).arrow_schema.empty_table())
    return register_io_source(read, schema=empty.schema)


def where_of(predicate: pl.Expr) -> str | None:
    """Translate to SQL text those ANDed parts of a Polars filter that compare a column with a value."""
    try:
        tree = json.loads(predicate.meta.serialize(format="json"))
    except Exception:  # an expression that does not serialise (a Python function) is Polars' alone to apply
        return None
    return " AND ".join(_parts(tree)) or None


def _parts(tree: Any) -> Iterator[str]:
    node = tree.get("BinaryExpr") if isinstance(tree, dict) else None
    if not isinstance(node, dict):
        return
    if node.get("op") == "And":
        yield from _parts(node.get("left"))
        yield from _parts(node.get("right"))
        return
    left, right, operator = node.get("left"), node.get("right"), _OPERATORS.get(str(node.get("op")))
    if operator is None or not isinstance(left, dict) or not isinstance(left.get("Column"), str):
        return
    literal = _literal(right)
    if literal is not None and "`" not in left["Column"]:
        yield f"`{left['Column']}` {operator} {literal}"


def _literal(tree: Any) -> str | None:
    """Return a whole number or a text as SQL; None for every other literal."""
    value = tree.get("Literal") if isinstance(tree, dict) else None
    while isinstance(value, dict) and len(value) == 1:
        kind, value = next(iter(value.items()))
        if isinstance(value, bool):
            return None
        if kind in _NUMBERS and isinstance(value, int):
            return str(value)
        if kind in ("String", "Str", "StringOwned") and isinstance(value, str):
            return "'" + value.replace("'", "''") + "'"
    return None


def _frame(polars: Any, rows: pa.Table) -> pl.DataFrame:
    frame: pl.DataFrame = polars.DataFrame(rows)
    return frame
