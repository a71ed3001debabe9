"""`timestampAsOf` and `versionAsOf` were passed over: the newest state came instead of the one asked for."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakeidx
from lakeidx.errors import InvalidInputError
from lakeidx.spark.read_options import ReadOptions


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("wher", "did you mean 'where'"),
        ("colums", "did you mean 'columns'"),
        ("header", "does not have this option"),
        ("startingVersion", "incremental-between"),
        ("readChangeFeed", "incremental-between"),
        ("snapshot-id", "scan.snapshot-id"),
        ("as.of.instant", "scan.timestamp-millis"),
        ("branch", "the path of the branch"),
        ("filter-pushdown", "write where"),
        ("scan.snapshotid", "did you mean 'scan.snapshot-id'"),
        ("scan.creation-time-millis", "does not have this option"),
        ("incremental-to-auto-tag", "does not have this option"),
    ],
)
def test_refused_with_what_to_write(option: str, says: str) -> None:
    """In any case of letters."""
    for key in (option, option.lower(), option.upper()):
        with pytest.raises(InvalidInputError, match=says):
            ReadOptions.parse({"path": "/t", key: "1"})


def test_version_as_of_works(tmp_path: Path) -> None:
    """As scan.version: a snapshot's id or a tag; both at once must agree."""
    table = lakeidx.Table.create(
        f"{tmp_path}/d.db/t",
        {"fields": [{"name": "k", "type": "INT"}], "primaryKeys": ["k"], "options": {"bucket": "1"}},
    )
    table.upsert(pa.table({"k": [1]}))
    table.upsert(pa.table({"k": [2]}))
    state = ReadOptions.parse({"path": table.uri, "versionAsOf": "1"}).state(table.metadata)
    assert table.scan(snapshot=state["snapshot_id"]).to_arrow().num_rows == 1
    with pytest.raises(InvalidInputError, match="different values"):
        ReadOptions.parse({"path": "/t", "versionAsOf": "1", "scan.version": "2"})


def test_what_spark_adds_itself_is_taken() -> None:
    """Options of streams and of other settings choose no rows."""
    given = {"path": "/t", "checkpointLocation": "/c", "queryName": "q", "mergeSchema": "true"}
    assert ReadOptions.parse(given) == ReadOptions.parse({"path": "/t", "mergeSchema": "true"})
