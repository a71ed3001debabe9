"""DuckDB, Polars and pandas on tables: right answers, and filters that reach the scan."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakeidx
from lakeidx.api.dataset import TableDataset, where_of

duckdb = pytest.importorskip("duckdb")
polars = pytest.importorskip("polars")

from lakeidx import duckdb as lake_duckdb  # noqa: E402
from lakeidx import polars as lake_polars  # noqa: E402

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("name", pa.string()), ("x", pa.float64())])


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> lakeidx.Warehouse:
    made = lakeidx.Warehouse(f"{tmp_path_factory.mktemp('engines')}/wh")
    types = {"id": "BIGINT", "p": "INT", "name": "STRING", "x": "DOUBLE"}
    table = made.create(
        "shop.orders",
        {
            "fields": [{"name": n, "type": t} for n, t in types.items()],
            "primaryKeys": ["p", "id"],
            "partitionKeys": ["p"],
            "options": {"bucket": "1"},
        },
    )
    names = ["it's", 'a "quote"', "back\\slash", None, "é"]
    columns = {
        "id": range(20), "p": [i % 4 for i in range(20)], "name": [names[i % 5] for i in range(20)], "x": [i / 4 for i in range(20)]
    }  # fmt: skip
    table.upsert(pa.table({n: pa.array(v, SCHEMA.field(n).type) for n, v in columns.items()}))
    return made


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What scans were asked for."""
    asked: list[dict[str, Any]] = []
    scan = lakeidx.Table.scan

    def spy(self: lakeidx.Table, **arguments: Any) -> Any:
        asked.append(arguments)
        return scan(self, **arguments)

    monkeypatch.setattr(lakeidx.Table, "scan", spy)
    return asked


def test_scans_are_arrow_streams(warehouse: lakeidx.Warehouse) -> None:
    scan = warehouse["shop.orders"].scan(columns=["id"], where="p = 1")
    assert sorted(pa.table(scan).column("id").to_pylist()) == [1, 5, 9, 13, 17]
    assert duckdb.sql("SELECT sum(id) FROM scan").fetchall() == [(45,)]
    assert polars.DataFrame(scan).height == 5
    assert scan.to_arrow().to_pandas().shape == (5, 1)


CONDITIONS = [
    ("id > 3 AND p = 1", [5, 9, 13, 17]),
    ("name = 'it''s'", [0, 5, 10, 15]),
    ("name = 'a \"quote\"' AND p <> 2", [1, 11, 16]),
    ("name = 'back\\slash'", [2, 7, 12, 17]),
    ("name IS NULL AND id < 9", [3, 8]),
    ("x >= 4.5 OR id = 0", [0, 18, 19]),
    ("p IN (1, 3) AND id <= 5", [1, 3, 5]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("condition", "expected"), CONDITIONS, ids=[c for c, _ in CONDITIONS])
def test_duckdb_queries_tables_and_pushes_its_filter_down(
    warehouse: lakeidx.Warehouse, condition: str, expected: list[int]
) -> None:
    connection = lake_duckdb.attach(warehouse)
    found = connection.sql(f"SELECT id FROM shop.orders WHERE {condition} ORDER BY id").fetchall()
    assert [r[0] for r in found] == expected


def test_duckdb_hands_columns_and_filters_down(warehouse: lakeidx.Warehouse, seen: list[dict[str, Any]]) -> None:
    connection = lake_duckdb.attach(warehouse)
    assert connection.sql("SELECT count(name) FROM shop.orders WHERE p = 1 AND id > 3").fetchall() == [(3,)]
    assert seen[-1]["columns"] == ["id", "p", "name"]
    assert set(str(seen[-1]["where"]).split(" AND ")) == {"`p` = 1", "`id` > 3"}
    lake_duckdb.register(connection, "one", warehouse["shop.orders"])
    assert connection.sql("SELECT count(*) FROM one").fetchall() == [(20,)]


def test_a_filter_that_cannot_be_turned_back_is_not_handed_down() -> None:
    assert where_of(
        (pc.field("id") > pa.scalar(3, pa.int64())) & (pc.field("p") == pa.scalar(1, pa.int32())), SCHEMA
    ) == ("`id` > 3 AND `p` = 1")
    for text in ('a" and (id == 1) and name == "x', "back\\slash", 'a"'):
        where = where_of(pc.field("name") == text, SCHEMA)
        assert where is None or where == "`name` = '" + text + "'"
    assert where_of(pc.field("x") > 1.5, SCHEMA) is None
    assert (
        where_of((pc.field("id") > pa.scalar(3, pa.int64())) | (pc.field("p") == pa.scalar(1, pa.int32())), SCHEMA)
        is None
    )


def test_polars_queries_tables_and_pushes_its_filter_down(
    warehouse: lakeidx.Warehouse, seen: list[dict[str, Any]]
) -> None:
    col = polars.col
    frame = lake_polars.scan(warehouse["shop.orders"])
    found = frame.filter((col("p") == 1) & (col("id") > 3) & (col("x") < 4)).select("id").collect()
    assert sorted(found["id"].to_list()) == [5, 9, 13]
    assert seen[-1]["where"] is not None
    assert "`p` = 1" in seen[-1]["where"]
    assert "name" not in seen[-1]["columns"]
    assert frame.filter(col("name") == "it's").select(polars.len()).collect().item() == 4
    assert frame.filter((col("p") == 1) | (col("id") == 2)).collect().height == 6
    assert frame.filter(col("p") == 1).head(2).collect().height == 2
    assert frame.head(3).collect().height == 3
    assert frame.select(polars.len()).collect().item() == 20


def test_a_dataset_by_itself(warehouse: lakeidx.Warehouse) -> None:
    dataset = TableDataset(warehouse["shop.orders"])
    assert dataset.schema.names == ["id", "p", "name", "x"]
    assert dataset.scanner(columns=["id"], filter=pc.field("x") > 4.5).to_table().num_rows == 1
