"""Options that are acted on, or stop what does not follow them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import lakeidx
from lakeidx.api import Table
from lakeidx.cli.main import app
from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.changes import drop_column, evolve
from lakeidx.format.schema.schema_file import TableSchema, encode_schema, new_schema
from lakeidx.format.snapshot import CommitKind
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.storage import open_store
from lakeidx.table.expiration.read import read_tags
from lakeidx.table.expiration.tags import create_tag
from lakeidx.tasks.runner import LocalRunner
from tests.kit.small_tables import table_spec

# Tables whose options ask for rules that lakeidx does not follow were read wrongly, upserted and compacted (H3, G6).
#
# A data-evolution table of two rows scanned as four rows with nulls, a compaction wrote that down, and an upsert alone made the
# table unreadable for Java.

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})


def make(path: Path, **options: str) -> Table:
    keys = [] if "row-tracking.enabled" in options else ["id"]
    options = options if not keys else {"bucket": "1", **options}
    # As another program makes it: lakeidx makes no table that it cannot write.
    schema = new_schema(table_spec("id BIGINT, v STRING", keys, options=options))
    store = open_store(str(path))
    store.put_if_absent(TablePaths.of(str(path / "t"), schema).schema_path(0), encode_schema(schema))
    return Table.open(str(path / "t"))


def test_data_evolution_is_refused_for_everything(tmp_path: Path) -> None:
    table = make(tmp_path, **{"row-tracking.enabled": "true", "data-evolution.enabled": "true"})
    for use, call in (
        ("reading", lambda: table.scan()),
        ("writing", lambda: table.upsert(ROWS)),
        ("writing", lambda: table.overwrite(ROWS, whole_table=True)),
        ("compaction", lambda: run_compaction(table.metadata, LocalRunner(1), full=True)),
    ):
        with pytest.raises(
            UnsupportedError, match=f"{use} is refused: data-evolution.enabled=true: the columns of a row"
        ):
            call()
    assert not (tmp_path / "t" / "snapshot").exists()


def test_row_tracking_may_be_read(tmp_path: Path) -> None:
    table = make(tmp_path, **{"row-tracking.enabled": "true"})
    assert table.scan().to_arrow().num_rows == 0
    with pytest.raises(UnsupportedError, match=r"writing is refused: row-tracking.enabled=true"):
        table.upsert(ROWS)


@pytest.mark.parametrize("option", ["sequence.snapshot-ordering", "pk-clustering-override", "chain-table.enabled"])
def test_primary_key_tables_of_other_rules(tmp_path: Path, option: str) -> None:
    table = make(tmp_path, **{option: "true"})
    with pytest.raises(UnsupportedError, match=f"reading is refused: {option}=true"):
        table.scan()
    with pytest.raises(UnsupportedError, match=f"reading is refused: {option}=true"):
        table.lookup(pa.table({"id": pa.array([1], pa.int64())}))
    with pytest.raises(UnsupportedError, match=f"writing is refused: {option}=true"):
        table.upsert(ROWS)
    with pytest.raises(UnsupportedError, match=f"compaction is refused: {option}=true"):
        run_compaction(table.metadata, LocalRunner(1))


def test_an_option_set_later_is_noticed_by_an_open_table(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert(ROWS)
    schema = tmp_path / "t" / "schema"
    (schema / "schema-1").write_text(
        (schema / "schema-0")
        .read_text()
        .replace('"id" : 0,', '"id" : 1,', 1)
        .replace('"bucket"', '"chain-table.enabled" : "true",\n"bucket"')
    )
    with pytest.raises(UnsupportedError, match=r"chain-table\.enabled=true"):
        table.upsert(ROWS)
    with pytest.raises(UnsupportedError, match=r"chain-table\.enabled=true"):
        table.scan()


# A column that file index options name could be dropped; afterwards every upsert and compaction failed.


def _schema(**options: str) -> TableSchema:
    fields = [
        {"name": "k", "type": "INT"},
        {"name": "a", "type": "STRING"},
        {"name": "m", "type": {"type": "MAP", "key": "STRING", "value": "STRING"}},
    ]
    return new_schema({"fields": fields, "primaryKeys": ["k"], "options": {"bucket": "1", **options}})


@pytest.mark.parametrize(
    ("column", "key", "value"),
    [
        ("a", "file-index.bloom-filter.columns", "a"),
        ("a", "file-index.bitmap.columns", "k, a"),
        ("m", "file-index.bloom-filter.columns", "a,m[x]"),
        ("a", "file-index.bloom-filter.a.fpp", "0.1"),
        ("m", "file-index.bloom-filter.m[x].fpp", "0.1"),
    ],
)
def test_refused_with_the_option(column: str, key: str, value: str) -> None:
    """The message names the option; another column can go."""
    schema = _schema(**{key: value})
    with pytest.raises(
        InvalidInputError, match=f"column '{column}' cannot be dropped: option '{key}'".replace("[", r"\[")
    ):
        evolve(schema, [drop_column(column)])
    other = "m" if column == "a" else "a"
    if f"{other}" not in value.split(","):
        assert other not in evolve(schema, [drop_column(other)]).field_names


# Options that ask for upkeep after a batch were read and left alone: after four batches with ``tag.automatic-creation`` = batch
# there was no tag (G6).


def make_upkeep(path: Path, **options: str) -> Table:
    spec = {
        "fields": [{"name": "id", "type": "BIGINT"}, {"name": "v", "type": "BIGINT"}],
        "primaryKeys": ["id"],
        "options": {"bucket": "1", **{k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}},
    }
    return Table.create(str(path / "t"), spec)


def batch(table: Table, number: int) -> None:
    table.upsert(pa.table({"id": pa.array([1, number + 1], pa.int64()), "v": pa.array([number, number], pa.int64())}))


def kinds(table: Table) -> list[CommitKind]:
    return [s.commit_kind for s in table.metadata.snapshots()]


def levels(table: Table) -> list[int]:
    return sorted(f.level for b in table.scan().plan.buckets for s in b.sections for r in s for f in r)


A, C = CommitKind.APPEND, CommitKind.COMPACT


def test_batches_make_tags(tmp_path: Path) -> None:
    table = make_upkeep(
        tmp_path, tag__automatic_creation="batch", sink__process_time_zone="UTC", tag__default_time_retained="2 d"
    )
    before = datetime.now(UTC).date().isoformat()
    for number in range(2):
        batch(table, number)
    names = {f"batch-write-{d}" for d in (before, datetime.now(UTC).date().isoformat())}
    tags = read_tags(table.metadata)
    assert set(tags) <= names
    newest = tags[max(tags)]
    assert newest.snapshot.id == 2
    assert newest.time_retained_ns == 2 * 86400 * 10**9
    # A tag made by hand without a retention gets the table's.
    assert create_tag(table.metadata, "mine").time_retained_ns == 2 * 86400 * 10**9
    assert create_tag(table.metadata, "short", retained_ms=1000).time_retained_ns == 10**9


def test_commits_of_a_process_time_table_make_the_tag_of_the_period_before(tmp_path: Path) -> None:
    table = make_upkeep(tmp_path, tag__automatic_creation="process-time", sink__process_time_zone="UTC")
    batch(table, 0)
    assert len(read_tags(table.metadata)) == 1
    run_compaction(table.metadata, LocalRunner(1), full=True)
    batch(table, 1)
    (tag,) = read_tags(table.metadata).values()
    assert tag.snapshot.id == 1


def test_a_batch_compacts_when_commits_are_to(tmp_path: Path) -> None:
    table = make_upkeep(tmp_path, commit__force_compact="true", num_sorted_run__compaction_trigger="3")
    for number in range(4):
        batch(table, number)
    assert kinds(table) == [A, A, A, C, A]
    assert table.scan().to_arrow().num_rows == 4


def test_every_so_many_commits_all_is_compacted(tmp_path: Path) -> None:
    table = make_upkeep(tmp_path, full_compaction__delta_commits="2")
    for number in range(5):
        batch(table, number)
    assert kinds(table) == [A, A, C, A, A, C, A]
    assert levels(table) == [0, 5]
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda r: r["id"]) == [
        {"id": 1, "v": 4}, *({"id": n + 1, "v": n} for n in range(1, 5))
    ]  # fmt: skip


def test_write_only_goes_before_both(tmp_path: Path) -> None:
    table = make_upkeep(tmp_path, commit__force_compact="true", full_compaction__delta_commits="1", write_only="true",
                 num_sorted_run__compaction_trigger="1")  # fmt: skip
    for number in range(3):
        batch(table, number)
    assert kinds(table) == [A, A, A]


def test_every_commit_has_its_changelog_when_it_is_compacted_at_once(tmp_path: Path) -> None:
    table = make_upkeep(tmp_path, changelog_producer="full-compaction", full_compaction__delta_commits="1")
    for number in range(2):
        batch(table, number)
    assert kinds(table) == [A, C, A, C]
    assert [s.changelog_record_count for s in table.metadata.snapshots()] == [None, 1, None, 3]


# `partition.default-name` and `partition.legacy-name` name directories: after a change the files in them were not found.

CASES = [
    ("STRING NOT NULL", "", {"partition.default-name": "none"}, {"partition.default-name": "__DEFAULT_PARTITION__"}),
    ("DATE NOT NULL", date(2020, 1, 1), {"partition.legacy-name": "false"}, {"partition.legacy-name": "true"}),
]


def _table(folder: Path, column: str, options: dict[str, str] | None = None, *, partitioned: bool = True) -> Table:
    spec: dict[str, Any] = {
        "fields": [{"name": "p", "type": column}, {"name": "k", "type": "INT NOT NULL"}],
        "primaryKeys": ["p", "k"],
        "partitionKeys": ["p"] if partitioned else [],
        "options": {"bucket": "1", **(options or {})},
    }
    return Table.create(folder / "t", spec)


@pytest.mark.parametrize(("column", "value", "change", "default"), CASES)
def test_they_cannot_change_once_there_are_files(
    tmp_path: Path, column: str, value: Any, change: dict[str, str], default: dict[str, str]
) -> None:
    table = _table(tmp_path, column)
    rows = pa.table({"p": [value], "k": pa.array([1], pa.int32())})
    table.upsert(rows)
    with pytest.raises(InvalidInputError, match="the directories of its partitions are named by it"):
        table.alter(set=change)
    # What says the same, and what had been set already, is no change.
    table.alter(set=default)
    table.alter(reset=list(default))
    assert Table.open(table.uri).scan().to_arrow() == rows.cast(table.scan().to_arrow().schema)


@pytest.mark.parametrize(("column", "value", "change", "default"), CASES)
def test_they_can_where_nothing_is_named_by_them(
    tmp_path: Path, column: str, value: Any, change: dict[str, str], default: dict[str, str]
) -> None:
    empty = _table(tmp_path / "empty", column, default)
    empty.alter(set=change)
    plain = _table(tmp_path / "plain", column, partitioned=False)
    plain.upsert(pa.table({"p": [value], "k": pa.array([1], pa.int32())}))
    plain.alter(set=change)
    assert plain.scan().to_arrow().num_rows == 1


def test_a_reset_is_a_change(tmp_path: Path) -> None:
    table = _table(tmp_path, "STRING NOT NULL", {"partition.default-name": "none"})
    table.upsert(pa.table({"p": [""], "k": pa.array([1], pa.int32())}))
    with pytest.raises(InvalidInputError, match=r"'partition\.default-name' cannot change"):
        table.alter(reset=["partition.default-name"])


# A TIMESTAMP_LTZ partition column without legacy names gave directories that depend on the process's time zone.


def test_refused_at_create(tmp_path: Path) -> None:
    """One line; with legacy names (UTC) such a table can be made."""
    spec = table_spec(
        "t TIMESTAMP(3) WITH LOCAL TIME ZONE, k INT", ["t", "k"], partitions=["t"], options={"bucket": "1"}
    )
    with pytest.raises(InvalidInputError, match="time zone of each process"):
        lakeidx.Table.create(
            f"{tmp_path}/d.db/t", {**spec, "options": {"bucket": "1", "partition.legacy-name": "false"}}
        )
    lakeidx.Table.create(f"{tmp_path}/d.db/t", spec)


# A branch's directory opened as a table, level 0 hidden by an alteration, updates counted as inserts: all without a word.


def make_word(folder: Path, **options: str) -> Table:
    given = {name.replace("_", "-"): value for name, value in options.items()}
    return Table.create(folder / "d.db" / "t", table_spec("id INT, v INT", ["id"], options=given))


@pytest.mark.parametrize("end", ["", "/"])
def test_a_branch_is_no_table(tmp_path: Path, end: str) -> None:
    table = make_word(tmp_path, bucket="1")
    schema = Path(table.uri, "branch", "branch-b", "schema")
    schema.mkdir(parents=True)
    (schema / "schema-0").write_bytes(Path(table.uri, "schema", "schema-0").read_bytes())
    with pytest.raises(InvalidInputError, match=f"directory of branch 'b', no table: open {table.uri}.branch_b"):
        Table.open(f"{table.uri}/branch/branch-b{end}")
    done = CliRunner().invoke(app, ["expire", f"{table.uri}/branch/branch-b{end}"])
    assert done.exit_code == 2
    assert "Traceback" not in done.output
    # A table of such a name in a folder that is none.
    named = Table.create(tmp_path / "branch" / "branch-b", table_spec("id INT", ["id"], options={"bucket": "1"}))
    assert Table.open(named.uri).schema.id == 0


def test_an_alteration_that_hides_rows_says_so(tmp_path: Path) -> None:
    table = make_word(tmp_path, bucket="1", **{"deletion-vectors.modifiable": "true"})
    on = {"deletion-vectors.enabled": "true"}
    assert table.alter(set=on, dry_run=True).hidden == 0
    table.upsert([{"id": 1, "v": 1}])
    done = CliRunner().invoke(app, ["table", "alter", table.uri, "--set", "deletion-vectors.enabled=true"])
    assert done.exit_code == 0, done.output
    assert "readers do not see the rows of 1 files any more" in done.output
    assert table.scan().to_arrow().num_rows == 0
    table.compact(full=True)
    assert table.scan().to_arrow().num_rows == 1
    assert table.alter(reset=list(on)).hidden == 0
    assert table.alter(set=on).hidden == 0


def test_nobody_counts_inserts_of_fixed_buckets(tmp_path: Path) -> None:
    table = make_word(tmp_path, bucket="2")
    for _ in range(2):
        counts = table.upsert([{"id": 1, "v": 1}, {"id": 2, "v": 2}]).as_dict()
        assert (counts["upserts"], counts["inserts"], counts["updates"]) == (2, 0, 0)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": 1, "v": 3}\n{"id": 2, "v": 2, "_kind": "-D"}\n')
    done = CliRunner().invoke(app, ["upsert", table.uri, str(rows), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["rows"], found["upserts"], found["deletes"], found["inserts"]) == (2, 1, 1, 0)
