"""What is not understood is refused by line and column, and nothing runs as something else."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeidx
from lakeidx.api.sql.statement import one_statement, statements
from lakeidx.errors import CorruptFileError, LakeIdxError


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> lakeidx.Warehouse:
    made = lakeidx.Warehouse(tmp_path_factory.mktemp("lake"))
    made.sql(
        "CREATE TABLE shop.orders (id BIGINT, day STRING, total INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"
    )
    made.sql("INSERT INTO shop.orders VALUES (1, 'a', 10), (2, 'b', 20)")
    return made


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "line 1, column 1:"),
        ("SELECT 'x", "line 1, column 7:"),
        ("SELECT 1 /* a", "line 1, column 10:"),
        ("SELECT * FROM shop.orders WHERE", "line 1, column 27:"),
        ("SELECT *\nFROM shop.orders o p q", "line 2, column 20:"),
        ("SELECT\n  id,\n  nope\nFROM shop.orders", "line 3, column 3:"),
        ("SELECT nofunction(id) FROM shop.orders", "line 1, column 8:"),
        ("SELECT * FROM\n shop.nope", "line 2, column 2:"),
        ("SELECT * FROM orders", "line 1, column 15:"),
        ("SELECT * FROM shop.orders$nope", "line 1, column 15:"),
        ("SELECT * FROM shop.orders VERSION AS OF 'nope'", "line 1, column 15:"),
        ("SELECT * FROM shop.orders VERSION AS OF 99", "line 1, column 15:"),
        ("SELECT * FROM shop.orders TIMESTAMP AS OF 'yesterday'", "line 1, column 15:"),
        ("SELECT * FROM shop.orders TIMESTAMP AS OF 1700000000", "line 1, column 15:"),
        ("SELECT * FROM shop.orders$tags VERSION AS OF 1", "line 1, column 15:"),
        ("SELECT * FROM shop.orders@tag", "line 1, column 26:"),
        ("SELECT 1; SELECT 2", "line 1, column 11:"),
        ("VACUUM orders", "line 1, column 1:"),
        ("SET x = 3", "line 1, column 1:"),
        ("LOAD DATA INPATH 'x' INTO TABLE t", "line 1, column 1:"),
        ("ANALYZE TABLE shop.orders COMPUTE STATISTICS", "line 1, column 1:"),
        ("FROM shop.orders INSERT INTO shop.orders SELECT *", "line 1, column"),
        ("INSERT INTO shop.orders VALUES (1, 'a')", "line 1, column"),
        ("INSERT INTO shop.orders (id, nope) VALUES (1, 2)", "line 1, column 30:"),
        ("INSERT INTO shop.orders (id, id) VALUES (1, 2)", "line 1, column 26:"),
        ("INSERT INTO shop.orders REPLACE WHERE id = 1 SELECT 1, 'a', 2", "line 1, column 39:"),
        ("INSERT INTO shop.orders VALUES (1, 'a', DEFAULT)", "line 1, column"),
        ("INSERT INTO shop.orders$files VALUES (1)", "line 1, column 13:"),
        ("UPDATE shop.orders SET nope = 1", "line 1, column 24:"),
        ("UPDATE shop.orders SET total = nope", "line 1, column 32:"),
        ("UPDATE shop.orders SET id = 3", "line 1, column 24:"),
        ("UPDATE shop.orders SET total = 1, total = 2", "line 1, column 35:"),
        ("UPDATE shop.orders SET total = 1 FROM x WHERE x.id = 1", "line 1, column"),
        ("DELETE FROM shop.orders WHERE nope = 3", "line 1, column 31:"),
        ("DELETE FROM shop.orders LIMIT 1", "line 1, column"),
        ("MERGE INTO shop.orders t USING shop.orders t ON t.id = t.id WHEN MATCHED THEN DELETE", "line 1, column 32:"),
        ("MERGE INTO shop.orders t USING shop.orders s ON t.id = s.id WHEN MATCHED THEN DO NOTHING", "line 1, column"),
        ("MERGE INTO shop.orders t USING shop.orders s ON t.id = s.id WHEN MATCHED THEN UPDATE SET nope = 1", "line 1, column 90:"),
        ("MERGE INTO shop.orders t USING shop.orders s ON t.id = s.nope WHEN MATCHED THEN DELETE", "line 1, column"),
        (
            "MERGE INTO shop.orders t USING shop.orders s ON t.id = s.id "
            "WHEN MATCHED AND t.id IN (SELECT 1) THEN DELETE",
            "line 1, column",
        ),
        ("CREATE DATABASE x", "line 1, column 8:"),
        ("CREATE TABLE a.b (id INTERVAL YEAR)", "line 1, column"),
        ("CREATE TABLE a.b (id INT) LOCATION 'x'", "line 1, column"),
        ("CREATE TABLE a.b (id INT) USING delta", "line 1, column"),
        ("CREATE TABLE a.b (id INT) PARTITIONED BY (years(id))", "line 1, column"),
        ("CREATE OR REPLACE TABLE shop.orders (id INT)", "line 1, column"),
        ("CREATE VIEW a.b AS SELECT 1", "line 1, column 8:"),
        ("CREATE TABLE a.b LIKE shop.nope", "line 1, column 23:"),
        ("CREATE TABLE a.b (id INT) LIKE shop.orders", "line 1, column 14:"),
        ("TRUNCATE TABLE shop.orders, shop.orders", "line 1, column 29:"),
        ("TRUNCATE TABLE shop.nope", "line 1, column 16:"),
        ("COMMENT ON DATABASE shop IS 'x'", "line 1, column 21:"),
        ("SELECT * FROM sys.nope", "line 1, column 15:"),
        ("ALTER TABLE shop.nope RENAME TO shop.x", "line 1, column 13:"),
        ("DROP VIEW a.b", "line 1, column 6:"),
        ("DROP TABLE shop.nope", "line 1, column 12:"),
        ("DROP TABLE shop.orders$files", "line 1, column 12:"),
        ("ALTER TABLE shop.orders RENAME TO shop.x y", "line 1, column 42:"),
        ("ALTER TABLE shop.orders DROP PARTITION (day", "line 1, column"),
        ("DESCRIBE shop.orders nope", "line 1, column 22:"),
        ("ALTER TABLE shop.orders ALTER COLUMN day FIRST x", "line 1, column 48:"),
        ("ALTER TABLE shop.orders UNSET TBLPROPERTIES ('a' 'b')", "line 1, column 50:"),
        ("ALTER TABLE shop.orders ADD CONSTRAINT c CHECK (id > 1)", "line 1, column"),
        ("SHOW FUNCTIONS", "line 1, column 6:"),
        ("SHOW TABLES IN shop WHERE 1", "line 1, column 21:"),
        ("DESCRIBE DATABASE shop", "line 1, column"),
        ("DESCRIBE shop.orders PARTITION (day = 'a')", "line 1, column"),
        ("EXPLAIN DROP TABLE shop.orders", "line 1, column 9:"),
        ("EXPLAIN", "line 1, column 1:"),
        ("CALL sys.nope()", "line 1, column 10:"),
        ("CALL other.compact(table => 'shop.orders')", "line 1, column 6:"),
        ("CALL sys.compact()", "line 1, column 10:"),
        ("CALL sys.compact(table => 'shop.nope')", "line 1, column 18:"),
        ("CALL sys.compact(table => 'shop.orders', nope => 1)", "line 1, column 42:"),
        ("CALL sys.compact(table => 'shop.orders', compact_strategy => 'nope')", "line 1, column 62:"),
        ("CALL sys.expire_snapshots(table => 'shop.orders', retain_max => 'x')", "line 1, column 51:"),
        ("CALL sys.rollback(table => 'shop.orders', version => 'nope')", "line 1, column"),
        ("CALL sys.compact(table => 'shop.orders') x", "line 1, column 42:"),
    ],
)  # fmt: skip
def test_what_is_not_understood_names_line_and_column(warehouse: lakeidx.Warehouse, text: str, place: str) -> None:
    table = warehouse.table("shop.orders")
    before = table.snapshot, table.schema
    with pytest.raises(LakeIdxError) as found:
        warehouse.sql(text)
    assert place in found.value.message
    assert "\n" not in found.value.message
    assert (table.snapshot, table.schema) == before
    assert warehouse.tables() == ["shop.orders"]


def test_names_of_python_variables_are_no_tables(warehouse: lakeidx.Warehouse) -> None:
    rows = [{"id": 1}]
    with pytest.raises(LakeIdxError, match="line 1, column 15"):
        warehouse.sql("SELECT * FROM rows")
    assert warehouse.sql("SELECT * FROM rows", sources={"rows": rows}).to_arrow().to_pylist() == rows  # type: ignore[union-attr]


def test_a_cast_that_fails_is_an_error(warehouse: lakeidx.Warehouse) -> None:
    with pytest.raises(LakeIdxError, match="line 1, column"):
        warehouse.sql("UPDATE shop.orders SET total = CAST(day AS INT)")


def test_what_a_scan_raises_is_its_own_error(tmp_path: Path) -> None:
    made = lakeidx.Warehouse(tmp_path)
    made.sql("CREATE TABLE d.t (id INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    made.sql("INSERT INTO d.t VALUES (1)")
    for file in made.table("d.t").files():
        Path(file["path"]).write_bytes(b"no Parquet")
    with pytest.raises(CorruptFileError, match="parquet"):
        made.sql("SELECT * FROM d.t").to_arrow()  # type: ignore[union-attr]
    with pytest.raises(CorruptFileError, match="parquet"):
        made.sql("DELETE FROM d.t WHERE id + 0 = 1")


def test_statements_of_a_text_are_split_at_semicolons() -> None:
    found = statements("SELECT ';' AS a; -- ; no\nSELECT 2;")
    assert [str(s) for s in found] == ["SELECT ';' AS a", "SELECT 2"]
    assert str(one_statement(" SELECT 1 ;")) == "SELECT 1"


def test_a_name_of_a_path_is_not_a_table(warehouse: lakeidx.Warehouse, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id\n7\n")
    assert warehouse.sql(f"SELECT * FROM csv.`{tmp_path}/x.csv`").to_arrow().to_pylist() == [{"id": 7}]  # type: ignore[union-attr]
    with pytest.raises(LakeIdxError, match="line 1, column 15"):
        warehouse.sql(f"SELECT * FROM `{tmp_path}/x.csv`")
