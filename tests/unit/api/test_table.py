"""The whole product from Python: verbs of upkeep, deletes, partial rows, warehouses, and results that read well."""

from __future__ import annotations

import datetime as dt
import json
import logging
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeidx
from lakeidx import results
from lakeidx.api.reports import VerifyResult
from lakeidx.quality.result import RuleResult, Severity
from tests.kit.command_line import call

SPEC: dict[str, Any] = {
    "fields": [
        {"name": "id", "type": "BIGINT"},
        {"name": "name", "type": "STRING"},
        {"name": "n", "type": "INT"},
    ],
    "primaryKeys": ["id"],
    "options": {"bucket": "-1"},
}


def make(folder: Path, **options: str) -> lakeidx.Table:
    return lakeidx.Warehouse(f"{folder}/wh").create("d.t", {**SPEC, "options": {**SPEC["options"], **options}})


def rows(*ids: int, n: int = 0) -> pa.Table:
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "name": [f"n{i}" for i in ids], "n": pa.array([n] * len(ids), pa.int32())}
    )


def ids(table: lakeidx.Table, **state: Any) -> list[int]:
    return sorted(table.scan(**state).to_arrow().column("id").to_pylist())


def test_a_table_is_compacted_tagged_and_expired_from_python(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "lakeidx")
    table = make(tmp_path)
    for i in range(3):
        assert table.upsert(rows(i, i + 1)).snapshots == (i + 1,)
    assert "BatchResult(batch=batch-" in caplog.text
    assert table.create_tag("early", snapshot=1).snapshot == 1
    assert table.tags().column("tag") == ["early"]
    assert "nothing to compact" in str(table.compact())
    compacted = table.compact(full=True)
    assert compacted.snapshot_ids == (4,)
    assert compacted.rows_out == 4
    assert [s["id"] for s in table.snapshots()] == [1, 2, 3, 4]
    assert sum(table.buckets().column("rows")) == sum(table.files().column("rows")) == 4
    assert table.index_files().column("type") == ["HASH"]
    kept = table.expire()
    plan = table.expire(dry_run=True).metrics
    assert 0 < plan["seconds"] < 60
    assert plan["memory"] >= kept.metrics["memory"] > 10 << 20
    assert "no snapshot expires: kept are at least 10 snapshots, and those of the last 1 h" in kept.note()
    gone = table.expire(retain_min=1, retain_max=1, retain_time="1 ms")
    assert gone.snapshots == (1, 2, 3)
    assert ids(table, tag="early") == [0, 1]
    assert table.rollback(tag="early").snapshot == 1
    assert ids(table) == [0, 1]
    assert table.orphans(older_than="0 s").files == ()
    assert table.build_lookup_store().built == 1
    verdict = table.verify()
    assert verdict.passed, str(verdict)
    assert {r.name for r in verdict.results} >= {"files_readable", "primary_key_once", "lookup_store_agrees"}
    for result in (compacted, kept, gone, verdict, table, table.files(), table.schema):
        assert len(repr(result)) > 10
    for shown in (compacted, verdict, table, table.files()):
        assert "<table>" in shown._repr_html_()


def test_partial_rows_say_what_they_do(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert(rows(1))
    with pytest.raises(lakeidx.InvalidInputError, match="lack the columns n, and null would overwrite"):
        table.upsert(pa.table({"id": [1], "name": ["new"]}))
    table.upsert(pa.table({"id": [1], "name": ["new"]}), missing="null")
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "name": "new", "n": None}]
    file = tmp_path / "a.csv"
    file.write_text("id,name\n1,newer\n")
    assert "--missing null" in call("upsert", table.uri, file, code=2).stderr
    call("upsert", table.uri, file, "--missing", "null")
    (tmp_path / "b.jsonl").write_text('{"id": 2, "name": "x"}\n{"id": 3, "n": 3}\n')
    call("upsert", table.uri, tmp_path / "b.jsonl", "--missing", "null")
    table.upsert(pa.table({"id": [3], "_kind": ["-D"]}))
    assert ids(table) == [1, 2]


def test_partial_rows_keep_old_values_where_the_engine_can(tmp_path: Path) -> None:
    table = make(tmp_path, **{"merge-engine": "partial-update"})
    table.upsert(rows(1, n=5))
    table.upsert(pa.table({"id": [1], "name": ["new"]}))
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "name": "new", "n": 5}]


def test_a_missing_column_with_a_default_has_it(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.alter(defaults={"n": "7"})
    table.upsert(pa.table({"id": [1], "name": ["a"]}))
    assert table.scan().to_arrow().column("n").to_pylist() == [7]


def test_a_warehouse_creates_lists_and_drops_tables(tmp_path: Path) -> None:
    warehouse = lakeidx.Warehouse(f"{tmp_path}/wh")
    assert warehouse.tables() == []
    warehouse.create("shop.orders", SPEC).upsert(rows(1, 2))
    warehouse.create("shop.items", SPEC)
    assert warehouse.tables() == ["shop.items", "shop.orders"]
    assert warehouse.list().column("rows") == [0, 2]
    assert "shop.orders" in warehouse
    with pytest.raises(lakeidx.NotFoundError, match=r"did you mean 'shop\.orders'"):
        warehouse.table("shop.order")
    listed = [json.loads(line) for line in call("table", "list", warehouse.uri, "--json").stdout.splitlines()]
    assert [r["table"] for r in listed] == ["shop.items", "shop.orders"]
    orders = warehouse["shop.orders"].uri
    assert "--yes does it (delete the table for good)" in call("table", "drop", orders, code=2).stderr
    call("table", "drop", orders, "--yes")
    assert warehouse.drop("shop.items").files == 1
    assert warehouse.tables() == []
    assert not any(p.is_file() for p in tmp_path.rglob("*"))


def test_times_are_iso(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert(rows(1))
    assert ids(table, timestamp="2100-01-01") == [1]
    assert (
        call("scan", table.uri, "--timestamp", "2100-01-01T00:00:00+02:00", "--columns", "id").stdout == '{"id": 1}\n'
    )
    with pytest.raises(lakeidx.NotFoundError, match="no snapshot at or before"):
        table.scan(timestamp="2000-01-01")
    with pytest.raises(lakeidx.InvalidInputError, match="is not a time"):
        table.scan(timestamp="yesterday")


def test_lists_show_dates_times_and_numbers_as_people_write_them(tmp_path: Path) -> None:
    fields = [
        ("day", "DATE NOT NULL"),
        ("at", "TIMESTAMP(3) NOT NULL"),
        ("price", "DECIMAL(6, 2) NOT NULL"),
        ("n", "INT NOT NULL"),
        ("f", "FLOAT NOT NULL"),
        ("z", "TIMESTAMP_LTZ(3) NOT NULL"),
    ]
    spec = {
        "fields": [{"name": n, "type": t} for n, t in fields],
        "primaryKeys": [n for n, _ in fields],
        "partitionKeys": ["day"],
        "options": {"bucket": "1"},
    }
    table = lakeidx.Table.create(tmp_path / "d.db" / "t", spec)
    moment, price = dt.datetime(2026, 11, 1, 8, 30), Decimal("9.50")
    instant = dt.datetime(2026, 11, 1, 5, 30, tzinfo=dt.timezone(dt.timedelta(hours=-7)))
    table.upsert([{"day": dt.date(2026, 11, 1), "at": moment, "price": price, "n": 7, "f": 0.1, "z": instant}])
    (file,) = table.files()
    assert file["day"] == table.buckets()[0]["day"] == "2026-11-01"
    assert file["min_key"] == ["2026-11-01 08:30:00.000", "9.50", 7, 0.1, "2026-11-01 12:30:00.000Z"]


def test_runners_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(lakeidx.InvalidInputError, match="runner must be"):
        make(tmp_path).compact(runner="sparkle")  # type: ignore[arg-type]


def test_sentences_of_a_listing_take_several_lines_and_names_one() -> None:
    sentence = "Every page of every data file could be decoded."
    shown = results.Listing([{"rule": "files_readable", "what holds": sentence}])._repr_html_()
    assert f"<td style='white-space:normal'>{sentence}</td>" in shown
    assert "<td>files_readable</td>" in shown


def test_what_is_empty_is_left_out_of_a_result() -> None:
    @dataclass(frozen=True, repr=False)
    class Cleaned(results.Result):
        staging: dict[str, object]

    assert repr(Cleaned({"finished": 0, "abandoned": [], "files": 2})) == "Cleaned(staging=finished 0, files 2)"


def test_a_failed_rule_shows_what_it_found_in_the_place_of_what_should_hold() -> None:
    rules = [
        RuleResult(
            name=name, passed=passed, severity=Severity.ERROR, metrics={}, sample=({"file": "f1"},), description="holds"
        )
        for name, passed in (("sound", True), ("broken", False))
    ]
    shown = VerifyResult("lake/d.db/t", tuple(rules))._repr_html_()
    assert shown.count("<td>holds</td>") == 2, "the verdict and the description of the rule that holds"
    assert "file f1" in shown
