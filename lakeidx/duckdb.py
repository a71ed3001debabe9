"""Query tables with DuckDB: they are attached as views, and each query reads the newest state.

DuckDB hands down which columns and rows it wants; what `lakeidx.api.dataset` understands of it prunes partitions, buckets, files,
row groups and pages. ``pip install 'lakeidx[duckdb]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeidx.api.dataset import SystemDataset, TableDataset
from lakeidx.api.system_table import SystemTable, WarehouseTable, open_any
from lakeidx.api.table import Table
from lakeidx.api.warehouse import Warehouse
from lakeidx.errors import InvalidInputError
from lakeidx.options.arguments import PathLike
from lakeidx.table.system.names import SYSTEM_TABLES
from lakeidx.table.system.of_warehouse import WAREHOUSE_TABLES

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def attach(warehouse: Warehouse | PathLike, connection: DuckDBPyConnection | None = None) -> DuckDBPyConnection:
    """Make tables of a warehouse views ``database.table``, and system tables views ``database."table$files"`` and ``sys.tables``.

    warehouse   the warehouse, or its folder as a path or URI
    connection  None = a new one in memory
    returns     the connection
    errors      InvalidInputError when DuckDB is not installed
    """
    warehouse = warehouse if isinstance(warehouse, Warehouse) else Warehouse(warehouse)
    connection = connection if connection is not None else _connect()
    connection.execute("CREATE SCHEMA IF NOT EXISTS sys")
    for name in WAREHOUSE_TABLES:
        _view(connection, "sys", name, f"{warehouse.uri}/sys.{name}", SystemDataset(WarehouseTable(warehouse, name)))
    for name in warehouse.tables():
        database, _, table = name.partition(".")
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(database)}")
        opened, path = warehouse.table(name), warehouse.path(name)
        _view(connection, database, table, path, TableDataset(opened))
        for system in SYSTEM_TABLES:
            rows = SystemDataset(SystemTable(opened, system))
            _view(connection, database, f"{table}${system}", f"{path}${system}", rows)
    return connection


def register(connection: DuckDBPyConnection, name: str, table: Table | SystemTable | PathLike) -> None:
    """Make one table a view of a connection.

    table   the table, or its directory as a path or URI; a system table, or its path ``TABLE$files``
    """
    opened = open_any(table)
    connection.register(name, SystemDataset(opened) if isinstance(opened, SystemTable) else TableDataset(opened))


def _view(
    connection: DuckDBPyConnection, database: str, name: str, path: str, rows: TableDataset | SystemDataset
) -> None:
    hidden = f"lakeidx {path}"
    connection.register(hidden, rows)
    connection.execute(f"CREATE OR REPLACE VIEW {_quoted(database)}.{_quoted(name)} AS FROM {_quoted(hidden)}")


def _connect() -> DuckDBPyConnection:
    try:
        import duckdb
    except ImportError as error:
        raise InvalidInputError("DuckDB is not installed: pip install 'lakeidx[duckdb]'") from error
    return duckdb.connect()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
