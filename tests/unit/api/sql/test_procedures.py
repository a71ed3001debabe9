"""CALL: each procedure that takes something away says with `dry_run` what it would do, and then does it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lakeidx
from lakeidx.api.sql.procedures import PROCEDURES, run_procedure
from lakeidx.api.sql.query import QueryResult
from lakeidx.errors import BatchHeldError, InvalidInputError

FIELDS = [{"name": n, "type": t} for n, t in (("p", "STRING"), ("k", "INT"))]
#: Of those without `dry_run`: they add or rewrite, and take nothing away.
ADDING = {
    "compact_manifest", "create_branch", "create_tag", "create_tag_from_timestamp", "create_tag_from_watermark", "release_batch",
    "rename_tag",
    "replace_tag", "rewrite_file_index", "trigger_tag_automatic_creation",
}  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path) -> lakeidx.Warehouse:
    spec = {"fields": FIELDS, "primaryKeys": ["p", "k"], "partitionKeys": ["p"], "options": {"bucket": "1"}}
    table = lakeidx.Table.create(tmp_path / "d.db" / "t", spec)
    for p in ("a", "b"):
        table.upsert([{"p": p, "k": 1}])
    with pytest.raises(BatchHeldError):
        table.upsert([{"p": "a", "k": 9}], batch_id="waits", limits="inserts=0")
    return lakeidx.Warehouse(tmp_path)


def test_what_takes_something_away_has_a_dry_run(lake: lakeidx.Warehouse) -> None:
    assert {n for n, p in PROCEDURES.items() if "dry_run" not in p.parameters} <= ADDING

    def call(text: str) -> dict[str, Any]:
        done = lake.sql(f"CALL sys.{text}")
        assert isinstance(done, QueryResult)
        (row,) = done.to_arrow().to_pylist()
        return dict(row)

    def partitions() -> list[str]:
        return sorted(r["p"] for r in lake.table("d.t").scan().to_arrow().to_pylist())

    assert call("drop_partition(table => 'd.t', partitions => 'p=a', dry_run => true)")["dry_run"]
    assert partitions() == ["a", "b"]
    call("drop_partition(table => 'd.t', where => 'p = ''a''')")
    assert partitions() == ["b"]
    assert call("rollback_to_as_latest(table => 'd.t', snapshot_id => 2, dry_run => true)")["dry_run"]
    assert call("rollback_to_as_latest(table => 'd.t', snapshot_id => 2)")["snapshot"] == 4
    assert partitions() == ["a", "b"]
    assert call("discard_batch(table => 'd.t', batch => 'waits', dry_run => true)")["rows"] == 1
    call("release_batch(table => 'd.t', batch => 'waits')")
    assert partitions() == ["a", "a", "b"]
    assert call("rollback(table => 'd.t', version => '1', dry_run => true)")["snapshots_gone"] == "[5, 4, 3, 2]"


def test_arguments_are_checked_by_name_and_kind(lake: lakeidx.Warehouse) -> None:
    table = lake.table("d.t")
    assert run_procedure(table, "create_tag", {"tag": "x", "snapshot": 1}).as_dict()["snapshot"] == 1
    for name, given, said in (
        ("create_tga", {}, "did you mean 'create_tag'"),
        ("create_tag", {}, "tag is missing"),
        ("create_tag", {"tag": "y", "dry_run": True}, "not dry_run = True"),
        ("create_tag", {"tag": "y", "snapshot": "1"}, "not snapshot = '1'"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            run_procedure(table, name, given)
    assert [t["tag"] for t in table.tags()] == ["x"]


def test_tags_and_partitions_expire_by_what_the_call_says(lake: lakeidx.Warehouse) -> None:
    table = lake.table("d.t")
    table.create_tag("kept")
    table.create_tag("timed", retain="1 d")

    def call(name: str, **given: Any) -> Any:
        return run_procedure(table, name, given).as_dict()

    assert call("expire_tags")["expired_tags"] == []
    assert call("expire_tags", older_than="2020-01-01")["expired_tags"] == []
    asked = {"older_than": "2999-01-01"}
    assert sorted(call("expire_tags", **asked, dry_run=True)["expired_tags"]) == ["kept", "timed"]
    assert len(table.tags()) == 2
    assert sorted(call("expire_tags", **asked)["expired_tags"]) == ["kept", "timed"]
    assert not table.tags()

    table.upsert([{"p": p, "k": 1} for p in ("20200102", "20200101", "29990101")])
    named = {"expiration_time": "1 d", "timestamp_formatter": "yyyyMMdd", "timestamp_pattern": "$p"}
    assert call("expire_partitions", expiration_time="1 d")["unread"] == 5
    assert call("expire_partitions", **named, max_expires=1)["partitions"] == ("p=20200101",)
    assert call("expire_partitions", **named)["partitions"] == ("p=20200102",)
    with pytest.raises(InvalidInputError, match="expiration-strategy"):
        call("expire_partitions", expiration_time="1 d", expire_strategy="never")


#: Paimon's procedures for Spark, a build after release 2.0.0 (`SparkProcedures`), and Flink's of tags.
OF_PAIMON = """
    rollback rollback_to_timestamp rollback_to_watermark purge_files create_tag replace_tag rename_tag create_tag_from_timestamp
    delete_tag expire_tags create_branch create_global_index drop_global_index delete_branch rename_branch compact
    materialize_deletion_vectors compact_database compact_chain_table rescale migrate_database migrate_table remove_orphan_files
    remove_unexisting_files expire_snapshots expire_partitions repair repair_earliest_snapshot fast_forward merge_branch
    reset_consumer mark_partition_done compact_manifest clear_consumers alter_view_dialect create_function alter_function
    drop_function trigger_tag_automatic_creation rewrite_file_index copy reassign_row_id create_tag_from_watermark
    rollback_to_as_latest
"""


def test_a_procedure_of_paimon_is_there_or_the_refusal_says_what_does_its_work(lake: lakeidx.Warehouse) -> None:
    for name in OF_PAIMON.split():
        with pytest.raises(InvalidInputError) as found:
            lake.sql(f"CALL sys.{name}(nobody => 1)")
        said = found.value.message
        assert said.startswith("line 1, column "), said
        assert "\n" not in said
        assert f"there is no procedure sys.{name}; " not in said or "there are" not in said, said
        if name not in PROCEDURES and name != "compact_database":
            with pytest.raises(InvalidInputError, match=f"there is no procedure '{name}'; (?!there are|did you)"):
                run_procedure(lake.table("d.t"), name, {})


def test_tables_of_a_warehouse_are_compacted_by_their_names(lake: lakeidx.Warehouse) -> None:
    spec = {"fields": FIELDS, "primaryKeys": ["p", "k"], "partitionKeys": ["p"], "options": {"bucket": "1"}}
    for name in ("d.u", "other.t"):
        lake.create(name, spec).upsert([{"p": "a", "k": 1}])

    def compacted(text: str) -> dict[str, bool]:
        done = lake.sql(f"CALL sys.compact_database({text})")
        assert isinstance(done, QueryResult)
        return {"/".join(r["table"].split("/")[-2:]): r["snapshot_ids"] != "[]" for r in done.to_arrow().to_pylist()}

    assert compacted("dry_run => true") == {"d.db/t": False, "d.db/u": False, "other.db/t": False}
    named = "including_databases => 'd', excluding_tables => '.*[.]t'"
    assert compacted(named) == {"d.db/u": True}
    assert compacted("including_tables => 'd[.]t|other[.]t'") == {"d.db/t": True, "other.db/t": True}
    for text, said in (
        ("including_tables => 'nobody'", "column 10: no table of"),
        ("including_tables => '('", "not a regular expression"),
        ("table => 'd.t'", "not table"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            compacted(text)


def test_what_refusals_name_does_the_work(lake: lakeidx.Warehouse) -> None:
    table = lake.table("d.t")

    def buckets() -> set[int]:
        return {f["bucket"] for f in table.files()}

    def keys(name: str = "d.t") -> list[tuple[str, int]]:
        return sorted((r["p"], r["k"]) for r in lake.table(name).scan().to_arrow().to_pylist())

    table.discard_batch("waits")
    lake.sql("INSERT INTO d.t VALUES ('a', 2), ('a', 3), ('a', 4)")
    lake.sql("ALTER TABLE d.t SET TBLPROPERTIES ('bucket' = '4')")
    assert buckets() == {0}
    lake.sql("INSERT OVERWRITE d.t SELECT * FROM d.t")
    assert len(buckets()) > 1
    expected = [("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 1)]
    assert keys() == expected
    lake.sql("CREATE TABLE d.copied LIKE d.t")
    lake.sql("INSERT INTO d.copied SELECT * FROM d.t")
    assert keys("d.copied") == expected
    table.create_branch("side", snapshot=table.snapshot.id if table.snapshot else None)
    lake.sql("INSERT INTO d.t$branch_side VALUES ('c', 7)")
    lake.sql("INSERT INTO d.t VALUES ('c', 8)")
    lake.sql("INSERT INTO d.t SELECT * FROM d.t$branch_side")
    assert keys() == [*expected, ("c", 7), ("c", 8)]


def test_a_tag_is_made_at_a_watermark(tmp_path: Path) -> None:
    lake = lakeidx.Warehouse(tmp_path)
    lake.sql("CREATE TABLE d.t (k INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')")
    table = lake.table("d.t")
    for k, mark in ((1, 1000), (2, 2000), (3, 3000)):
        table.upsert([{"k": k}])
        file = tmp_path / "d.db" / "t" / "snapshot" / f"snapshot-{k}"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"watermark": mark}))
    lake = lakeidx.Warehouse(tmp_path)
    lake.sql("CALL sys.create_tag_from_watermark(table => 'd.t', tag => 'x', watermark => 1001)")
    assert [(t["tag"], t["snapshot"]) for t in lake.table("d.t").tags()] == [("x", 2)]
    with pytest.raises(InvalidInputError, match="no snapshot has a watermark at or after 3001"):
        lake.sql("CALL sys.create_tag_from_watermark('d.t', 'y', 3001)")
