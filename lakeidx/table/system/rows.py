"""Rows of the system tables that are made of metadata, as Arrow: Paimon's columns, types and values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pyarrow as pa

from lakeidx.table.metadata import TableMetadata
from lakeidx.table.system import described, filed
from lakeidx.table.system.described import Row
from lakeidx.table.system.filed import AskedState
from lakeidx.types import Field, assign_field_ids, parse_type, to_arrow_schema

_VECTORS = {
    "type": "ARRAY",
    "element": {
        "type": "ROW",
        "fields": [
            {"id": 0, "name": "f0", "type": "STRING NOT NULL"},
            {"id": 1, "name": "f1", "type": "INT NOT NULL"},
            {"id": 2, "name": "f2", "type": "INT NOT NULL"},
            {"id": 3, "name": "_CARDINALITY", "type": "BIGINT"},
        ],
    },
}
_TYPES: dict[str, Any] = {"VECTORS": _VECTORS, "ARRAY<STRING>": {"type": "ARRAY", "element": "STRING"}}

_NOW: dict[str, tuple[str, Callable[[TableMetadata], Iterable[Row]]]] = {
    "snapshots": (described.SNAPSHOTS, described.snapshots),
    "schemas": (described.SCHEMAS, described.schemas),
    "options": (described.OPTIONS, described.options),
    "tags": (described.TAGS, described.tags),
    "branches": (described.BRANCHES, described.branches),
    "consumers": (described.CONSUMERS, described.consumers),
    "aggregation_fields": (described.AGGREGATION_FIELDS, described.aggregation_fields),
}
_STATE: dict[str, tuple[str, Callable[[AskedState], Iterable[Row]]]] = {
    "files": (filed.FILES, filed.files),
    "manifests": (filed.MANIFESTS, filed.manifests),
    "partitions": (filed.PARTITIONS, filed.partitions),
    "buckets": (filed.BUCKETS, filed.buckets),
    "statistics": (described.STATISTICS, lambda state: described.statistics(state.metadata, state.snapshot)),
    "table_indexes": (filed.TABLE_INDEXES, filed.table_indexes),
    "file_key_ranges": (filed.FILE_KEY_RANGES, filed.file_key_ranges),
    "file_indexes": (filed.FILE_INDEXES, filed.file_indexes),
}


@cache
def system_columns(text: str) -> tuple[Field, ...]:
    """Read columns in their short form: ``name TYPE, name TYPE!``, with ``!`` where null is impossible."""
    columns: list[Field] = []
    for part in text.split(", "):
        name, _, t = part.partition(" ")
        parsed = parse_type(_TYPES.get(t.rstrip("!"), t.rstrip("!")))
        columns.append(Field(0, name, parsed.with_nullable(not t.endswith("!"))))
    return assign_field_ids(columns)


def system_fields(name: str) -> tuple[Field, ...]:
    """Return the columns of a system table that is made of metadata."""
    return system_columns((_NOW.get(name) or _STATE[name])[0])


def system_rows(state: AskedState, name: str) -> pa.Table:
    """Make the rows of a system table; the state counts for those of one state only."""
    rows = _NOW[name][1](state.metadata) if name in _NOW else _STATE[name][1](state)
    return arrow_rows(system_fields(name), rows)


def arrow_rows(fields: tuple[Field, ...], rows: Iterable[Row]) -> pa.Table:
    """Put rows of values into columns; timestamps as milliseconds of the local clock."""
    schema = to_arrow_schema(fields)
    found = list(rows)
    columns = zip(*found, strict=True) if found else ((),) * len(schema)
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
