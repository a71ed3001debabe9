"""Changes that merges tell: equal to the plain form key by key, and applied to an empty table they give the table."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.api import Table
from lakeidx.batch.context import make_context
from lakeidx.data.merge.changelog import Changelog
from lakeidx.data.merge.levels import with_level
from lakeidx.data.merge.merge_runs import merge_sorted_runs
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.table.scan.incremental import IncrementalMode
from lakeidx.table.view import load_view
from lakeidx.tasks.runner import LocalRunner
from tests.kit.reference_changelog import Stored, merge_by_lookup, merge_in_full_compaction
from tests.kit.reference_engines import Record
from tests.kit.upserts import upsert_table
from tests.unit.data.tables import kv_table, table_schema

TOP = 5
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "first-row": {"merge-engine": "first-row"},
    "partial-update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "sum": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
}
COMPARED = {
    "all changes": {},
    "no equal rows": {"changelog-producer.row-deduplicate": "true"},
    "w not compared": {
        "changelog-producer.row-deduplicate": "true",
        "changelog-producer.row-deduplicate-ignore-fields": "w",
    },
}


def schema_of(engine: str, producer: str, compared: str = "all changes") -> TableSchema:
    options = {**ENGINES[engine], **COMPARED[compared], "changelog-producer": producer}
    return table_schema({"k": "INT NOT NULL", "v": "DOUBLE", "w": "STRING"}, keys=["k"], options=options)


def records_of(rows: pa.Table) -> list[tuple[int, Record]]:
    """(key, record) of a KV table."""
    return [
        (r["k"], Record(r["_VALUE_KIND"], r["_SEQUENCE_NUMBER"], (r["k"], r["v"], r["w"]))) for r in rows.to_pylist()
    ]


def draw_levels(data: st.DataObject, schema: TableSchema, engine: str, levels: list[int]) -> list[tuple[int, pa.Table]]:
    """(level, rows) of sorted runs, oldest first; deletes only where the engine takes them and never at the top."""
    out, sequence = [], 0
    value = st.none() | st.sampled_from([-1.0, 0.0, 2.0, float("nan")])
    for level in sorted(levels, reverse=True):
        keys = sorted(data.draw(st.sets(st.integers(0, 6))))
        rows = [(k, data.draw(value), data.draw(st.sampled_from([None, "x", "y"]))) for k in keys]
        kinds = [0, 2, 3] if engine in ("deduplicate", "partial-update") and level < TOP else [0, 2]
        table = kv_table(schema, rows, first_sequence=sequence, kinds=[data.draw(st.sampled_from(kinds)) for _ in keys])
        out.append((level, table))
        sequence += len(keys)
    return out


def merged_with_changes(
    runs: list[tuple[int, pa.Table]], schema: TableSchema, batch: int, *, top: int | None
) -> tuple[list[tuple[int, Record]], list[tuple[int, Record]]]:
    told: list[pa.Table] = []
    changelog = Changelog(schema, told.append, top_level=top)
    streams = [
        with_level([rows.slice(i, batch) for i in range(0, rows.num_rows, batch)], level) for level, rows in runs
    ]
    merged = list(merge_sorted_runs(streams, schema, shortcut=top is not None, changelog=changelog))
    assert all(t.num_rows for t in told)
    return [r for t in merged for r in records_of(t)], [r for t in told for r in records_of(t)]


def as_text(records: list[tuple[int, Record]]) -> list[str]:
    """NaN equals NaN here."""
    return [repr(r) for r in records]


@pytest.mark.parametrize("compared", COMPARED)
@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_lookup_changes_equal_the_plain_form(engine: str, compared: str, data: st.DataObject) -> None:
    schema = schema_of(engine, "lookup", compared)
    taking_part = data.draw(st.lists(st.sampled_from([0, 0, 0, 2, 3]), min_size=1, max_size=4).map(once_above_0))
    higher = data.draw(st.sampled_from([[], [4], [5], [4, 5]]))
    drawn = draw_levels(data, schema, engine, [*taking_part, *higher])
    part = [(level, rows) for level, rows in drawn if level < 4]
    by_key: dict[int, tuple[list[Stored], list[Stored]]] = {}
    for level, rows in drawn:
        for key, record in records_of(rows):
            by_key.setdefault(key, ([], []))[level >= 4].append(Stored(level, record))
    want_rows, want_changes = [], []
    for key, (records, above) in sorted(by_key.items()):
        if records:
            row, changes = merge_by_lookup(schema, records, above)
            want_rows += [] if row is None else [(key, row)]
            want_changes += [(key, c) for c in changes]
    # What a compaction does with the keys it finds above: they take part, or first-row tables leave their news out.
    news = {key for key, (records, _) in by_key.items() if any(s.level == 0 for s in records)}
    found = {key for key, (_, above) in by_key.items() if above}
    runs = []
    for level, rows in drawn:
        if level >= 4:
            rows = only(rows, news)
        elif level == 0 and engine == "first-row":
            rows = only(rows, set(range(7)) - found)
        if level < 4 or engine != "first-row":
            runs.append((level, rows))
    assert part
    got_rows, got_changes = merged_with_changes(runs, schema, data.draw(st.integers(1, 4)), top=None)
    assert as_text(got_changes) == as_text(want_changes)
    assert as_text(got_rows) == as_text(want_rows)


@pytest.mark.parametrize("compared", COMPARED)
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "sum"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_full_compaction_changes_equal_the_plain_form(engine: str, compared: str, data: st.DataObject) -> None:
    schema = schema_of(engine, "full-compaction", compared)
    levels = data.draw(st.lists(st.sampled_from([0, 0, 0, 3, TOP]), min_size=1, max_size=5).map(once_above_0))
    drawn = draw_levels(data, schema, engine, levels)
    by_key: dict[int, list[Stored]] = {}
    for level, rows in drawn:
        for key, record in records_of(rows):
            by_key.setdefault(key, []).append(Stored(level, record))
    want_rows, want_changes = [], []
    for key, records in sorted(by_key.items()):
        row, changes = merge_in_full_compaction(schema, records, TOP)
        want_rows += [] if row is None else [(key, row)]
        want_changes += [(key, c) for c in changes]
    got_rows, got_changes = merged_with_changes(drawn, schema, data.draw(st.integers(1, 4)), top=TOP)
    assert as_text(got_changes) == as_text(want_changes)
    assert as_text(got_rows) == as_text(want_rows)


def once_above_0(levels: list[int]) -> list[int]:
    """A level above 0 is one run; level 0 is there."""
    return [0, *(x for i, x in enumerate(levels) if x == 0 or x not in levels[:i])]


def only(rows: pa.Table, keys: set[int]) -> pa.Table:
    return rows.filter(pa.array([k in keys for k in rows.column("k").to_pylist()], pa.bool_()))


VECTORS = {"deletion-vectors.enabled": "true"}
HISTORIES: dict[str, Mapping[str, str]] = {
    "full": {"changelog-producer": "full-compaction"},
    "full, sum": {"changelog-producer": "full-compaction", **ENGINES["sum"]},
    "lookup": {"changelog-producer": "lookup"},
    "lookup, sum": {"changelog-producer": "lookup", **ENGINES["sum"]},
    "lookup, partial update": {"changelog-producer": "lookup", "merge-engine": "partial-update"},
    "lookup, sequence": {"changelog-producer": "lookup", "sequence.field": "v"},
    "lookup, first row": {"changelog-producer": "lookup", **ENGINES["first-row"]},
    "lookup, vectors": {"changelog-producer": "lookup", **VECTORS},
    "vectors": VECTORS,
    "vectors, sum": {**VECTORS, **ENGINES["sum"]},
}


@pytest.mark.parametrize("name", HISTORIES)
def test_changes_applied_to_an_empty_table_give_the_table(name: str, tmp_path: Path) -> None:
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "4", **HISTORIES[name]}
    # The same feed into a table whose compactions look nothing up, which readers merge.
    plain = {k: v for k, v in options.items() if k not in ("changelog-producer", *VECTORS)}
    table, model = make(tmp_path / "t", options), make(tmp_path / "plain", plain)
    r = random.Random(name)
    # Only there no outcome depends on when somebody compacts.
    deletes = name in ("full", "lookup", "lookup, vectors", "vectors")
    rows: dict[int, Any] = {}
    last, deepest, marked = 0, 0, False
    for step in range(8):
        batch = random_batch(r, 150 if step == 0 else r.choice([2, 10, 30]), deletes=deletes)
        for place in (table, model):
            upsert_table(make_context(place.metadata, f"b{step}", runner=LocalRunner(1)), batch)
        run_compaction(table.metadata, LocalRunner(1), full=name.startswith("full") or r.random() < 0.15)
        if "first row" in name:
            run_compaction(model.metadata, LocalRunner(1), full=True)
        view = load_view(table.metadata, table.metadata.latest_snapshot())
        deepest = max(deepest, len({e.file.level for e in view.entries}))
        marked = marked or any(e.dv_ranges for e in view.index)
        assert content(table) == content(model)
        now = table.metadata.latest_snapshot_id() or 0
        if "changelog-producer" in options:
            apply(Table.open(table.uri).changes(last, now, mode=IncrementalMode.CHANGELOG).to_arrow(), rows)
            assert rows == content(table)
        last = now
    assert deepest >= (1 if name.startswith("full") else 2)
    assert marked == ("vectors" in name)


def make(folder: Path, options: Mapping[str, str]) -> Table:
    fields = [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "BIGINT"}, {"name": "w", "type": "STRING"}]
    spec = {"fields": fields, "primaryKeys": ["k"], "partitionKeys": [], "options": dict(options)}
    return Table.create(f"{folder}/d.db/t", spec)


def random_batch(r: random.Random, size: int, *, deletes: bool) -> pa.Table:
    kinds = ["+I", "+U", "-D"] if deletes else ["+I", "+U"]
    return pa.table(
        {
            "k": pa.array([r.randrange(200) for _ in range(size)], pa.int32()),
            "v": pa.array([r.choice([None, 1, 2, 3]) for _ in range(size)], pa.int64()),
            "w": pa.array([r.choice([None, "a", "b"]) for _ in range(size)], pa.string()),
            "_kind": pa.array([r.choice(kinds) for _ in range(size)], pa.string()),
        }
    )


def content(table: Table) -> dict[int, Any]:
    found = Table.open(table.uri).scan().to_arrow().to_pylist()
    assert len({row["k"] for row in found}) == len(found)
    return {row["k"]: (row["v"], row["w"]) for row in found}


def apply(changes: pa.Table, rows: dict[int, Any]) -> None:
    """Apply changes; what goes must be there as it is said, and what comes must find its place free."""
    for change in changes.to_pylist():
        key, value = change["k"], (change["v"], change["w"])
        if change["_rowkind"] in ("-U", "-D"):
            assert rows.pop(key) == value
        else:
            assert key not in rows
            rows[key] = value
