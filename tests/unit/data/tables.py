"""Small tables the tests of data files share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeidx.codec.values import arrow_to_internal, internal_to_arrow
from lakeidx.data.write_data_file import DataFileWriter
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.schema.schema_file import TableSchema, new_schema
from lakeidx.storage import LocalStore

STORE = LocalStore(sync=False)


def table_schema(
    columns: Mapping[str, Any], keys: Sequence[str] = ("k",), options: Mapping[str, str] | None = None
) -> TableSchema:
    """A table of one bucket; without keys an append table."""
    spec = {
        "fields": [{"name": n, "type": t} for n, t in columns.items()],
        "primaryKeys": list(keys),
        "partitionKeys": [],
        "options": {"bucket": "1" if keys else "-1", **(options or {})},
    }
    return new_schema(spec)


def kv_table(
    schema: TableSchema, rows: Sequence[Sequence[Any]], *, first_sequence: int = 0, kinds: Sequence[int] | None = None
) -> pa.Table:
    """Rows of internal values as a KV table, numbered on."""
    columns: list[Any] = [
        pa.array(range(first_sequence, first_sequence + len(rows)), pa.int64()),
        pa.array([0] * len(rows) if kinds is None else list(kinds), pa.int8()),
    ]
    return pa.Table.from_arrays([*columns, *value_columns(schema, rows)], schema=schema.kv_arrow_schema)


def plain_table(schema: TableSchema, rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Rows of internal values as a table of an append table."""
    return pa.Table.from_arrays(value_columns(schema, rows), schema=schema.arrow_schema)


def value_columns(schema: TableSchema, rows: Sequence[Sequence[Any]]) -> list[pa.Array]:
    """One Arrow array per column of the schema."""
    return [internal_to_arrow([r[i] for r in rows], f.type) for i, f in enumerate(schema.fields)]


def write_file(table: pa.Table, schema: TableSchema, folder: Path | str, **options: str) -> DataFileMeta:
    """The one data file of these rows, written with more options."""
    schema = replace(schema, options={**schema.options, **options})
    (file,) = DataFileWriter(schema, store=STORE, bucket_dir=str(folder), names=NewFileNames()).write_all([table])
    return file


def rows_of(table: pa.Table, schema: TableSchema) -> list[tuple[Any, ...]]:
    """Rows of internal values, of the schema's columns that the table has."""
    fields = [f for f in schema.fields if f.name in table.column_names]
    columns = [arrow_to_internal(table.column(f.name), f.type) for f in fields]
    return list(zip(*columns, strict=True)) if columns else []


def kv_rows_of(table: pa.Table, schema: TableSchema) -> list[tuple[Any, ...]]:
    """(sequence number, kind, values...) of each row."""
    system = [table.column("_SEQUENCE_NUMBER").to_pylist(), table.column("_VALUE_KIND").to_pylist()]
    values = rows_of(table, schema)
    return [(s, k, *v) for s, k, v in zip(*system, values, strict=True)]
