"""CALL: each procedure that takes something away says with `dry_run` what it would do, and then does it."""

from __future__ import annotations

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
    "compact_manifest", "create_branch", "create_tag", "create_tag_from_timestamp", "release_batch", "rename_tag",
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
