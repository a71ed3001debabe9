"""Columns added, renamed, widened and dropped between the build of a lookup file and the lookup: a lookup is what a scan is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.format.schema.changes import add_column, change_type, drop_column, evolve, move_column, rename_column
from lakeidx.format.schema.option_changes import SchemaChange
from lakeidx.format.schema.schema_file import encode_schema
from lakeidx.lookup.point.table_lookup import TableLookup
from lakeidx.maintenance.lookup_store import run_lookup_store
from lakeidx.tasks.runner import LocalRunner
from lakeidx.types import parse_type

IDS = list(range(40))
CHANGES: dict[str, tuple[list[SchemaChange], dict[str, list[Any]]]] = {
    "added": ([add_column("w", parse_type("BIGINT"))], {"s": [f"s{i}" for i in IDS], "n": IDS, "w": [None] * 40}),
    "renamed": ([rename_column("s", "t")], {"t": [f"s{i}" for i in IDS], "n": IDS}),
    "widened": ([change_type("n", parse_type("BIGINT"))], {"s": [f"s{i}" for i in IDS], "n": IDS}),
    "dropped": ([drop_column("s")], {"n": IDS}),
    "dropped and added again": (
        [drop_column("n"), add_column("n", parse_type("STRING"))],
        {"s": [f"s{i}" for i in IDS], "n": [None] * 40},
    ),
    "key renamed": ([rename_column("id", "key")], {"key": IDS, "s": [f"s{i}" for i in IDS], "n": IDS}),
    "all at once": (
        [rename_column("s", "n2"), change_type("n", parse_type("DOUBLE")), rename_column("n", "s"),
         add_column("new", parse_type("DATE")), move_column("new", first=True)],
        {"n2": [f"s{i}" for i in IDS], "s": [float(i) for i in IDS], "new": [None] * 40},
    ),
}  # fmt: skip


def change(table: Table, changes: list[SchemaChange]) -> Table:
    schema = evolve(table.schema, changes)
    assert table.store.put_if_absent(table.paths.schema_path(schema.id), encode_schema(schema))
    return Table.open(table.uri)


def scan(table: Table) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = table.scan().to_arrow().sort_by(table.schema.primary_keys[0]).to_pylist()
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize(("store_type", "values"), [("sort", "value"), ("hash", "value"), ("sort", "position")])
def test_lookup_files_outlive_a_change(tmp_path: Path, name: str, store_type: str, values: str) -> None:
    changes, expected = CHANGES[name]
    spec = {
        "fields": [{"name": "id", "type": "INT"}, {"name": "s", "type": "STRING"}, {"name": "n", "type": "INT"}],
        "primaryKeys": ["id"],
        "options": {"bucket": "2", "lookup.store.type": store_type, "lookup.store.values": values},
    }
    table = Table.create(f"{tmp_path}/w/db.db/t", spec)
    table.upsert(pa.table({"id": IDS, "s": [f"s{i}" for i in IDS], "n": IDS}))
    built = run_lookup_store(table.metadata, LocalRunner(1)).built
    opened_before = TableLookup(table.metadata)
    assert opened_before.lookup(pa.table({"id": IDS})).found.all()

    table = change(table, changes)
    key = table.schema.primary_keys[0]
    lookup = TableLookup(table.metadata)
    answer = lookup.lookup(pa.table({key: [*IDS, 77]}))
    assert answer.found.tolist() == [True] * len(IDS) + [False]
    assert answer.rows.column_names == list(table.schema.field_names)
    for column, wanted in expected.items():
        assert answer.rows.column(column).to_pylist() == [*wanted, None]
    assert lookup.metrics.lookup_files == 2
    assert (lookup.metrics.data_files == 0) == (values == "value")
    scanned = scan(table)
    assert answer.rows.slice(0, len(IDS)).to_pylist() == scanned

    # Rows of both schemas together, the older lookup files used as they are.
    more = {n: [None] for n in table.schema.field_names} | {key: [3]}
    table.upsert(pa.table({n: pa.array(v, table.schema.arrow_schema.field(n).type) for n, v in more.items()}))
    report = run_lookup_store(table.metadata, LocalRunner(1))
    assert (report.built, report.reused) == (1, built)
    both = TableLookup(table.metadata).lookup(pa.table({key: IDS})).rows
    scanned = scan(table)
    assert both.to_pylist() == scanned
    if key == "id":
        assert opened_before.lookup(pa.table({key: IDS})).rows.to_pylist() == scanned
