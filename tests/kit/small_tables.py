"""Small tables for tests, and the plain dictionary they are compared with."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakeidx.api.table import Table
from lakeidx.batch.committed_batch import BatchResult
from lakeidx.batch.context import BatchContext, make_context, new_batch_id
from lakeidx.batch.upsert import ingest_rows, write_attempt
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.table.metadata import TableMetadata
from tests.kit.upserts import upsert_table

SPEC: dict[str, Any] = {
    "fields": [{"name": "p", "type": "INT"}, {"name": "k", "type": "BIGINT"}, {"name": "v", "type": "STRING"}],
    "primaryKeys": ["p", "k"],
    "partitionKeys": ["p"],
    "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "10"},
}
#: Options by which the values of a key are joined to a list, so that a row which is written twice shows.
LISTAGG = {"merge-engine": "aggregation", "fields.v.aggregate-function": "listagg"}

#: A time that no test reaches, for clean-up of what is old.
LATER_MS = 4_000_000_000_000


def table_fields(columns: str) -> list[dict[str, Any]]:
    """Return fields of a schema from names and types as SQL has them: ``"k INT, price DECIMAL(9, 2)"``."""
    # A comma between columns stands in no parentheses.
    found = re.findall(r"(\w+) ((?:[^,(]|\([^)]*\))+)", columns)
    return [{"name": name, "type": kind} for name, kind in found]


def table_spec(
    columns: str | Sequence[Mapping[str, Any]],
    keys: Sequence[str],
    *,
    partitions: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what `Table.create` takes, with columns as `table_fields` takes them or as fields."""
    fields = table_fields(columns) if isinstance(columns, str) else list(columns)
    return {"fields": fields, "primaryKeys": keys, "partitionKeys": [*partitions], "options": {**(options or {})}}


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


def filled_table(folder: object, *batches: Sequence[tuple[int, int, str | None]], **more: Any) -> Table:
    """Make a table as `make_table` does, and upsert batches of rows."""
    table = make_table(folder, **more)
    for values in batches:
        upsert(table, values)
    return table


def staged_batch(table: Table, values: Sequence[tuple[int, int, str | None]], batch_id: str = "b") -> BatchContext:
    """Run a batch up to its commit, as a process does that stops there."""
    context = make_context(table.metadata, batch_id)
    ingest_rows(context, rows(values))
    write_attempt(context, 1)
    return context


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


def keep_newest(table: Table, snapshots: int = 1) -> None:
    """Let all snapshots but the newest ones expire, as a process of its own does, years later."""
    other = Table.open(table.uri)
    retention = Retention(num_min=snapshots, num_max=snapshots, time_ms=0, limit=1000)
    expire_table(other.metadata, other.schema, now_ms=LATER_MS, retention=retention)


def others_go_on(table: Table, batches: int = 3) -> None:
    """Have another process write rows (2, 0), (2, 1), …, a batch each, and let all snapshots but the newest expire."""
    for number in range(batches):
        upsert(Table.open(table.uri), [(2, number, "other")])
    keep_newest(table)


def memory_folder() -> str | None:
    """Return a folder in memory; None where a system has none."""
    folder = "/dev/shm"
    return folder if os.access(folder, os.W_OK) else None
