"""Feeds of many tables: messages as the tools publish them, choice and names of tables, keys, refusals, a run made again."""

from __future__ import annotations

import json
import os
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import lakeidx
from lakeidx.api.feeds import FeedError
from lakeidx.errors import InvalidInputError, RejectedRowsError
from lakeidx.landing import dms_files
from lakeidx.landing.cdc import feed_split
from lakeidx.landing.feed_options import FeedOptions
from lakeidx.landing.text import compressed
from lakeidx.landing.types import LandingOptions
from tests.kit.command_line import answer, call

Message = dict[str, Any]


def canal(table: str, *rows: Message, types: Message | None = None, word: str = "INSERT", **more: Any) -> Message:
    declared = types or {"id": "int", "name": "varchar(20)"}
    return {"data": list(rows), "database": "shop", "es": 1, "id": 1, "isDdl": False, "mysqlType": declared, "old": None,
            "pkNames": ["id"], "sql": "", "sqlType": {"id": 4}, "table": table, "ts": 2, "type": word, **more}  # fmt: skip


@pytest.fixture
def feed(tmp_path: Path) -> Any:
    """Write messages as a file, and bring it into a database."""

    def run(
        messages: list[Any], form: str, options: FeedOptions | None = None, name: str = "f.json", **how: Any
    ) -> Any:
        text = "".join(f"{m if isinstance(m, str) else json.dumps(m)}\n" for m in messages)
        if not (tmp_path / name).exists() or (tmp_path / name).read_text(encoding="utf-8") != text:
            (tmp_path / name).write_text(text, encoding="utf-8")
        landing = LandingOptions(form, **how.pop("landing", {}))
        return run.warehouse.sync_database("ods", [tmp_path / name], landing, options, **how)[0]  # type: ignore[attr-defined]

    run.warehouse = lakeidx.Warehouse(tmp_path / "lake")  # type: ignore[attr-defined]
    return run


def rows(warehouse: lakeidx.Warehouse, table: str) -> list[Message]:
    found = warehouse.table(f"ods.{table}").scan().to_arrow().to_pylist()
    return sorted(found, key=lambda r: str(r["id"]))


def types(warehouse: lakeidx.Warehouse, table: str) -> dict[str, str]:
    return {f.name: str(f.type) for f in warehouse.table(f"ods.{table}").schema.fields}


def envelope(table: str, fields: list[Message], before: Any, after: Any, op: str, **source: Any) -> Message:
    sides = [{"type": "struct", "fields": fields, "optional": True, "field": s} for s in ("before", "after")]
    schema = {"type": "struct", "fields": [*sides, {"type": "string", "field": "op"}], "name": f"{table}.Envelope"}
    return {
        "schema": schema,
        "payload": {"before": before, "after": after, "op": op, "source": {**source, "table": table}},
    }


INT = {"type": "int32", "optional": False, "field": "id"}
POSTGRES = {"connector": "postgresql", "db": "shop", "schema": "public", "ts_ms": 1, "lsn": 24023128}
ORACLE = {"connector": "oracle", "db": "ORCLCDB", "schema": "DEBEZIUM", "ts_ms": 1, "scn": "2122185"}
PRICE = {"type": "bytes", "optional": True, "name": "org.apache.kafka.connect.data.Decimal", "version": 1,
         "parameters": {"scale": "2", "connect.decimal.precision": "10"}, "field": "price"}  # fmt: skip
DAY = {"type": "int32", "optional": True, "name": "io.debezium.time.Date", "field": "day"}


def test_debezium_postgres_with_schema(feed: Any) -> None:
    messages = [
        envelope("customers", [INT, {"type": "string", "optional": True, "field": "email"}], None,
                 {"id": 1, "email": "a@b"}, "r", **POSTGRES),
        envelope("orders", [INT, PRICE, DAY], None, {"id": 7, "price": "A+g=", "day": 19000}, "c", **POSTGRES),
        envelope("customers", [INT, {"type": "string", "optional": True, "field": "email"}], {"id": 1, "email": "a@b"},
                 None, "d", **POSTGRES),
        {"schema": None, "payload": None}, "null",
        {"status": "BEGIN", "id": "571", "event_count": None, "data_collections": None},
    ]  # fmt: skip
    result = feed(messages, "debezium", FeedOptions(primary_keys={"*": ("id",)}))
    assert rows(feed.warehouse, "customers") == []
    assert [(r["id"], r["price"], str(r["day"])) for r in rows(feed.warehouse, "orders")] == [
        (7, Decimal("10.00"), "2022-01-08")
    ]
    assert types(feed.warehouse, "orders") == {"id": "INT NOT NULL", "price": "DECIMAL(10, 2)", "day": "DATE"}
    assert result.skipped == {"tombstones": 2, "transaction marks": 1}


def test_debezium_without_schema_gets_its_types_from_schema_changes(feed: Any) -> None:
    mysql = {"connector": "mysql", "db": "inventory", "ts_ms": 1, "pos": 4}
    column = {
        "jdbcType": 4,
        "charsetName": None,
        "position": 1,
        "optional": False,
        "autoIncremented": True,
        "generated": False,
    }
    columns = [
        {**column, "name": "id", "typeName": "INT", "typeExpression": "INT", "length": None, "scale": None},
        {**column, "name": "price", "typeName": "DECIMAL", "typeExpression": "DECIMAL", "length": 10, "scale": 2},
        {**column, "name": "at", "typeName": "DATETIME", "typeExpression": "DATETIME", "length": 3, "scale": None},
    ]
    change = {
        "type": "CREATE",
        "id": '"inventory"."orders"',
        "table": {"primaryKeyColumnNames": ["id"], "columns": columns},
    }
    messages = [
        {
            "source": {**mysql, "table": "orders"},
            "databaseName": "inventory",
            "ddl": "CREATE TABLE …",
            "tableChanges": [change],
        },
        {
            "before": None,
            "after": {"id": 1, "price": "9.50", "at": 1700000000123},
            "op": "c",
            "source": {**mysql, "table": "orders"},
        },
        {"before": None, "after": {"k": 5, "n": 1.5}, "op": "c", "source": {**mysql, "table": "plain"}},
    ]
    feed(messages, "debezium", FeedOptions(primary_keys={"plain": ("k",)}))
    assert types(feed.warehouse, "orders") == {"id": "INT NOT NULL", "price": "DECIMAL(10, 2)", "at": "TIMESTAMP(3)"}
    assert [str(r["at"]) for r in rows(feed.warehouse, "orders")] == ["2023-11-14 22:13:20.123000"]
    assert types(feed.warehouse, "plain") == {"k": "BIGINT NOT NULL", "n": "DOUBLE"}


def test_debezium_oracle(feed: Any) -> None:
    number = {"type": "double", "optional": True, "field": "WEIGHT"}
    key = {**INT, "field": "ID", "type": "int64"}
    oracle = [envelope("PRODUCTS", [key, number], None, {"ID": 1, "WEIGHT": 3.5}, "r", **ORACLE)]
    feed(oracle, "debezium", FeedOptions(primary_keys={"PRODUCTS": ("ID",)}, including_tables=r"DEBEZIUM\..*"))
    assert types(feed.warehouse, "PRODUCTS") == {"ID": "BIGINT NOT NULL", "WEIGHT": "DOUBLE"}


def test_maxwell_with_ddl_and_bootstrap(feed: Any) -> None:
    definition = {"database": "shop", "charset": "utf8mb4", "table": "e", "primary-key": ["id"], "columns": [
        {"type": "bigint", "name": "id", "signed": False}, {"type": "varchar", "name": "m", "charset": "utf8mb4"},
        {"type": "decimal", "name": "price"}, {"type": "datetime", "name": "at", "column-length": 3}]}  # fmt: skip
    row = {"id": 1, "m": "x", "price": 4.25, "at": "2016-10-21 05:33:37.523"}
    messages = [
        {"type": "database-create", "database": "shop", "charset": "utf8mb4", "ts": 1, "sql": "create database shop"},
        {"type": "table-create", "database": "shop", "table": "e", "def": definition, "ts": 1, "sql": "create table e …"},
        {"database": "shop", "table": "e", "type": "bootstrap-start", "ts": 1, "data": {}},
        {"database": "shop", "table": "e", "type": "bootstrap-insert", "ts": 1, "data": row},
        {"database": "shop", "table": "e", "type": "bootstrap-complete", "ts": 1, "data": {}},
        {"database": "shop", "table": "e", "type": "update", "ts": 2, "xid": 23396, "xoffset": 0, "commit": True,
         "data": {**row, "m": "y"}, "old": {"m": "x"}},
        {"database": "shop", "table": "k", "type": "insert", "ts": 2, "primary_key_columns": ["id"], "data": {"id": "a", "n": 1}},
    ]  # fmt: skip
    result = feed(messages, "maxwell", FeedOptions(types={"e.price": "DECIMAL(10, 2)"}))
    assert types(feed.warehouse, "e") == {
        "id": "DECIMAL(20, 0) NOT NULL", "m": "STRING", "at": "TIMESTAMP(3)", "price": "DECIMAL(10, 2)"}  # fmt: skip
    assert [(r["m"], r["price"]) for r in rows(feed.warehouse, "e")] == [("y", Decimal("4.25"))]
    assert types(feed.warehouse, "k") == {"id": "STRING NOT NULL", "n": "BIGINT"}
    assert result.skipped == {"ddl": 2, "bootstrap marks": 2}


def test_dms_with_control_rows(feed: Any) -> None:
    def about(table: str, operation: str, kind: str = "data") -> Message:
        return {"timestamp": "2021-02-18T23:09:09.509179Z", "record-type": kind, "operation": operation,
                "partition-key-type": "schema-table", "schema-name": "shop", "table-name": table}  # fmt: skip

    definition = {"columns": {"id": {"type": "INT4", "nullable": False}, "price": {"type": "NUMERIC", "precision": 10, "scale": 2},
                              "at": {"type": "DATETIME"}}, "primary-key": ["id"]}  # fmt: skip
    messages = [
        {"metadata": {**about("awsdms_apply_exceptions", "create-table", "control"), "schema-name": ""}},
        {"metadata": about("orders", "create-table", "control"), "control": {"table-def": definition}},
        {"data": {"id": 1, "price": 9.5, "at": "2020-01-15T22:45:17Z"}, "metadata": about("orders", "load")},
        {"data": {"id": 3}, "metadata": about("tags", "insert")},
        {"metadata": about("orders", "truncate-table", "control")},
    ]
    result = feed(messages, "dms-json", FeedOptions(primary_keys={"tags": ("id",)}))
    assert types(feed.warehouse, "orders") == {"id": "INT NOT NULL", "price": "DECIMAL(10, 2)", "at": "TIMESTAMP(6)"}
    assert [(r["price"], str(r["at"])) for r in rows(feed.warehouse, "orders")] == [
        (Decimal("9.50"), "2020-01-15 22:45:17")
    ]
    assert (result.tables["orders"].rejected, result.as_dict()["rejected"]) == (1, 1)  # the truncate
    assert rows(feed.warehouse, "tags") == [{"id": 3}]


def test_tables_are_chosen_and_named(feed: Any) -> None:
    messages = [canal(t, {"id": "1", "name": t}) for t in ("orders", "order_lines", "audit", "secret")]
    options = FeedOptions(r"order.*|shop\.(audit|secret)", "secret", "ods_", "_raw", {"shop.audit": "trail"})
    result = feed(messages, "canal", options)
    assert [*result.tables] == ["ods_orders_raw", "ods_order_lines_raw", "trail"]
    assert result.skipped == {"messages of other tables": 1}


def test_a_table_that_is_included_later_gets_the_file_and_others_do_not_again(feed: Any) -> None:
    messages = [canal("a", {"id": "1", "name": "x"}), canal("b", {"id": "1", "name": "y"})]
    feed(messages, "canal", FeedOptions("a"))
    result = feed(messages, "canal")
    assert result.tables["a"] is None
    assert result.created == ("b",)
    assert len(feed.warehouse.table("ods.a").snapshots()) == 1


def test_a_file_is_read_once_for_all_tables_and_not_again(feed: Any, monkeypatch: Any) -> None:
    opened: list[str] = []
    whole = compressed.open_plain

    def counted(store: Any, path: str) -> Any:
        opened.append(path)
        return whole(store, path)

    monkeypatch.setattr(feed_split, "open_plain", counted)
    messages = [canal(f"t{n}", {"id": "1", "name": "x"}) for n in range(5)]
    feed(messages, "canal")
    feed(messages, "canal")
    assert len(opened) == 1


def test_what_is_kept_of_a_feed_file_goes_after_a_week(feed: Any, tmp_path: Path) -> None:
    feed([canal("a", {"id": "1", "name": "x"}), {"data": []}], "canal", name="1.json", max_rejected=1)
    kept = tmp_path / "lake/_lakeidx/ods/_feeds"
    (first,) = [f for f in kept.iterdir() if f.name != "_tables"]
    for old_days in (6, 8):
        for file in first.rglob("*"):
            os.utime(file, (time.time() - old_days * 86_400,) * 2)
        feed([canal("a", {"id": "2", "name": "x"})], "canal", name=f"{old_days}.json")
        assert (first / "split.json").exists() == (old_days == 6)
        assert any(f.is_file() for f in first.rglob("*")) == (old_days == 6)
    assert (kept / "_tables" / "a").exists()
    feed([canal("a", {"id": "1", "name": "x"}), {"data": []}], "canal", name="1.json", max_rejected=1)
    assert len(rows(feed.warehouse, "a")) == 2


def test_two_tables_of_the_source_never_go_into_one(feed: Any) -> None:
    messages = [canal("a", {"id": "1", "name": "x"}), {**canal("a", {"id": "1", "name": "y"}), "database": "old"}]
    with pytest.raises(InvalidInputError, match=r"(old|shop)\.a and (old|shop)\.a of the source"):
        feed(messages, "canal")
    feed(messages[:1], "canal", name="1.json")
    with pytest.raises(FeedError, match="table_mapping"):
        feed(messages[1:], "canal", name="2.json")
    assert rows(feed.warehouse, "a") == [{"id": 1, "name": "x"}]


def test_a_table_without_a_key_is_named_and_the_others_get_their_rows(feed: Any) -> None:
    messages = [canal("a", {"id": "1", "name": "x"}, pkNames=None), canal("b", {"id": "1", "name": "y"})]
    with pytest.raises(
        FeedError, match=r"1 of 2 tables .* a: the messages of shop\.a do not tell its primary key: give"
    ):
        feed(messages, "canal")
    assert rows(feed.warehouse, "b") == [{"id": 1, "name": "y"}]
    result = feed(messages, "canal", FeedOptions(primary_keys={"a": ("id",)}))
    assert result.created == ("a",)
    assert result.tables["b"] is None


@pytest.mark.parametrize(("policy", "wanted"), [("refuse", None), ("add", "INT"), ("widen", "BIGINT")])
def test_schema_changes_follow_the_policy(feed: Any, policy: str, wanted: str | None) -> None:
    options = FeedOptions(schema_changes=policy)
    feed(
        [canal("a", {"id": "1", "name": "x", "n": "1"}, types={"id": "int", "name": "text", "n": "int"})],
        "canal",
        options,
        "1.json",
    )
    later = [
        canal(
            "a",
            {"id": "2", "name": "x", "n": "2", "m": "1"},
            types={"id": "int", "name": "text", "n": "bigint", "m": "int"},
        )
    ]
    if wanted is None:
        with pytest.raises(FeedError, match="columns the table does not have: m INT"):
            feed(later, "canal", options, "2.json")
    else:
        feed(later, "canal", options, "2.json")
        assert types(feed.warehouse, "a")["n"] == wanted
        assert types(feed.warehouse, "a")["m"] == "INT"


def test_lines_of_no_table_are_rejected_for_the_file(feed: Any) -> None:
    messages = [canal("a", {"id": "1", "name": "x"}), "not json", {**canal("", {"id": "1"}), "database": ""},
                canal("a", {"id": "x", "name": "y"})]  # fmt: skip
    with pytest.raises(
        RejectedRowsError, match="2 lines of the feed are of no table and the feed is strict; first: line 2"
    ):
        feed(messages, "canal", strict=True)
    assert feed.warehouse.tables() == []
    result = feed(messages, "canal")
    assert (result.rejected.rows, result.as_dict()["rejected"]) == (2, 3)
    assert [(r["line"], r["reason"].split(":")[0]) for r in result.rejected.first] == [
        (2, "not JSON"), (3, "the message does not say of which table it is")]  # fmt: skip
    batch = result.tables["a"]
    from lakeidx.batch.stages.rejected_rows import read_rejected

    assert read_rejected(feed.warehouse.store, batch.ingest.rejected_path).column("line").to_pylist() == [4]


def test_order_and_options_of_new_tables(feed: Any) -> None:
    options = FeedOptions(table_conf={"bucket": 1, "sequence.field": "es"}, partition_keys={"b": ("day",)})
    messages = [canal("a", {"id": "1", "name": "new"}, es=5), canal("a", {"id": "1", "name": "old"}, es=4, word="UPDATE"),
                canal("b", {"id": "1", "day": "2024-01-01"}, types={"id": "int", "day": "date"})]  # fmt: skip
    feed(messages, "canal", options, landing={"order": ("es",)})
    assert rows(feed.warehouse, "a") == [{"id": 1, "name": "new", "es": 5}]
    schema = feed.warehouse.table("ods.b").schema
    assert (schema.primary_keys, schema.partition_keys) == (("day", "id"), ("day",)) or (
        list(schema.primary_keys), list(schema.partition_keys)) == (["day", "id"], ["day"])  # fmt: skip


def test_bad_options_are_named() -> None:
    for wrong in (
        {"including_tables": "("},
        {"types": {"price": "INT"}},
        {"types": {"a.b": "NO"}},
        {"schema_changes": "drop"},
    ):
        with pytest.raises(InvalidInputError):
            FeedOptions(**wrong)
    warehouse = lakeidx.Warehouse("/nowhere")
    with pytest.raises(InvalidInputError, match="set its format, one of"):
        warehouse.sync_database("ods", [], LandingOptions("csv"))
    with pytest.raises(InvalidInputError, match="including_tables"):
        warehouse.sync_database("ods", [], LandingOptions("canal", source=("a",)))


def test_command(tmp_path: Path) -> None:
    file = tmp_path / "f.json"
    file.write_text(
        "".join(json.dumps(canal(t, {"id": "1", "name": "x"}, pkNames=None)) + "\n" for t in "abc"), encoding="utf-8"
    )
    words = ["sync-database", tmp_path / "lake", "ods", file, "--format", "canal", "--excluding-tables", "c"]
    first = call(*words, "--primary-keys", "a=id", code=2)
    assert "b: the messages of shop.b do not tell its primary key" in first.output
    done = answer(*words, "--primary-keys", "id", "--type", "*.name=VARCHAR(9)", "--table-conf", "bucket=2")
    assert done["tables"]["a"] == {"already": True}
    made = lakeidx.Warehouse(tmp_path / "lake").table("ods.b").schema
    assert [str(f.type) for f in made.fields] == ["INT NOT NULL", "VARCHAR(9)"]
    assert made.options["bucket"] == "2"


def test_files_of_dms_are_of_the_tables_that_their_folders_name(tmp_path: Path) -> None:
    def land(name: str, text: str) -> None:
        (tmp_path / "dms" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "dms" / name).write_text(text, encoding="utf-8")

    land("shop/orders/LOAD00000001.csv", "id,price,day\n1,9.50,2024-01-01\n2,1.00,2024-01-02\n")
    land("shop/orders/20240101-101112123.csv", "Op,id,price,day\nU,1,8.25,2024-01-01\nD,2,1.00,2024-01-02\n")
    land("shop/tags/2024/01/02/20240102-101112123.csv", "Op,id,word\nI,a,x\nX,b,y\n")
    land("shop/audit/LOAD00000001.csv", "id\n1\n")
    land("hr/people/LOAD00000001.jsonl", '{"id": 7, "name": "Ada"}\n')
    warehouse = lakeidx.Warehouse(tmp_path / "lake")
    options = FeedOptions(excluding_tables="audit", primary_keys={"*": ("id",)})
    landing = LandingOptions("dms")
    results = warehouse.sync_database("ods", [tmp_path / "dms"], landing, options)
    assert [next(iter(r.tables), None) for r in results] == ["people", None, "orders", "orders", "tags"]
    assert types(warehouse, "orders") == {"id": "BIGINT NOT NULL", "price": "DECIMAL(18, 2)", "day": "DATE"}
    assert [(r["id"], r["price"]) for r in rows(warehouse, "orders")] == [(1, Decimal("8.25"))]
    assert rows(warehouse, "tags") == [{"id": "a", "word": "x"}]
    assert results[-1].as_dict()["tables"]["tags"]["rejected"] == 1
    again = warehouse.sync_database("ods", [tmp_path / "dms"], landing, options)
    assert [r.tables for r in again] == [{"people": None}, {}, {"orders": None}, {"orders": None}, {"tags": None}]
    # A column comes, another one goes.
    land("shop/orders/20240103-101112123.csv", "Op,id,price,note\nI,3,2.00,new\n")
    warehouse.sync_database("ods", [tmp_path / "dms" / "shop"], landing, options)
    assert [(r["id"], r["day"] is None, r["note"]) for r in rows(warehouse, "orders")] == [
        (1, False, None),
        (3, True, "new"),
    ]
    with pytest.raises(InvalidInputError, match="<schema>/<table>/<file>"):
        dms_files.table_of_folders("/LOAD1.csv")


@pytest.mark.parametrize("decision", ["release", "discard"])
def test_a_batch_beyond_a_limit_is_held_and_the_others_get_theirs(feed: Any, decision: str) -> None:
    def people(*ids: int) -> list[Message]:
        return [{"id": str(i), "name": f"n{i}"} for i in ids]

    feed([canal("a", *people(*range(10))), canal("b", *people(0))], "canal")
    later = [canal("a", *people(1, 2), word="DELETE"), canal("b", *people(5))]
    with pytest.raises(FeedError, match="deletes") as caught:
        feed(later, "canal", name="g.json", limits={"deletes": "5%"})
    assert set(caught.value.errors) == {"a"}
    table = feed.warehouse.table("ods.a")
    assert (len(rows(feed.warehouse, "a")), len(rows(feed.warehouse, "b"))) == (10, 2)
    (held,) = table.held_batches()
    getattr(table, f"{decision}_batch")(held["batch"])
    left = 8 if decision == "release" else 10
    assert len(rows(feed.warehouse, "a")) == left
    again = feed(later, "canal", name="g.json", limits={"deletes": "5%"})
    assert again.tables["a"].already
    assert len(rows(feed.warehouse, "a")) == left


def test_a_wrong_limit_of_rejected_rows_is_refused_first(feed: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="rejected rows at most 'abc'"):
        feed([canal("a", {"id": "1", "name": "x"})], "canal", strict=True, max_rejected="abc")
    assert not (tmp_path / "lake").exists()
