"""Changelogs of all producers lead from state to state; one that was changed, or lost rows, is found out."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.api.table import Table
from lakeidx.format.schema.schema_file import new_schema
from lakeidx.quality.changelog_agrees import check_changelog_agrees, why_not_judged
from lakeidx.quality.verify import has_changelog

PRODUCERS: dict[str, dict[str, str]] = {
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "lookup-vectors": {"changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
    "lookup-sum": {
        "changelog-producer": "lookup",
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.w.aggregate-function": "last_value",
    },
    "lookup-ignoring": {
        "changelog-producer": "lookup",
        "changelog-producer.row-deduplicate": "true",
        "changelog-producer.row-deduplicate-ignore-fields": "w",
    },
    "lookup-partial": {"changelog-producer": "lookup", "merge-engine": "partial-update"},
    "lookup-ordered": {"changelog-producer": "lookup", "sequence.field": "v"},
    "input-ordered": {"changelog-producer": "input", "sequence.field": "v"},
    "input-ordered-down": {
        "changelog-producer": "input",
        "sequence.field": "v",
        "sequence.field.sort-order": "descending",
    },
    "full-compaction": {"changelog-producer": "full-compaction"},
    "full-compaction-sum": {
        "changelog-producer": "full-compaction",
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
    },
}


def spec_of(options: dict[str, str]) -> dict[str, Any]:
    fields = [{"name": n, "type": t} for n, t in (("k", "INT"), ("v", "DOUBLE"), ("w", "STRING"))]
    return {"fields": fields, "primaryKeys": ["k"], "options": {"bucket": "2", **options}}


def history(folder: Path, producer: str, commits: int = 4) -> Table:
    """Upserts and deletes, compacted now and then, and at the end."""
    some = random.Random(producer)
    table = Table.create(f"{folder}/wh/d.db/t", spec_of(PRODUCERS[producer]))
    for number in range(commits):
        keys = some.sample(range(20), 8)
        rows = pa.table(
            {
                "k": pa.array(keys, pa.int32()),
                "v": pa.array([float(some.randint(0, 3)) for _ in keys]),
                "w": pa.array([some.choice(["a", "b", None]) for _ in keys], pa.string()),
            }
        )
        if not producer.endswith(("-sum", "-partial")):
            rows = rows.append_column("_kind", pa.array([some.choice(["+I", "+I", "-D"]) for _ in keys]))
        table.upsert(rows)
        if number % 2:
            table.compact(full=producer.startswith("full-compaction"))
    return table


def changelog_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("wh/d.db/t/bucket-*/changelog-*.parquet"))


@pytest.mark.slow
@pytest.mark.parametrize("producer", PRODUCERS)
def test_the_changelog_of_a_history_agrees(tmp_path: Path, producer: str) -> None:
    table = history(tmp_path, producer)
    assert has_changelog(table.schema)
    assert not why_not_judged(table.schema)
    result = check_changelog_agrees(table)
    assert result.passed, result
    assert result.metrics["buckets"] == 2
    assert result.metrics["changelog_rows"] >= 20
    last = table.metadata.latest_snapshot_id() or 0
    for after, upto in ((0, 2), (1, last), (2, 3), (3, last - 1), (last, last)):
        part = check_changelog_agrees(table, after=after, upto=upto)
        assert part.passed, (after, upto, part)
    assert check_changelog_agrees(table, max_rows=1).metrics["buckets"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("producer", ["input", "input-ordered", "lookup", "full-compaction"])
@pytest.mark.parametrize("damage", ["value", "kind"])
def test_a_changelog_that_was_changed_is_found_out(tmp_path: Path, producer: str, damage: str) -> None:
    """One row after another is changed, until it is one that no later change makes up for."""
    table = history(tmp_path, producer)
    for file in changelog_files(tmp_path):
        rows = pq.read_table(file)
        added = [i for i, kind in enumerate(rows.column("_VALUE_KIND").to_pylist()) if kind in (0, 2)]
        if added:
            _change(file, rows, added[-1], "v" if damage == "value" else "_VALUE_KIND")
            result = check_changelog_agrees(Table.open(table.uri))
            if not result.passed:
                assert sum(v for n, v in result.metrics.items() if n.startswith("rows_")) > 0
                return
    pytest.fail("no change was found out")


def _change(file: Path, rows: pa.Table, at: int, name: str) -> None:
    values = rows.column(name).to_pylist()
    values[at] = 99.0 if name == "v" else 3
    i = rows.schema.get_field_index(name)
    field = rows.schema.field(i)
    pq.write_table(rows.set_column(i, field, pa.array(values, field.type)), file)


def test_what_cannot_be_judged_says_why(tmp_path: Path) -> None:
    assert not has_changelog(new_schema(spec_of({})))
    options = {"changelog-producer": "input", "merge-engine": "partial-update"}
    table = Table.create(f"{tmp_path}/wh/d.db/t", spec_of(options))
    table.upsert(pa.table({"k": pa.array([1], pa.int32()), "v": [1.0], "w": ["x"]}))
    result = check_changelog_agrees(table)
    assert result.passed
    assert (result.metrics["not_judged"], result.metrics["buckets"]) == (1, 0)
    assert result.description.startswith(
        "Not judged: changelog-producer=input keeps what came in, and merge-engine=partial"
    )


def test_rows_too_old_may_be_gone(tmp_path: Path) -> None:
    """Those that went in a compaction are in no changelog; all others are compared, as is shown by one that is not told."""
    now = int(time.time())
    options = {"changelog-producer": "lookup", "record-level.expire-time": "1 d", "record-level.time-field": "at"}
    fields = [{"name": "k", "type": "INT"}, {"name": "at", "type": "INT"}]
    spec = {"fields": fields, "primaryKeys": ["k"], "options": {"bucket": "1", **options}}
    table = Table.create(f"{tmp_path}/wh/d.db/t", spec)
    table.upsert(pa.table({"k": pa.array([1, 2, 3], pa.int32()), "at": pa.array([now, 5, now], pa.int32())}))
    # An older compaction has kept the row that is too old now.
    table.alter(set={"record-level.expire-time": "40000 d"})
    table.compact()
    table.alter(set={"record-level.expire-time": "1 d"})
    table.upsert(pa.table({"k": pa.array([4], pa.int32()), "at": pa.array([now], pa.int32())}))
    table.compact(full=True)
    assert sorted(table.scan(columns=["k"]).to_arrow().column("k").to_pylist()) == [1, 3, 4]
    result = check_changelog_agrees(table)
    assert result.passed, result
    assert result.metrics["changelog_rows"] == 4
    file = changelog_files(tmp_path)[0]
    rows = pq.read_table(file)
    _change(file, rows, rows.num_rows - 1, "_VALUE_KIND")
    assert not check_changelog_agrees(Table.open(table.uri)).passed


@pytest.mark.slow
def test_rows_that_come_late_count_for_nothing(tmp_path: Path) -> None:
    """The input has them, the table does not; after a delete that outranks them, a compaction decides."""
    table = Table.create(f"{tmp_path}/wh/d.db/t", spec_of(PRODUCERS["input-ordered"]))
    for k, v, kind in ((1, 5.0, "+I"), (1, 3.0, "+U"), (2, 5.0, "+I"), (2, 7.0, "-D"), (2, 6.0, "+I")):
        table.upsert(pa.table({"k": pa.array([k], pa.int32()), "v": [v], "w": [f"at {v}"], "_kind": [kind]}))
    for after in range(5):
        assert check_changelog_agrees(table, after=after).passed, after
    table.compact(full=True)
    table.upsert(pa.table({"k": pa.array([2], pa.int32()), "v": [4.0], "w": ["back"]}))
    assert sorted(table.scan(columns=["w"]).to_arrow().column("w").to_pylist()) == ["at 5.0", "back"]
    for after in range(7):
        assert check_changelog_agrees(table, after=after).passed, after


def test_an_overwrite_begins_anew_and_expired_states_are_said(tmp_path: Path) -> None:
    table = history(tmp_path, "input", commits=2)
    table.overwrite(pa.table({"k": pa.array([1], pa.int32()), "v": [1.0], "w": ["x"]}), whole_table=True)
    table.upsert(pa.table({"k": pa.array([2], pa.int32()), "v": [1.0], "w": ["x"]}))
    result = check_changelog_agrees(table, after=0)
    assert result.passed
    assert result.metrics["changelog_rows"] == 1
    table.expire(retain_max=1, retain_min=1)
    assert check_changelog_agrees(table, after=1).metrics["states_expired"] == 1
