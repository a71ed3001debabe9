"""Every form of statement does what the call of Python's API does."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import lakeidx
from lakeidx.api.sql.query import QueryResult
from lakeidx.api.sql.verbs import VerbResult
from lakeidx.errors import InvalidInputError, NotFoundError

ORDERS = """
CREATE TABLE shop.orders (
  id BIGINT NOT NULL, day STRING NOT NULL COMMENT 'it''s the day', total DECIMAL(10, 2), qty INT DEFAULT 3)
USING paimon COMMENT 'all orders' PARTITIONED BY (day)
TBLPROPERTIES ('primary-key' = 'day,id', 'bucket' = '-1')"""


@pytest.fixture
def warehouse(tmp_path: Path) -> lakeidx.Warehouse:
    made = lakeidx.Warehouse(tmp_path)
    made.sql(ORDERS)
    made.sql("INSERT INTO shop.orders VALUES (1, 'a', 1.5, 1), (2, 'a', 2, 2), (3, 'b', 3, 3)")
    return made


def rows(warehouse: lakeidx.Warehouse, text: str, **sources: Any) -> list[tuple[Any, ...]]:
    found = warehouse.sql(text, sources=sources)
    assert isinstance(found, QueryResult)
    return list(zip(*(c.to_pylist() for c in found.to_arrow().columns), strict=True))


def verb(warehouse: lakeidx.Warehouse, text: str, **sources: Any) -> tuple[int, int, int]:
    done = warehouse.sql(text, sources=sources)
    assert isinstance(done, VerbResult)
    return done.inserted, done.updated, done.deleted


def test_a_table_is_made_with_types_keys_and_comments_and_shown_as_it_was_made(warehouse: lakeidx.Warehouse) -> None:
    schema = warehouse.table("shop.orders").schema
    assert (schema.primary_keys, schema.partition_keys, schema.comment) == (("day", "id"), ("day",), "all orders")
    assert schema.options["bucket"] == "-1"
    assert [str(f.type) for f in schema.fields] == ["BIGINT NOT NULL", "STRING NOT NULL", "DECIMAL(10, 2)", "INT"]
    assert (schema.field("day").description, schema.field("qty").default_value) == ("it's the day", "3")


def test_every_type_is_made_and_shown(warehouse: lakeidx.Warehouse) -> None:
    types = {
        "BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT", "BYTE": "TINYINT", "SMALLINT": "SMALLINT", "INT": "INT", "LONG": "BIGINT",
        "FLOAT": "FLOAT", "DOUBLE": "DOUBLE", "DECIMAL": "DECIMAL(10, 0)", "DECIMAL(20, 4)": "DECIMAL(20, 4)", "DATE": "DATE",
        "STRING": "STRING", "VARCHAR(7)": "VARCHAR(7)", "CHAR(3)": "CHAR(3)", "BINARY": "BYTES",
        "TIMESTAMP": "TIMESTAMP(6) WITH LOCAL TIME ZONE", "TIMESTAMP_LTZ": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        "TIMESTAMP_NTZ": "TIMESTAMP(6)", "TIMESTAMP_NTZ(3)": "TIMESTAMP(3)", "ARRAY<INT>": "ARRAY<INT>",
        "MAP<STRING, ARRAY<INT>>": "MAP<STRING, ARRAY<INT>>", "STRUCT<x: INT NOT NULL, y: STRING>": "ROW<x INT NOT NULL, y STRING>",
    }  # fmt: skip
    columns = ", ".join(f"c{n} {t}" for n, t in enumerate(types))
    warehouse.sql(f"CREATE TABLE shop.types (k INT, {columns}, PRIMARY KEY (k) NOT ENFORCED)")
    made = warehouse.table("shop.types").schema
    shown = [str(f.type).replace("`", "") for f in made.fields[1:]]
    assert shown == list(types.values())
    ((text,),) = rows(warehouse, "SHOW CREATE TABLE shop.types")
    warehouse.sql(text.replace("shop.types", "shop.again"))
    again = warehouse.table("shop.again").schema
    assert [(f.name, f.type) for f in again.fields] == [(f.name, f.type) for f in made.fields]
    assert again.primary_keys == ("k",)


def test_queries_join_tables_states_and_rows_of_the_caller(warehouse: lakeidx.Warehouse) -> None:
    before = dt.datetime.now(dt.UTC).isoformat()
    warehouse.table("shop.orders").create_tag("first")
    warehouse.sql("UPDATE shop.orders SET total = 100 WHERE id = 1")
    for state in ("FOR VERSION AS OF 1", "VERSION AS OF 'first'", f"FOR TIMESTAMP AS OF '{before}'"):
        assert rows(warehouse, f"SELECT sum(total) FROM shop.orders {state}") == [(Decimal("6.50"),)]
    found = rows(
        warehouse,
        "WITH old AS (SELECT * FROM shop.orders VERSION AS OF 1) SELECT o.id, old.total, shop.orders.total, c.name "
        "FROM shop.orders JOIN old USING (id) JOIN shop.orders o ON o.id = old.id JOIN names c ON c.id = o.id "
        "WHERE o.day = 'a' ORDER BY 1",
        names=pa.table({"id": [1, 2], "name": ["x", "y"]}),
    )
    assert found == [(1, Decimal("1.50"), Decimal(100), "x"), (2, Decimal(2), Decimal(2), "y")]


@pytest.mark.parametrize("name", ["shop.orders$files", "shop.`orders$files`", "`shop`.`orders$files` f"])
def test_system_tables_are_read_with_and_without_backticks(warehouse: lakeidx.Warehouse, name: str) -> None:
    files = warehouse.table("shop.orders").files()
    assert rows(warehouse, f"SELECT count(*) FROM {name}") == [(len(files),)]


def test_a_system_table_is_read_in_an_older_state(warehouse: lakeidx.Warehouse) -> None:
    warehouse.sql("INSERT INTO shop.orders VALUES (8, 'z', 1, 1)")
    counts = [rows(warehouse, f"SELECT count(*) FROM shop.orders$files {v}") for v in ("VERSION AS OF 1", "")]
    assert counts == [[(2,)], [(3,)]]


def test_a_query_is_an_arrow_stream_that_can_be_read_again(warehouse: lakeidx.Warehouse) -> None:
    found = warehouse.sql("SELECT id, day FROM shop.orders ORDER BY id")
    assert isinstance(found, QueryResult)
    assert found.to_arrow() == found.to_arrow() == pa.RecordBatchReader.from_stream(found).read_all()
    warehouse.sql("DELETE FROM shop.orders")
    assert duckdb.connect().execute("SELECT max(id) FROM found").fetchall() == [(3,)]
    assert rows(warehouse, "SELECT * FROM shop.orders") == []


def test_conditions_and_columns_are_pushed_into_scans(warehouse: lakeidx.Warehouse) -> None:
    plan = "\n".join(t for (t,) in rows(warehouse, "EXPLAIN SELECT id FROM shop.orders WHERE day = 'b'"))
    assert "\"day\" = 'b'" in plan
    assert "total" not in plan
    damaged = [f["path"] for f in warehouse.table("shop.orders").files() if f["day"] == "a"]
    for path in damaged:
        Path(path).write_bytes(b"")
    assert rows(warehouse, "SELECT id FROM shop.orders WHERE day = 'b'") == [(3,)]
    assert verb(warehouse, "UPDATE shop.orders SET qty = qty + 1 WHERE day = 'b'") == (0, 1, 0)
    assert verb(warehouse, "DELETE FROM shop.orders WHERE day = 'b' AND qty + 0 = 4") == (0, 0, 1)


def test_insert_upserts_by_key_and_casts(warehouse: lakeidx.Warehouse) -> None:
    assert verb(warehouse, "INSERT INTO shop.orders (day, id, total) VALUES ('a', '2', '7.25'), ('c', '9', '1')") == (
        1,
        1,
        0,
    )
    assert verb(warehouse, "INSERT INTO shop.orders BY NAME SELECT 'c' AS day, 10 AS id") == (1, 0, 0)
    assert verb(warehouse, "INSERT INTO shop.orders PARTITION (day = 'c') (id, total) SELECT 11, 5") == (1, 0, 0)
    assert verb(warehouse, "WITH x AS (SELECT 12 AS id) INSERT INTO shop.orders SELECT id, 'c', NULL, NULL FROM x") == (
        1,
        0,
        0,
    )
    found = rows(warehouse, "SELECT id, total, qty FROM shop.orders WHERE day > 'b' OR id = 2 ORDER BY id")
    # Where there is no value stands the column's default.
    assert found == [(2, Decimal("7.25"), 3), (9, Decimal(1), 3), (10, None, 3), (11, Decimal(5), 3), (12, None, 3)]


def test_insert_overwrite_replaces_partitions(warehouse: lakeidx.Warehouse) -> None:
    verb(warehouse, "INSERT OVERWRITE shop.orders SELECT 7, 'a', 7, 7")
    assert rows(warehouse, "SELECT id FROM shop.orders ORDER BY id") == [(3,), (7,)]
    verb(warehouse, "INSERT OVERWRITE TABLE shop.orders PARTITION (day = 'b') SELECT 8, 8, 8")
    assert rows(warehouse, "SELECT id, day FROM shop.orders ORDER BY id") == [(7, "a"), (8, "b")]
    with pytest.raises(InvalidInputError):
        verb(warehouse, "INSERT OVERWRITE shop.orders PARTITION (day = 'b') (id, day) VALUES (1, 'a')")
    warehouse.sql("CREATE TABLE shop.plain (id INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    verb(warehouse, "INSERT INTO shop.plain VALUES (1), (2)")
    verb(warehouse, "INSERT OVERWRITE shop.plain VALUES (3)")
    assert rows(warehouse, "SELECT * FROM shop.plain") == [(3,)]


def test_a_merge_counts_by_kind_where_the_index_does_not(warehouse: lakeidx.Warehouse) -> None:
    warehouse.sql("CREATE TABLE shop.fixed (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')")
    warehouse.sql("INSERT INTO shop.fixed VALUES (1, 1), (2, 2), (3, 3)")
    text = """MERGE INTO shop.fixed t USING (SELECT * FROM (VALUES (1, 5), (2, 6), (9, 9)) AS x(id, v)) s ON t.id = s.id
              WHEN MATCHED AND s.v > 5 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v
              WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 0"""
    assert verb(warehouse, text) == (1, 2, 1)
    assert rows(warehouse, "SELECT * FROM shop.fixed ORDER BY id") == [(1, 5), (3, 0), (9, 9)]


def test_update_delete_and_merge_count_what_they_change(warehouse: lakeidx.Warehouse) -> None:
    assert verb(warehouse, "UPDATE shop.orders o SET o.total = o.total * 2, qty = 9 WHERE o.day = 'a'") == (0, 2, 0)
    assert verb(warehouse, "UPDATE shop.orders SET qty = (SELECT max(id) FROM shop.orders) WHERE abs(total) > 3.5") == (
        0,
        1,
        0,
    )
    assert verb(warehouse, "UPDATE shop.orders SET qty = 0 WHERE id = 99") == (0, 0, 0)
    assert verb(warehouse, "DELETE FROM shop.orders WHERE id IN (SELECT id FROM gone)", gone=[{"id": 3}]) == (0, 0, 1)
    changes = [{"id": 1, "day": "a", "total": 50, "gone": False}, {"id": 2, "day": "a", "total": 0, "gone": True},
               {"id": 5, "day": "e", "total": 5, "gone": False}]  # fmt: skip
    text = """MERGE INTO shop.orders AS t USING changes AS S ON t.day = s.day AND T.id = s.id
              WHEN MATCHED AND s.gone THEN DELETE
              WHEN MATCHED THEN UPDATE SET t.TOTAL = s.total + t.total
              WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.day, s.total, 1)"""
    assert verb(warehouse, text, changes=changes) == (1, 1, 1)
    found = rows(warehouse, "SELECT id, total, qty FROM shop.orders ORDER BY id")
    assert found == [(1, Decimal(53), 9), (5, Decimal(5), 1)]
    by_any_case = """MERGE INTO shop.orders t USING (SELECT 5 AS id, 'e' AS day) s ON t.ID = s.Id AND t.day = s.DAY
                     WHEN MATCHED THEN UPDATE SET qty = 7"""
    assert verb(warehouse, by_any_case) == (0, 1, 0)
    star = """MERGE INTO shop.orders t USING (SELECT id, day, 8 AS QTY FROM shop.orders) s ON t.id = s.id AND t.day = s.day
              WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED BY SOURCE THEN DELETE"""
    assert verb(warehouse, star) == (0, 2, 0)
    assert rows(warehouse, "SELECT DISTINCT qty FROM shop.orders") == [(8,)]


def test_a_verb_that_reads_other_rows_meanwhile_reads_again(
    warehouse: lakeidx.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeidx.api.sql import verbs

    read, other = verbs.rows_for, lakeidx.Warehouse(warehouse.uri)

    def slow(*args: Any) -> pa.Table:
        found = read(*args)
        if monkeypatch_left:
            monkeypatch_left.pop()
            other.sql("INSERT INTO shop.orders VALUES (3, 'b', 40, 3)")
        return found

    monkeypatch_left = [1]
    monkeypatch.setattr(verbs, "rows_for", slow)
    assert verb(warehouse, "UPDATE shop.orders SET total = total + 1 WHERE total + 0 >= 3") == (0, 1, 0)
    assert rows(warehouse, "SELECT total FROM shop.orders WHERE id = 3") == [(Decimal(41),)]


def test_alter_table_changes_columns_and_options(warehouse: lakeidx.Warehouse) -> None:
    for text in (
        "ADD COLUMN note STRING COMMENT 'n' FIRST", "ADD COLUMNS (n2 INT DEFAULT 4, n9 INT)", "ALTER n2 AFTER id",
         "ADD COLUMN a STRUCT<x: INT>",
        "ADD COLUMN a.y STRING", "ALTER COLUMN qty TYPE BIGINT", "ALTER COLUMN a.x TYPE BIGINT", "ALTER COLUMN qty COMMENT 'q'",
        "ALTER COLUMN qty AFTER id", "ALTER COLUMN total FIRST", "ALTER COLUMN qty SET DEFAULT 5", "ALTER COLUMN n2 DROP DEFAULT",
        "SET TBLPROPERTIES ('alter-column-null-to-not-null.disabled' = 'false')", "ALTER qty SET NOT NULL",
        "ALTER COLUMN qty DROP NOT NULL", "RENAME COLUMN n2 TO n3", "DROP COLUMN note",
        "DROP COLUMNS (n3, n9)", "DROP COLUMN IF EXISTS n9", "CHANGE COLUMN qty COMMENT 'q'", "SET TBLPROPERTIES ('comment' = 'c')",
        "SET TBLPROPERTIES ('snapshot.num-retained.min' = '2', 'write-buffer-size' = '64 mb')",
        "UNSET TBLPROPERTIES ('write-buffer-size')",
    ):  # fmt: skip
        found = rows(warehouse, f"ALTER TABLE shop.orders {text}")
        assert found or "IF EXISTS" in text or "CHANGE" in text, text
    schema = warehouse.table("shop.orders").schema
    names = ["total", "id", "qty", "day", "a"]
    assert [f.name for f in schema.fields] == names
    assert [str(schema.field(n).type).replace("`", "") for n in ("qty", "a")] == ["BIGINT", "ROW<x BIGINT, y STRING>"]
    assert (schema.field("qty").description, schema.field("qty").default_value) == ("q", "5")
    assert "write-buffer-size" not in schema.options
    assert (schema.comment, "comment" in schema.options) == ("c", False)
    assert schema.options["snapshot.num-retained.min"] == "2"


def test_tables_come_and_go(warehouse: lakeidx.Warehouse) -> None:
    made = verb(
        warehouse, "CREATE TABLE shop.copy TBLPROPERTIES ('primary-key' = 'id') AS SELECT id, total FROM shop.orders"
    )
    assert made == (3, 0, 0)
    warehouse.sql("CREATE TABLE IF NOT EXISTS shop.copy (other INT) TBLPROPERTIES ('primary-key' = 'other')")
    assert warehouse.table("shop.copy").schema.field_names == ("id", "total")
    with pytest.raises(InvalidInputError):
        warehouse.sql("CREATE TABLE shop.copy (id INT) TBLPROPERTIES ('primary-key' = 'id')")
    # A table that its query cannot fill is not left behind.
    with pytest.raises(InvalidInputError):
        warehouse.sql("CREATE TABLE shop.bad TBLPROPERTIES ('primary-key' = 'id') AS SELECT NULL::INT AS id")
    warehouse.sql("DROP TABLE shop.copy")
    warehouse.sql("DROP TABLE IF EXISTS shop.copy")
    assert warehouse.tables() == ["shop.orders"]


def test_a_table_like_another_has_its_columns_keys_and_options(warehouse: lakeidx.Warehouse) -> None:
    warehouse.sql("CREATE TABLE shop.twin LIKE shop.orders TBLPROPERTIES ('bucket' = '2')")
    warehouse.sql("CREATE TABLE IF NOT EXISTS shop.twin LIKE shop.orders")
    one, twin = (warehouse.table(n).schema for n in ("shop.orders", "shop.twin"))
    assert (twin.fields, twin.primary_keys, twin.partition_keys, twin.comment) == (
        one.fields, one.primary_keys, one.partition_keys, one.comment,
    )  # fmt: skip
    assert twin.options == {**one.options, "bucket": "2"}
    assert rows(warehouse, "SELECT * FROM shop.twin") == []
    warehouse.sql(
        "CREATE TABLE shop.hive (id INT) PARTITIONED BY (day STRING, h INT) TBLPROPERTIES ('primary-key' = 'day,h,id')"
    )
    assert warehouse.table("shop.hive").schema.field_names == ("id", "day", "h")
    assert warehouse.table("shop.hive").schema.partition_keys == ("day", "h")


def test_truncate_takes_the_rows_and_keeps_older_states(warehouse: lakeidx.Warehouse) -> None:
    assert rows(warehouse, "TRUNCATE TABLE shop.orders PARTITION (day = 'a')") == [("dropped day=a",)]
    assert {r[0] for r in rows(warehouse, "SELECT day FROM shop.orders")} == {"b"}
    with pytest.raises(NotFoundError, match=r"line 1, column 28: no partition"):
        warehouse.sql("TRUNCATE TABLE shop.orders PARTITION (day = 'a')")
    assert rows(warehouse, "ALTER TABLE shop.orders DROP IF EXISTS PARTITION (day = 'a')") == []
    warehouse.sql("TRUNCATE TABLE shop.orders")
    assert rows(warehouse, "SELECT * FROM shop.orders") == []
    assert len(rows(warehouse, "SELECT * FROM shop.orders VERSION AS OF 1")) == 3


def test_a_partition_spec_may_name_some_of_the_columns(warehouse: lakeidx.Warehouse) -> None:
    warehouse.sql(
        "CREATE TABLE shop.h (id INT, d DATE, h INT) PARTITIONED BY (d, h) TBLPROPERTIES ('primary-key' = 'd,h,id')"
    )
    warehouse.sql(
        "INSERT INTO shop.h VALUES (1, DATE '2026-11-01', 1), (2, DATE '2026-11-01', 2), (3, DATE '2026-11-02', 1)"
    )
    dropped = rows(warehouse, "ALTER TABLE shop.h DROP PARTITION (d = DATE '2026-11-01')")
    assert dropped == [("dropped d=2026-11-01,h=1",), ("dropped d=2026-11-01,h=2",)]
    assert rows(warehouse, "SHOW PARTITIONS shop.h") == [("d=2026-11-02/h=1",)]


def test_comments_are_set_and_taken_away(warehouse: lakeidx.Warehouse) -> None:
    warehouse.sql("COMMENT ON TABLE shop.orders IS 'sold'")
    warehouse.sql("COMMENT ON COLUMN shop.orders.qty IS 'pieces'")
    schema = warehouse.table("shop.orders").schema
    assert (schema.comment, schema.field("qty").description) == ("sold", "pieces")
    warehouse.sql("ALTER TABLE shop.orders UNSET TBLPROPERTIES ('comment')")
    assert not warehouse.table("shop.orders").schema.comment


def test_a_table_gets_another_name_with_all_that_it_has(warehouse: lakeidx.Warehouse) -> None:
    table = warehouse.table("shop.orders")
    table.create_tag("first")
    table.create_branch("b", tag="first")
    warehouse.sql("UPDATE shop.orders SET qty = 9 WHERE id = 1")
    files = len(table.files())
    with pytest.raises(InvalidInputError, match="line 1, column"):
        warehouse.sql("ALTER TABLE shop.orders RENAME TO shop.orders")
    warehouse.sql("ALTER TABLE shop.orders RENAME TO `2026`.sold")
    warehouse.sql("ALTER TABLE `2026`.sold RENAME TO sales")
    assert warehouse.tables() == ["2026.sales"]
    assert not [p for p in Path(warehouse.uri).rglob("orders*/**/*") if p.is_file()]
    assert rows(warehouse, "SELECT count(*), max(qty) FROM `2026`.sales") == [(3, 9)]
    assert rows(warehouse, "SELECT max(qty) FROM `2026`.sales VERSION AS OF 'first'") == [(3,)]
    assert rows(warehouse, "SELECT max(qty) FROM `2026`.`sales$branch_b`") == [(3,)]
    assert len(warehouse.table("2026.sales").files()) == files
    assert verb(warehouse, "INSERT INTO `2026`.sales VALUES (1, 'a', 1, 1), (9, 'a', 1, 1)") == (1, 1, 0)
    warehouse.sql("ALTER TABLE `2026`.sales DROP PARTITION (day = 'b')")
    assert rows(warehouse, "SELECT DISTINCT day FROM `2026`.sales") == [("a",)]


def test_show_and_describe_list_what_there_is(warehouse: lakeidx.Warehouse) -> None:
    warehouse.sql("CREATE TABLE other.t (id INT) TBLPROPERTIES ('primary-key' = 'id')")
    assert rows(warehouse, "SHOW DATABASES") == [("other",), ("shop",)]
    assert rows(warehouse, "SHOW TABLES") == [("other", "t"), ("shop", "orders")]
    assert rows(warehouse, "SHOW TABLES IN shop LIKE 'O*|x'") == [("shop", "orders")]
    assert rows(warehouse, "SHOW TABLES FROM shop 'x'") == []
    assert rows(warehouse, "SHOW COLUMNS IN other.t") == [("id",)]
    assert rows(warehouse, "SHOW PARTITIONS shop.orders") == [("day=a",), ("day=b",)]
    assert rows(warehouse, "SHOW PARTITIONS shop.orders PARTITION (day = 'b')") == [("day=b",)]
    assert rows(warehouse, "SHOW COLUMNS FROM t FROM other") == [("id",)]
    assert rows(warehouse, "SHOW TBLPROPERTIES shop.orders ('primary-key')") == [("primary-key", "day,id")]
    described = rows(warehouse, "DESC shop.orders")
    assert described[1] == ("day", "STRING NOT NULL", "it's the day")
    assert described[-2:] == [("# primary key", "day, id", None), ("# partitioned by", "day", None)]
    assert rows(warehouse, "DESCRIBE shop.orders DAY")[2] == ("comment", "it's the day")
    assert [r[0] for r in rows(warehouse, "DESCRIBE HISTORY shop.orders")] == [1]
    assert ("bucket", "INT NOT NULL", None) in rows(warehouse, "DESCRIBE shop.orders$files")
    assert ("# option bucket", "-1", None) in rows(warehouse, "DESCRIBE TABLE EXTENDED shop.orders")


def test_explain_writes_nothing(warehouse: lakeidx.Warehouse) -> None:
    before = warehouse.table("shop.orders").snapshot
    for text in (
        "INSERT INTO shop.orders SELECT * FROM shop.orders", "UPDATE shop.orders SET qty = 1",
        "DELETE FROM shop.orders WHERE id = 1", "DELETE FROM shop.orders WHERE id + 1 = 2",
        "MERGE INTO shop.orders t USING shop.orders s ON t.id = s.id AND t.day = s.day WHEN MATCHED THEN DELETE",
    ):  # fmt: skip
        assert rows(warehouse, f"EXPLAIN {text}") == rows(warehouse, f"EXPLAIN EXTENDED {text}")
    assert warehouse.table("shop.orders").snapshot == before


def test_procedures_keep_the_table(warehouse: lakeidx.Warehouse) -> None:
    table = warehouse.table("shop.orders")
    for n in range(4):
        warehouse.sql(f"INSERT INTO shop.orders VALUES (1, 'a', {n}, {n})")
    warehouse.sql("CALL sys.create_tag(table => 'shop.orders', tag => 'two', snapshot => 2, time_retained => '1 d')")
    warehouse.sql("CALL sys.create_tag('shop.orders', 'last')")
    warehouse.sql("CALL sys.create_tag_from_timestamp(table => 'shop.orders', tag => 'first', timestamp => 0)")
    assert {r["tag"]: r["snapshot"] for r in table.tags()} == {"two": 2, "last": 5, "first": 1}
    warehouse.sql("CALL sys.delete_tag(table => 'shop.orders', tag => 'last, first')")
    assert [r["tag"] for r in table.tags()] == ["two"]
    warehouse.sql("CALL sys.compact(table => 'shop.orders', partitions => 'day=a')")
    assert {f["level"] for f in table.files() if f["day"] == "a"} == {5}
    warehouse.sql("CALL sys.compact(table => 'shop.orders', compact_strategy => 'minor')")
    warehouse.sql("CALL sys.compact_manifest(table => 'shop.orders')")
    warehouse.sql("CALL sys.expire_snapshots(table => 'shop.orders', retain_min => 1, retain_max => 2)")
    assert len(table.snapshots()) == 2
    (orphans,) = rows(warehouse, "CALL sys.remove_orphan_files(table => 'shop.*', dry_run => true)")
    assert orphans[0] == table.uri
    warehouse.sql("CALL sys.rewrite_file_index(table => 'shop.orders')")
    warehouse.sql("CALL sys.trigger_tag_automatic_creation(table => 'shop.orders')")
    warehouse.sql("CALL sys.clear_consumers(table => 'shop.orders', including_consumers => 'a.*')")
    warehouse.sql("CALL sys.rollback(table => 'shop.orders', version => 'two')")
    assert rows(warehouse, "SELECT total FROM shop.orders WHERE id = 1") == [(Decimal(0),)]


def test_rollback_takes_times_and_numbers(warehouse: lakeidx.Warehouse) -> None:
    table = warehouse.table("shop.orders")
    first = table.snapshot
    assert first is not None
    for call in (f"rollback_to_timestamp(table => 'shop.orders', timestamp => {first.time_millis})",
                 "rollback(table => 'shop.orders', snapshot => 1)", "rollback('shop.orders', 1)"):  # fmt: skip
        warehouse.sql("INSERT INTO shop.orders VALUES (1, 'a', 9, 9)")
        warehouse.sql(f"CALL sys.{call}")
        assert table.snapshot == first
