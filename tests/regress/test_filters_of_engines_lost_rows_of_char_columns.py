"""Conditions on CHAR columns that engines handed down were read with lakeidx's padding: rows that they select were missing.

`v > 'ab'` keeps ``'ab  '`` where blanks are characters like others, as for DuckDB, Polars and PyArrow.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakeidx
from lakeidx.api.dataset import TableDataset, predicate_of_arrow

duckdb = pytest.importorskip("duckdb")
polars = pytest.importorskip("polars")

from lakeidx import duckdb as lake_duckdb  # noqa: E402
from lakeidx import polars as lake_polars  # noqa: E402


def _table(folder: Path, type_text: str, values: list[Any]) -> lakeidx.Table:
    table = lakeidx.Table.create(
        f"{folder}/d.db/t",
        {"fields": [{"name": "id", "type": "INT NOT NULL"}, {"name": "v", "type": type_text}], "primaryKeys": ["id"],
         "options": {"bucket": "1"}},
    )  # fmt: skip
    t = table.schema.arrow_schema.field("v").type
    table.upsert(pa.table({"id": pa.array(range(1, len(values) + 1), pa.int32()), "v": pa.array(values, t)}))
    return table


@pytest.mark.parametrize(
    ("op", "ids"), [(">", [2, 3]), ("<>", [1, 2, 3, 4]), (">=", [2, 3]), ("<", [1, 4]), ("<=", [1, 4]), ("=", [])]
)
def test_blanks_count_for_engines(tmp_path: Path, op: str, ids: list[int]) -> None:
    table = _table(tmp_path, "CHAR(4)", ["a", "ab", "abc", ""])
    connection = duckdb.connect()
    lake_duckdb.register(connection, "t", table)
    assert connection.sql(f"SELECT list(id ORDER BY id) FROM t WHERE v {op} 'ab'").fetchall() == [(ids or None,)]
    compare = {">": "gt", "<>": "ne", ">=": "ge", "<": "lt", "<=": "le", "=": "eq"}[op]
    frame = lake_polars.scan(table).filter(getattr(polars.col("v"), compare)("ab"))
    assert sorted(frame.collect()["id"].to_list()) == ids
    column = pc.field("v")
    tests = {">": column > "ab", "<>": column != "ab", ">=": column >= "ab", "<": column < "ab", "<=": column <= "ab",
             "=": column == "ab"}  # fmt: skip
    rows = TableDataset(table).scanner(filter=tests[op]).to_table()
    assert sorted(rows.column("id").to_pylist()) == ids


@pytest.mark.parametrize(
    ("where", "ids"),
    [("v LIKE ''", []), ("v NOT LIKE ''", [1, 2]), ("v = ''", [2]), ("v LIKE 'ab'", []), ("v LIKE 'ab  '", [1]),
     ("v LIKE 'ab%'", [1])],
)  # fmt: skip
def test_a_pattern_does_not_pad(tmp_path: Path, where: str, ids: list[int]) -> None:
    table = _table(tmp_path, "CHAR(4)", ["ab", "", None])
    assert table.scan(where=where).to_arrow().column("id").to_pylist() == ids


def test_what_was_a_char_compares_its_blanks(tmp_path: Path) -> None:
    """Statistics of files from before the change were asked with the literal padded."""
    table = _table(tmp_path, "CHAR(4)", ["ab"])
    table.alter(types={"v": "STRING"})
    assert table.scan().to_arrow().column("v").to_pylist() == ["ab  "]
    for where, rows in (("v > 'ab'", 1), ("v = 'ab'", 0), ("v <= 'ab'", 0), ("v = 'ab  '", 1), ("v <> 'ab'", 1)):
        assert table.scan(where=where).to_arrow().num_rows == rows, where


@pytest.mark.parametrize("type_text", ["BYTES", "BINARY(4)", "VARBINARY(2)"])
def test_bytes_are_compared_with_bytes(tmp_path: Path, type_text: str) -> None:
    """DuckDB could not compare a column with an empty BLOB: PyArrow shows it as an empty text."""
    table = _table(tmp_path, type_text, [b"", b"ab", b"b"])
    connection = duckdb.connect()
    lake_duckdb.register(connection, "t", table)
    for condition, ids in (("v = ''::BLOB", [1]), ("v > 'a'::BLOB", [2, 3]), ("v IN ('ab'::BLOB, ''::BLOB)", [1, 2])):
        assert connection.sql(f"SELECT list(id ORDER BY id) FROM t WHERE {condition}").fetchall() == [(ids,)], condition
    assert table.scan(where=predicate_of_arrow(pc.field("v") == b"ab", table.schema.fields, table.schema.arrow_schema)).to_arrow(
    ).column("id").to_pylist() == [2]  # fmt: skip
