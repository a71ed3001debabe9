"""Rows with their kinds: of ranges, of states, and as Paimon's system tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeidx
import lakeidx.duckdb
import lakeidx.polars
from lakeidx.api import Table
from lakeidx.api.system_table import SystemTable
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.tags import create_tag
from lakeidx.table.system.names import SYSTEM_TABLES
from lakeidx.tasks.runner import LocalRunner
from tests.kit.command_line import call, lines

FIELDS = [{"name": "k", "type": "INT"}, {"name": "v", "type": "STRING"}]


def make(folder: Path, **options: str) -> Table:
    spec = {"fields": FIELDS, "primaryKeys": ["k"], "options": {"bucket": "1", **options}}
    table = Table.create(f"{folder}/d.db/t", spec)
    table.upsert(pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"]}))
    create_tag(table.metadata, "first")
    table.upsert(pa.table({"k": [2, 3, 4], "v": ["B", "c", "d"], "_kind": ["+U", "-D", "+I"]}))
    return table


def rows(found: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(r.values()) for r in found.to_arrow().to_pylist()), key=str)


def test_a_scan_of_a_range_gives_rows_with_their_kinds(tmp_path: Path) -> None:
    table = make(tmp_path)
    delta = [(2, "B", "+U"), (3, "c", "-D"), (4, "d", "+I")]
    diff = [(2, "B", "+U"), (2, "b", "-U"), (3, "c", "-D"), (4, "d", "+I")]
    assert rows(table.scan(incremental=(1, 2), kinds=True)) == delta
    assert rows(table.scan(incremental=("first", None), kinds=True, mode="delta")) == delta
    assert rows(table.scan(incremental=("first", 2), kinds=True, mode="diff")) == diff
    assert rows(table.scan(incremental=("first", 2), kinds=True, mode="derived")) == diff
    assert rows(table.changes("first", 2, mode="diff")) == rows(table.diff("first", 2)) == diff
    # Without the kinds: what is new or changed.
    for mode in ("delta", "derived", "diff"):
        assert rows(table.scan(incremental=(1, 2), mode=mode)) == [(2, "B"), (4, "d")]
    assert table.scan(incremental=(0, 2), kinds=True, limit=4).to_arrow().num_rows == 4
    assert rows(table.scan(incremental=(1, 2), kinds=True, where="k > 3", columns=["v"])) == [("d", "+I")]
    with pytest.raises(InvalidInputError, match="kinds and mode need incremental"):
        table.scan(kinds=True)  # type: ignore[call-overload]
    with pytest.raises(InvalidInputError, match="cannot be combined with another state"):
        table.scan(incremental=(1, 2), snapshot=1)  # type: ignore[call-overload]


def test_the_changelog_of_a_producer(tmp_path: Path) -> None:
    table = make(tmp_path, **{"changelog-producer": "input"})
    assert rows(table.scan(incremental=(1, 2), kinds=True, mode="changelog")) == rows(
        table.scan(incremental=(1, 2), kinds=True)
    )
    assert rows(table.changes(1)) == [(2, "B", "+U"), (3, "c", "-D"), (4, "d", "+I")]


def test_the_system_tables(tmp_path: Path) -> None:
    table = make(tmp_path)
    audit, binlog = (SystemTable.open(f"{table.uri}${name}") for name in ("audit_log", "binlog"))
    assert rows(audit.scan()) == [("+I", 1, "a"), ("+I", 4, "d"), ("+U", 2, "B"), ("-D", 3, "c")]
    assert rows(audit.scan(snapshot=1, where="k < 2", columns=["rowkind", "v"])) == [("+I", "a")]
    assert rows(audit.scan(incremental=(1, 2))) == [("+I", 4, "d"), ("+U", 2, "B"), ("-D", 3, "c")]
    assert rows(binlog.scan(incremental=(1, 2), mode="derived")) == [
        ("+I", [4], ["d"]), ("+U", [2, 2], ["b", "B"]), ("-D", [3], ["c"]),
    ]  # fmt: skip
    with pytest.raises(InvalidInputError, match="system tables are read-only"):
        Table.open(f"{table.uri}$audit_log")
    with pytest.raises(InvalidInputError, match="not a system table"):
        SystemTable.open(table.uri)


def test_sequence_numbers_by_an_option(tmp_path: Path) -> None:
    """As Java 1.4.2 gives them; rows of updates in binlog, which it fails on, have the number of the row after."""
    spec = {
        "fields": [{"name": "k", "type": "INT"}, {"name": "v", "type": "STRING"}],
        "primaryKeys": ["k"],
        "options": {"bucket": "1", "changelog-producer": "lookup", "table-read.sequence-number.enabled": "true"},
    }
    table = Table.create(f"{tmp_path}/d.db/t", spec)
    schema = table.schema.arrow_schema.append(pa.field("_kind", pa.string()))
    first = [{"k": 1, "v": "a", "_kind": "+I"}, {"k": 2, "v": "b", "_kind": "+I"}]
    second = [{"k": 1, "v": "c", "_kind": "+U"}, {"k": 2, "v": "b", "_kind": "-D"}, {"k": 3, "v": "x", "_kind": "+I"}]
    for batch in (first, second):
        table.upsert(pa.Table.from_pylist(batch, schema=schema))
        run_compaction(table.metadata, LocalRunner(1), full=True)
    audit, binlog = (SystemTable.open(f"{table.uri}${name}") for name in ("audit_log", "binlog"))
    state = audit.scan(columns=["v"]).to_arrow()
    assert state.column_names == ["rowkind", "_SEQUENCE_NUMBER", "v"]
    assert state.to_pydict() == {"rowkind": ["+U", "+I"], "_SEQUENCE_NUMBER": [2, 4], "v": ["c", "x"]}
    told = [("-U", 0, "a"), ("+U", 2, "c"), ("-D", 1, "b"), ("+I", 4, "x")]
    for mode in ("changelog", "diff"):
        said = audit.scan(incremental=(2, 4), mode=mode).to_arrow().to_pylist()
        assert [(r["rowkind"], r["_SEQUENCE_NUMBER"], r["v"]) for r in said] == told
    packed = binlog.scan(incremental=(2, 4)).to_arrow().to_pylist()
    assert [(r["rowkind"], r["_SEQUENCE_NUMBER"], r["v"]) for r in packed] == [
        ("+U", 2, ["a", "c"]), ("-D", 1, ["b"]), ("+I", 4, ["x"]),
    ]  # fmt: skip


def test_a_table_without_keys_has_inserts_only(tmp_path: Path) -> None:
    table = Table.create(f"{tmp_path}/d.db/t", {"fields": FIELDS, "options": {"bucket": "-1"}})
    table.upsert(pa.table({"k": [1, 1], "v": ["a", "a"]}))
    assert rows(table.changes(0)) == [(1, "a", "+I")] * 2
    assert rows(SystemTable.open(f"{table.uri}$audit_log").scan()) == [("+I", 1, "a")] * 2


def test_the_command_line(tmp_path: Path) -> None:
    table = make(tmp_path)
    assert lines("scan", table.uri, "--incremental", "1..", "--kinds", "--where", "k = 3") == [
        {"k": 3, "v": "c", "_rowkind": "-D"}
    ]
    assert lines("scan", table.uri, "--incremental", "first..2", "--mode", "diff", "--limit", "1") == [
        {"k": 2, "v": "B"}
    ]
    assert lines("scan", f"{table.uri}$binlog", "--incremental", "1..2", "--mode", "diff", "--where", "k = 2") == [
        {"rowkind": "+U", "k": [2, 2], "v": ["b", "B"]}
    ]
    output = tmp_path / "rows.parquet"
    assert lines("scan", f"{table.uri}$audit_log", "-o", str(output)) == []
    assert pq.read_table(output).column_names == ["rowkind", "k", "v"]
    assert call("scan", table.uri, "--incremental", "1..2", "--explain", code=2).stderr.count("\n") == 1


def expired(folder: Path, **options: str) -> Table:
    """Snapshots 1 to 5, of which 5 is left."""
    table = make(folder, **options)
    for k in (5, 6, 7):
        table.upsert(pa.table({"k": [k], "v": ["x"]}))
    for _ in range(2):
        # What is left of a snapshot as a changelog expires the next time.
        expire_table(table.metadata, table.schema, now_ms=1 << 60)
    return table


def test_commits_that_have_expired_are_named(tmp_path: Path) -> None:
    once = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    plain = expired(tmp_path / "plain", **once)
    assert rows(plain.changes(4)) == [(7, "x", "+I")]
    with pytest.raises(NotFoundError, match="the commit of snapshot 4 has expired; those after 4 are left"):
        plain.changes(3)
    # A tag keeps the state it names: it can be compared still, and that of a snapshot that has gone cannot.
    assert rows(plain.diff("first", 5, columns=["k"])) == [
        (2, "+U"), (2, "-U"), (3, "-D"), (4, "+I"), (5, "+I"), (6, "+I"), (7, "+I"),
    ]  # fmt: skip
    with pytest.raises(NotFoundError, match="snapshot 2 does not exist; snapshots 5 to 5 exist"):
        plain.diff(2, 5)
    kept = {**once, "changelog.num-retained.min": "3", "changelog.num-retained.max": "3"}
    for producer in ("none", "input"):
        table = expired(tmp_path / producer, **kept, **{"changelog-producer": producer})
        assert rows(table.changes(2)) == [(5, "x", "+I"), (6, "x", "+I"), (7, "x", "+I")]
        with pytest.raises(NotFoundError, match="of snapshot 2 has expired; those after 2 are left"):
            table.changes(1)
    assert call("changes", plain.uri, "1..", code=2).stderr.count("\n") == 1


def test_tables_of_metadata_are_filtered_projected_and_travel(tmp_path: Path) -> None:
    table = make(tmp_path)
    files = table.system("files")
    assert files.to_arrow().num_rows == len(table.files())
    assert pa.table(files).schema == files.arrow_schema
    found = files.scan(where="level = 0 AND record_count > 0", columns=["file_path"], limit=1).to_arrow()
    assert found.column_names == ["file_path"]
    assert found.num_rows == 1
    assert files.scan(snapshot=1).to_arrow().num_rows < files.to_arrow().num_rows
    assert [r["snapshot_id"] for r in SystemTable.open(f"{table.uri}$SNAPSHOTS").list()] == table.snapshots().column(
        "id"
    )
    assert table.system("ro").to_arrow().num_rows == 0
    table.compact(full=True)
    assert sorted(map(str, table.system("ro").to_arrow().to_pylist())) == sorted(
        map(str, table.scan().to_arrow().to_pylist())
    )
    with pytest.raises(InvalidInputError, match="no system table 'fils'; did you mean 'files'"):
        table.system("fils")
    with pytest.raises(InvalidInputError, match="snapshots shows what is there now"):
        table.system("snapshots").scan(snapshot=1)
    with pytest.raises(InvalidInputError, match="no column 'size'"):
        files.scan(columns=["size"])


def test_tables_of_a_warehouse_are_views_of_duckdb(tmp_path: Path) -> None:
    warehouse = lakeidx.Warehouse(tmp_path)
    connection = lakeidx.duckdb.attach(warehouse)
    # Made after it was attached: each query asks anew.
    make(tmp_path)
    for name in ("tables", "partitions", "all_table_options", "catalog_options"):
        found = connection.sql(f"SELECT * FROM sys.{name}").to_arrow_table()
        wanted = warehouse.system(name).to_arrow()
        assert found.column_names == wanted.column_names
        assert found.to_pylist() == wanted.to_pylist()
    assert connection.sql("SELECT table_name FROM sys.tables WHERE primary_key").fetchall() == [("t",)]
    assert connection.sql("SELECT count(*) FROM sys.all_table_options WHERE key = 'bucket'").fetchall() == [(1,)]
    with pytest.raises(InvalidInputError, match=r"no system table sys\.tabels; did you mean 'tables'"):
        warehouse.system("tabels")


@pytest.mark.parametrize("name", [n for n in SYSTEM_TABLES if n != "row_tracking"])
def test_every_door_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    warehouse = lakeidx.Warehouse(tmp_path)
    spec = {"fields": [{"name": "id", "type": "INT"}, {"name": "v", "type": "INT"}], "primaryKeys": ["id"]}
    table = warehouse.create("lake.t", {**spec, "options": {"bucket": "2"}})
    table.upsert([{"id": i, "v": i} for i in range(5)])
    table.create_tag("one")
    table.compact(full=True)
    wanted, query = table.system(name).to_arrow(), cast(Any, warehouse.sql)
    registered = duckdb.connect()
    lakeidx.duckdb.register(registered, "registered", f"{table.uri}${name}")
    doors = {
        "register": registered.sql("SELECT * FROM registered").to_arrow_table(),
        "attach": lakeidx.duckdb.attach(warehouse).sql(f'SELECT * FROM lake."t${name}"').to_arrow_table(),
        "polars": lakeidx.polars.scan(f"{table.uri}${name}").collect().to_arrow(),
        "sql": query(f"SELECT * FROM lake.`t${name}`").to_arrow(),
        "bare sql": query(f"SELECT * FROM lake.t${name}").to_arrow(),
    }
    for door, found in doors.items():
        assert found.column_names == wanted.column_names, door
        assert found.cast(wanted.schema).to_pylist() == wanted.to_pylist(), door


def test_columns_and_rows_of_a_stream_are_of_one_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = make(tmp_path).system("audit_log")
    expected = system.scan().to_arrow()
    monkeypatch.setattr(SystemTable, "arrow_schema", property(lambda _: pytest.fail("asks for the columns of another")))
    assert system.to_reader().read_all() == expected
    assert pa.table(system) == expected
    assert system.to_arrow() == expected
