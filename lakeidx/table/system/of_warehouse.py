"""System tables of a whole warehouse: ``sys.tables``, ``sys.partitions``, ``sys.catalog_options``, ``sys.all_table_options``.

Owners and counts of ``tables`` are null, as in Java for a warehouse that is a folder: nobody keeps them.

source   org.apache.paimon.table.system.AllTablesTable, AllPartitionsTable, CatalogOptionsTable, AllTableOptionsTable,
         org.apache.paimon.catalog.CatalogUtils, a build after release 2.0.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from lakeidx.errors import InvalidInputError, did_you_mean
from lakeidx.format.data_file import epoch_ms_of_local
from lakeidx.format.partition_names import partition_dir_name, unescape
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import on_newest
from lakeidx.table.system.described import Row
from lakeidx.table.system.filed import AskedState, partition_sums
from lakeidx.table.system.rows import arrow_rows, system_columns
from lakeidx.table.view import decode_partition_dict
from lakeidx.types import Field

#: Tables by ``database.table``.
Tables = Mapping[str, TableMetadata]

_TABLES = (
    "database_name STRING, table_name STRING, table_type STRING, partitioned BOOLEAN, primary_key BOOLEAN, owner STRING, "
    "created_at BIGINT, created_by STRING, updated_at BIGINT, updated_by STRING, record_count BIGINT, "
    "file_size_in_bytes BIGINT, file_count BIGINT, last_file_creation_time BIGINT"
)
_PARTITIONS = (
    "database_name STRING, table_name STRING, partition_name STRING, record_count BIGINT, file_size_in_bytes BIGINT, "
    "file_count BIGINT, last_file_creation_time BIGINT, done BOOLEAN"
)
_OPTIONS = "database_name STRING, table_name STRING, key STRING, value STRING"
#: Their names and columns.
WAREHOUSE_TABLES = {
    "tables": _TABLES, "partitions": _PARTITIONS, "all_table_options": _OPTIONS,
    "catalog_options": "key STRING!, value STRING!",
}  # fmt: skip


def warehouse_fields(name: str) -> tuple[Field, ...]:
    """Return the columns of a system table of a warehouse; InvalidInputError naming the tables there are."""
    if name not in WAREHOUSE_TABLES:
        raise InvalidInputError(f"there is no system table sys.{name}; {did_you_mean(name, WAREHOUSE_TABLES)}")
    return system_columns(WAREHOUSE_TABLES[name])


def warehouse_rows(name: str, tables: Callable[[], Tables], options: Mapping[str, str]) -> pa.Table:
    """Make the rows of a system table of a warehouse.

    tables    opens the tables, when the rows are about them
    options   of the warehouse
    errors    as for `warehouse_fields`
    """
    fields = warehouse_fields(name)
    about_tables = {"tables": _tables, "partitions": _partitions, "all_table_options": _options}
    return arrow_rows(fields, about_tables[name](tables()) if name in about_tables else options.items())


def _tables(tables: Tables) -> Iterator[Row]:
    for name, metadata in tables.items():
        schema = metadata.latest_schema()
        kind = schema.options.get("type", "table")
        yield (*name.split(".", 1), kind, bool(schema.partition_keys), bool(schema.primary_keys), *(None,) * 9)


def _partitions(tables: Tables) -> Iterator[Row]:
    for name, metadata in tables.items():
        schema = metadata.latest_schema()
        if schema.partition_keys:
            found = on_newest(metadata, lambda s: partition_sums(AskedState(metadata, s, schema)))  # noqa: B023
            for partition, (s, _) in found.items():
                last = None if s.last is None else epoch_ms_of_local(s.last)
                yield *name.split(".", 1), _directory(metadata, schema, partition), s.rows, s.size, s.files, last, False


def _directory(metadata: TableMetadata, schema: TableSchema, partition: bytes) -> str:
    """Name a partition as its directories are named, without their escapes."""
    paths = metadata.paths
    values = decode_partition_dict(partition, schema)
    legacy, default = paths.legacy_partition_names, paths.default_partition_name
    return unescape(partition_dir_name(values, paths.partition_fields, legacy=legacy, default_name=default))


def _options(tables: Tables) -> Iterator[Row]:
    for name, metadata in tables.items():
        for key, value in {**metadata.latest_schema().options, "path": metadata.paths.root}.items():
            yield *name.split(".", 1), key, value
