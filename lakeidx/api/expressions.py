"""SQL expressions over rows in memory, for verbs: DuckDB computes them, and casts each to the type of its column.

Rows are Arrow tables under names of the caller, as ``target`` and ``source``; an expression names their columns.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import pyarrow as pa

from lakeidx.errors import InvalidInputError, did_you_mean
from lakeidx.types import DataType, Field, Root, timestamp_unit, to_arrow

A = TypeVar("A", pa.Array, pa.ChunkedArray)

_SQL_TYPES = {
    Root.CHAR: "VARCHAR", Root.VARCHAR: "VARCHAR", Root.BINARY: "BLOB", Root.VARBINARY: "BLOB", Root.BOOLEAN: "BOOLEAN",
    Root.TINYINT: "TINYINT", Root.SMALLINT: "SMALLINT", Root.INT: "INTEGER", Root.BIGINT: "BIGINT", Root.FLOAT: "FLOAT",
    Root.DOUBLE: "DOUBLE", Root.DATE: "DATE", Root.TIME: "TIME", Root.TIMESTAMP_LTZ: "TIMESTAMPTZ",
}  # fmt: skip
_TIMESTAMPS = {"ms": "TIMESTAMP_MS", "us": "TIMESTAMP", "ns": "TIMESTAMP_NS"}
#: The number of a row in the table it is from.
ROW = "lakeidx_row"


class Rows:
    """Tables of rows that expressions are computed over.

    errors   InvalidInputError where DuckDB is not installed
    """

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise InvalidInputError("expressions need DuckDB: pip install 'lakeidx[duckdb]'") from error
        self._error = duckdb.Error
        self._connection = duckdb.connect()
        # Times with a zone are as UTC says, wherever this runs; and no name stands for a variable of this program.
        self._connection.execute("SET TimeZone = 'UTC'; SET python_enable_replacements = false")
        self.put(tables)

    def put(self, tables: Mapping[str, pa.Table]) -> None:
        """Let names stand for other tables."""
        for name, rows in tables.items():
            self._connection.register(name, rows)

    def select(self, sql: str, what: str) -> pa.Table:
        """Run a query.

        what     it is for, in an error
        errors   InvalidInputError with DuckDB's reason, in one line
        """
        try:
            found = self._connection.sql(sql)
            return found.to_arrow_table() if hasattr(found, "to_arrow_table") else found.arrow()
        except self._error as error:
            reason = re.sub(r"\s*(LINE \d+:|Candidate).*", "", str(error), flags=re.DOTALL)
            raise InvalidInputError(f"{what}: {' '.join(reason.split())}") from error


def quoted(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def columns_named(expression: str, names: Collection[str]) -> set[str]:
    """Return the columns of a table that an expression may name; all of them for one that sqlglot does not read.

    names   the columns there are; DuckDB takes them in any case, without the table's name where that is clear
    """
    import sqlglot
    from sqlglot import exp

    try:
        tree = sqlglot.parse_one(expression, dialect="duckdb")
    except sqlglot.ParseError:
        return set(names)
    if tree.find(exp.Star, exp.Select):
        return set(names)
    # `t.c` may be field c of a column t.
    said = {part.name.lower() for column in tree.find_all(exp.Column) for part in column.parts}
    return {n for n in names if n.lower() in said}


def is_row_by_row(expression: str) -> bool:
    """Return True for an expression that gives a row's value from that row alone: no query, no window, no aggregate, and no
    function that sqlglot does not know, which may be one.
    """
    import sqlglot
    from sqlglot import exp

    try:
        tree = sqlglot.parse_one(expression, dialect="duckdb")
    except sqlglot.ParseError:
        return False
    return tree.find(exp.Query, exp.Window, exp.AggFunc, exp.Anonymous, exp.AnonymousAggFunc) is None


def cast_sql(expression: str, wanted: DataType) -> str:
    """Return an expression that gives a column's type; nested types stay as they come."""
    if wanted.root is Root.DECIMAL:
        return f"CAST(({expression}) AS DECIMAL({wanted.precision}, {wanted.scale}))"
    if wanted.root is Root.TIMESTAMP:
        return f"CAST(({expression}) AS {_TIMESTAMPS[timestamp_unit(wanted.precision)]})"
    name = _SQL_TYPES.get(wanted.root)
    return f"({expression})" if name is None else f"CAST(({expression}) AS {name})"


def assigned(
    assignments: Mapping[str, Any], fields: Mapping[str, Field], rows: Rows, source: str, count: int
) -> dict[str, pa.Array | pa.ChunkedArray]:
    """Compute the new values of columns.

    assignments   by column: a text is an expression, anything else the value itself
    source        what is selected from: its rows are in order
    count         rows of it
    errors        InvalidInputError for what DuckDB refuses, and for an aggregate, which has no value for each row
    """
    texts = {n: e for n, e in assignments.items() if isinstance(e, str)}
    out: dict[str, pa.Array | pa.ChunkedArray] = {}
    if texts:
        columns = ", ".join(f"{cast_sql(e, fields[n].type)} AS {quoted(n)}" for n, e in texts.items())
        sql = f"SELECT {columns} FROM {source}"  # noqa: S608 - expressions are SQL
        found = rows.select(sql, f"set {', '.join(texts)}")
        if found.num_rows != count:
            raise InvalidInputError(
                f"set {', '.join(texts)}: {found.num_rows} values for {count} rows: an aggregate needs OVER ()"
            )
        out |= {n: as_column(found.column(n), fields[n]) for n in texts}
    for name, value in assignments.items():
        if name not in texts:
            out[name] = _repeated(name, value, fields[name], count)
    return out


def as_column(values: A, field: Field) -> A:
    """Return values in a column's type; InvalidInputError where one does not fit."""
    try:
        return values.cast(to_arrow(field.type))
    except pa.ArrowException as error:
        raise InvalidInputError(f"column {field.name}: a value is no {field.type}: {error}") from error


def _repeated(name: str, value: Any, field: Field, count: int) -> pa.Array:
    try:
        return pa.repeat(pa.scalar(value, to_arrow(field.type)), count)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"set {name}: {value!r} is no {field.type}: {error}") from error


def check_assignments(assignments: Mapping[str, Any], fields: Mapping[str, Field], keys: tuple[str, ...]) -> None:
    """Refuse unknown columns, and those of the key: a row with another key is another row."""
    if not isinstance(assignments, Mapping) or not assignments:
        raise InvalidInputError("set takes a dictionary of columns and what they become: {'qty': 'qty + 1'}")
    for name in assignments:
        if name not in fields:
            raise InvalidInputError(f"the table has no column {name!r}; {did_you_mean(name, fields)}")
        if name in keys:
            raise InvalidInputError(f"{name} is of the primary key: delete the row, and insert one with the new key")
