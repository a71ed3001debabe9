"""Query tables with DuckDB: they are attached as views, and each query reads the newest state.

DuckDB hands down which columns and rows it wants; what `lakeidx.api.dataset` understands of it prunes partitions, buckets, files,
row groups and pages. ``pip install 'lakeidx[duckdb]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeidx.api.dataset import SystemDataset, TableDataset
from lakeidx.api.system_table import SystemTable, open_any
from lakeidx.api.table import Table
from lakeidx.api.warehouse import Warehouse
from lakeidx.errors import InvalidInputError
from lakeidx.options.arguments import PathLike

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def attach(warehouse: Warehouse | PathLike, connection: DuckDBPyConnection | None = None) -> DuckDBPyConnection:
    """Make every table of a warehouse a view ``database.table``.

    warehouse   the warehouse, or its folder as a path or URI
    connection  None = a new one in memory
    returns     the connection
    errors      InvalidInputError when DuckDB is not installed
    """
    warehouse = warehouse if isinstance(warehouse, Warehouse) else Warehouse(warehouse)
    connection = connection if connection is not None else _connect()
    for name in warehouse.tables():
        database, _, table = name.partition(".")
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(database)}")
        hidden = f"lakeidx {warehouse.path(name)}"
        connection.register(hidden, TableDataset(warehouse.table(name)))
        view = f"{_quoted(database)}.{_quoted(table)}"
        connection.execute(f"CREATE OR REPLACE VIEW {view} AS FROM {_quoted(hidden)}")
    return connection


def register(connection: DuckDBPyConnection, name: str, table: Table | SystemTable | PathLike) -> None:
    """Make one table a view of a connection.

    table   the table, or its directory as a path or URI; a system table, or its path ``TABLE$files``
    """
    opened = open_any(table)
    connection.register(name, SystemDataset(opened) if isinstance(opened, SystemTable) else TableDataset(opened))


def _connect() -> DuckDBPyConnection:
    try:
        import duckdb
    except ImportError as error:
        raise InvalidInputError("DuckDB is not installed: pip install 'lakeidx[duckdb]'") from error
    return duckdb.connect()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
