"""A table with `scan.fallback-branch`: partitions it lacks are read from that branch, by scans, lookups, queries and datasets."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import lakeidx
from lakeidx.api.sql.query import QueryResult
from lakeidx.duckdb import attach
from lakeidx.errors import InvalidInputError, NotFoundError, UnsupportedError

FIELDS = [{"name": n, "type": t} for n, t in (("dt", "STRING"), ("k", "INT"), ("v", "STRING"))]
#: What the table shows: its own partition 1, and of the branch only what it lacks.
SEEN = [("1", 1, "main"), ("1", 3, "main"), ("2", 1, "side"), ("2", 2, "side")]


def rows(*given: tuple[str, int, str]) -> list[dict[str, Any]]:
    return [dict(zip(("dt", "k", "v"), r, strict=True)) for r in given]


def read(found: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for r in found.to_pylist())


@pytest.fixture(params=[{"bucket": "2"}, {"bucket": "-1"}, {"bucket": "1", "deletion-vectors.enabled": "true"}])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> lakeidx.Table:
    spec = {"fields": FIELDS, "partitionKeys": ["dt"], "primaryKeys": ["dt", "k"], "options": request.param}
    made = lakeidx.Table.create(tmp_path / "d.db" / "t", spec)
    made.create_branch("side")
    # Columns that the branch calls otherwise are those of the same field.
    made.branch("side").alter(rename={"v": "w"})
    side = [{"dt": d, "k": k, "w": "side"} for d, k in (("1", 1), ("1", 2), ("2", 1), ("2", 2))]
    made.branch("side").upsert(side)
    made.upsert(rows(("1", 1, "main"), ("1", 3, "main")))
    made.compact(full=True)
    made.branch("side").compact(full=True)
    made.alter(set={"scan.fallback-branch": "side"})
    return made


def test_every_door_reads_it(table: lakeidx.Table, tmp_path: Path) -> None:
    assert read(table.scan().to_arrow()) == SEEN
    assert read(table.scan(where="dt = '2' AND v = 'side'", columns=["k"]).to_arrow()) == [(1,), (2,)]
    # The table has the partition, although none of its rows is selected.
    assert read(table.scan(where="dt = '1' AND k = 2").to_arrow()) == []
    connection = attach(tmp_path)
    assert sorted(connection.execute("SELECT * FROM d.t WHERE k < 9").fetchall()) == SEEN
    queried = lakeidx.Warehouse(tmp_path).sql("SELECT * FROM d.t")
    assert isinstance(queried, QueryResult)
    assert read(queried.to_arrow()) == SEEN
    assert read(table.system("audit_log").scan().to_arrow()) == [("+I", *r) for r in SEEN]
    assert read(table.system("ro").scan().to_arrow()) == SEEN
    keys = [{"dt": d, "k": k} for d, k in (("1", 1), ("1", 2), ("2", 2), ("3", 1))]
    found = table.lookup(keys).to_pylist()
    assert [(r["_FOUND"], r["v"]) for r in found] == [(True, "main"), (False, None), (True, "side"), (False, None)]


def test_its_partitions_are_listed(table: lakeidx.Table, tmp_path: Path) -> None:
    assert [r["partition"] for r in table.system("partitions").to_arrow().to_pylist()] == ["dt=1", "dt=2"]
    listed = lakeidx.Warehouse(tmp_path).system("partitions").to_arrow().to_pylist()
    assert sorted((r["partition_name"], r["record_count"]) for r in listed) == [("dt=1", 2), ("dt=2", 2)]
    # The branch has no tag of this name.
    table.create_tag("here")
    assert [r["partition"] for r in table.system("partitions").scan(tag="here").to_arrow().to_pylist()] == ["dt=1"]
    assert [p["dt"] for p in table.partitions()] == ["1"]


def test_what_writes_is_of_the_branch_alone(table: lakeidx.Table) -> None:
    assert table.delete(where="dt = '2'") is None
    assert table.delete([{"dt": "2", "k": 1}]) is None
    assert [r["k"] for r in table.changes(0).to_arrow().to_pylist()] == [1, 3]
    table.upsert(rows(("2", 9, "main")))
    table.compact(full=True)
    assert read(table.scan().to_arrow()) == [*SEEN[:2], ("2", 9, "main")]
    assert all(r.passed for r in table.verify().results)
    assert read(table.branch("side").scan(where="dt = '2'").to_arrow()) == SEEN[2:]


def test_other_columns_are_refused(table: lakeidx.Table, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(NotFoundError, match="branch 'none' does not exist; branches: side"):
        table.alter(set={"scan.fallback-branch": "none"})
    with pytest.raises(InvalidInputError, match=r"reads branch 'side' by its option 'scan.fallback-branch'"):
        table.delete_branch("side")
    table.alter(add={"more": "INT"})
    with pytest.raises(UnsupportedError, match=r"branch 'side' .* has other columns"):
        table.scan()
    table.branch("side").alter(add={"more": "INT"})
    assert table.scan().to_arrow().num_rows == len(SEEN)
    # Java lets a table be made with the option before there is the branch, and reads it alone.
    path = table.paths.schema_path(table.schema.id)
    table.store.put(path, table.store.get(path).replace(b'"side"', b'"gone"'))
    with caplog.at_level(logging.WARNING):
        assert lakeidx.Table.open(table.uri).scan().to_arrow().num_rows == 2
    assert "scan.fallback-branch is without effect: branch 'gone' does not exist" in caplog.text
