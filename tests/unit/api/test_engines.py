"""DuckDB, Polars and pandas on tables: right answers, and filters that reach the scan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakeidx
from lakeidx.api.dataset import TableDataset, predicate_of_arrow
from lakeidx.predicate import Compare, Op, format_predicate, split_and
from lakeidx.types import Field, from_arrow

duckdb = pytest.importorskip("duckdb")
polars = pytest.importorskip("polars")

from lakeidx import duckdb as lake_duckdb  # noqa: E402
from lakeidx import polars as lake_polars  # noqa: E402

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("name", pa.string()), ("x", pa.float64())])
FIELDS = [Field(n, f.name, from_arrow(f.type)) for n, f in enumerate(SCHEMA)]


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


def test_duckdb_hands_columns_and_filters_down(warehouse: lakeidx.Warehouse, seen: list[dict[str, Any]]) -> None:
    connection = lake_duckdb.attach(warehouse)
    assert connection.sql("SELECT count(name) FROM shop.orders WHERE p = 1 AND id > 3").fetchall() == [(3,)]
    assert seen[-1]["columns"] == ["id", "p", "name"]
    assert {format_predicate(p) for p in split_and(seen[-1]["where"])} == {"p = 1", "id > 3"}
    lake_duckdb.register(connection, "one", warehouse["shop.orders"])
    assert connection.sql("SELECT count(*) FROM one").fetchall() == [(20,)]


def _meant(expression: pc.Expression) -> str | None:
    found = predicate_of_arrow(expression, FIELDS, SCHEMA)
    return None if found is None else format_predicate(found, FIELDS)


def test_what_of_a_filter_is_handed_down() -> None:
    """Also as DuckDB writes lists: with a guard for nulls."""
    number, name, x = pc.field("id"), pc.field("name"), pc.field("x")
    assert _meant((number > 3) & (pc.field("p") == pa.scalar(1, pa.int32()))) == "id > 3 AND p = 1"
    assert _meant((number > -3) | name.is_null() | x.is_valid()) == "id > -3 OR name IS NULL OR x IS NOT NULL"
    assert (
        _meant((number > 3) & ((number < 9) | (number == 20) | (x > 1.5)))
        == "id > 3 AND (id < 9 OR id = 20 OR x > 1.5)"
    )
    guarded = pc.if_else(number.is_valid(), number.isin([1, 2]), pa.scalar(None, pa.bool_()))
    for test in (number.isin([1, 2]), guarded):
        assert _meant(test & (name == "a")) == "id IN (1, 2) AND name = 'a'"
    assert _meant(name.isin(["a, b", "(c) or", ""])) == "name IN ('a, b', '(c) or', '')"


def test_a_filter_that_cannot_be_turned_back_is_not_handed_down() -> None:
    number, x = pc.field("id"), pc.field("x")
    texts = ('a" and (id == 1) and name == "x', "back\\slash", 'a"', "(", ") or (id == 1", "\n", "")
    for text in texts:
        assert _meant(pc.field("name") == text) in (None, "name = '" + text + "'")
    for test in (~(number == 1), number.isin(list(range(99))), number + 1 == 2, pc.field("other") == 1, x == float("nan"),
                 pc.is_nan(x), number == pa.scalar(1, pa.int8()), pc.field(0) == 1, x.isin([1.5, None]),
                 pc.field("name").isin(['c"d'])):  # fmt: skip
        assert _meant(test) is None, str(test)


def test_polars_queries_tables_and_pushes_its_filter_down(
    warehouse: lakeidx.Warehouse, seen: list[dict[str, Any]]
) -> None:
    col = polars.col
    frame = lake_polars.scan(warehouse["shop.orders"])
    found = frame.filter((col("p") == 1) & (col("id") > 3) & (col("x") < 4)).select("id").collect()
    assert sorted(found["id"].to_list()) == [5, 9, 13]
    assert Compare("p", Op.EQ, 1) in split_and(seen[-1]["where"])
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


def test_paths_stand_for_tables(warehouse: lakeidx.Warehouse) -> None:
    path = Path(warehouse.table("shop.orders").uri)
    assert lake_polars.scan(str(path)).collect().height == lake_polars.scan(path).collect().height == 20
    connection = lake_duckdb.attach(Path(warehouse.uri))
    lake_duckdb.register(connection, "a", path)
    lake_duckdb.register(connection, "b", str(path))
    for name in ("a", "b"):
        assert connection.sql(f"SELECT count(*) FROM {name}").fetchall() == [(20,)]
    with pytest.raises(lakeidx.NotFoundError, match="not a Paimon table"):
        lake_polars.scan(f"{warehouse.uri}/shop.db/gone")
    with pytest.raises(lakeidx.InvalidInputError, match="expected the path or URI of a warehouse"):
        lake_duckdb.attach(lakeidx.Table.open(path))  # type: ignore[arg-type]
    for wrong in (None, warehouse, 5):
        with pytest.raises(lakeidx.InvalidInputError, match="expected the path or URI of a table"):
            lake_polars.scan(wrong)  # type: ignore[arg-type]
        with pytest.raises(lakeidx.InvalidInputError, match="expected the path or URI of a table"):
            lake_duckdb.register(connection, "c", wrong)  # type: ignore[arg-type]
