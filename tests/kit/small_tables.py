"""Small tables for tests, and the plain dictionary they are compared with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakeidx.api.table import Table
from lakeidx.batch.committed_batch import BatchResult
from lakeidx.batch.upsert import make_context, new_batch_id, upsert_table
from lakeidx.table.metadata import TableMetadata

SPEC: dict[str, Any] = {
    "fields": [{"name": "p", "type": "INT"}, {"name": "k", "type": "BIGINT"}, {"name": "v", "type": "STRING"}],
    "primaryKeys": ["p", "k"],
    "partitionKeys": ["p"],
    "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "10"},
}
#: Options by which the values of a key are joined to a list, so that a row which is written twice shows.
LISTAGG = {"merge-engine": "aggregation", "fields.v.aggregate-function": "listagg"}


def make_table(folder: object, *, options: Mapping[str, str] | None = None, spec: Mapping[str, Any] = SPEC) -> Table:
    """Make a table of SPEC (p, k, v), with more options."""
    return Table.create(f"{folder}/wh/d.db/t", {**spec, "options": {**spec["options"], **(options or {})}})


def rows(values: Sequence[tuple[int, int, str | None]], kinds: Sequence[str] | None = None) -> pa.Table:
    """Return the rows (p, k, v) as Arrow, with row kinds when given."""
    columns = {
        "p": pa.array([v[0] for v in values], pa.int32()),
        "k": pa.array([v[1] for v in values], pa.int64()),
        "v": pa.array([v[2] for v in values], pa.string()),
    }
    if kinds is not None:
        columns["_kind"] = pa.array(list(kinds), pa.string())
    return pa.table(columns)


def upsert(
    table: Table,
    values: Sequence[tuple[int, int, str | None]],
    kinds: Sequence[str] | None = None,
    *,
    batch_id: str | None = None,
    overwrite: str | None = None,
) -> BatchResult:
    """Upsert rows as one batch."""
    context = make_context(table.metadata, batch_id or new_batch_id(), overwrite=overwrite)
    return upsert_table(context, rows(values, kinds))


def branch_of(table: Table, name: str = "x") -> Table:
    """Open a branch of a table, with the schema that the branch has."""
    metadata = TableMetadata.open(table.store, table.uri, branch=name)
    return Table(table.store, metadata.paths, metadata)


def content(table: Table, **state: Any) -> dict[tuple[int, int], str | None]:
    """Return all rows as (p, k) -> v; AssertionError when a key comes twice."""
    found = table.scan(**state).to_arrow().to_pylist()
    out = {(r["p"], r["k"]): r["v"] for r in found}
    assert len(out) == len(found), "a key came twice"
    return out


def memory_folder() -> str | None:
    """Return a folder in memory; None where a system has none."""
    folder = "/dev/shm"
    return folder if os.access(folder, os.W_OK) else None
