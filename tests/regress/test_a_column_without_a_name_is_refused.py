"""Columns without a name: `merge_schema` added the header ``,a`` of a CSV file as column ``''``, and Java could not open the table.

Java Paimon wants a character that is not blank in every name (RowType.validateFields), and different names, also inside of columns.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx import Table
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema import rules
from lakeidx.landing.read import LandingOptions

SPEC: dict[str, Any] = {
    "fields": [{"name": "id", "type": "INT"}, {"name": "c", "type": "STRING"}],
    "primaryKeys": ["id"],
    "partitionKeys": [],
    "options": {"bucket": "1"},
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table.create(f"{tmp_path}/d.db/t", SPEC)


def refused(table: Table, place: int, name: str) -> Any:
    return pytest.raises(InvalidInputError, match=re.escape(f"column {place} has no name ({name!r})"))


@pytest.mark.parametrize("policy", ["refuse", "add", "widen"])
@pytest.mark.parametrize(("header", "place"), [(",id,c", 1), ("id,c,,", 3), ("id,c, ", 3), ("id,c,\u3000", 3)])
def test_headers_of_csv(table: Table, header: str, place: int, policy: str, tmp_path: Path) -> None:
    file = tmp_path / "f.csv"
    names = header.split(",")
    file.write_text(header + "\n" + ",".join({"id": "1", "c": "x"}.get(n, "0") for n in names) + "\n")
    with refused(table, place, names[place - 1]):
        table.upsert_files([file], LandingOptions(merge_schema=policy))
    assert table.schema.field_names == ("id", "c")
    # The way out that the message names.
    table.upsert_files([file], LandingOptions(merge_schema=policy, ignore_extra=True))
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "c": "x"}]


@pytest.mark.parametrize("policy", ["refuse", "add"])
def test_files_of_other_formats_and_rows_in_memory(table: Table, policy: str, tmp_path: Path) -> None:
    options = LandingOptions(merge_schema=policy)
    (tmp_path / "f.jsonl").write_text('{"id": 1, "c": "x", "": 1}\n')
    indexed = pd.DataFrame({"id": [0, 1], "c": ["a", "b"]}).query("id > 0")
    indexed.to_parquet(tmp_path / "f.parquet")
    unnamed = pa.table({"id": [1], "c": ["x"], "\t": [1]})
    with pa.OSFile(str(tmp_path / "f.arrow"), "wb") as sink, pa.ipc.new_file(sink, unnamed.schema) as writer:
        writer.write_table(unnamed)
    for name, column in (("f.jsonl", ""), ("f.parquet", "__index_level_0__"), ("f.arrow", "\t")):
        with refused(table, 3, column):
            table.upsert_files([tmp_path / name], options)
    for rows, column in (
        (indexed, "__index_level_0__"),
        (pl.DataFrame({"id": [1], "c": ["x"], "": [1]}), ""),
        ([{"id": 1, "c": "x", " ": 1}], " "),
        (unnamed, "\t"),
    ):
        with refused(table, 3, column):
            table.upsert(rows, merge_schema=policy)
    # By its line in JSON that comes later.
    (tmp_path / "g.jsonl").write_text('{"id": 1, "c": "x"}\n{"id": 2, "c": "x", "": 1}\n')
    if policy == "add":
        with refused(table, 3, ""):
            table.upsert_files([tmp_path / "g.jsonl"], options)
    assert table.schema.field_names == ("id", "c")


def test_an_index_with_a_name_of_the_table_is_a_column(table: Table) -> None:
    table.upsert(pd.DataFrame({"id": [1, 2], "c": ["a", "b"]}).set_index("id"))
    assert table.scan().to_arrow().num_rows == 2


def test_a_table_that_has_such_a_column_takes_it(tmp_path: Path) -> None:
    spec = {**SPEC, "fields": [*SPEC["fields"], {"name": "__index_level_0__", "type": "BIGINT"}]}
    table, file = Table.create(f"{tmp_path}/d.db/i", spec), tmp_path / "f.parquet"
    pq.write_table(pa.table({"id": [1], "c": ["x"], "__index_level_0__": [7]}), file)
    table.upsert_files([file])
    assert table.scan().to_arrow().column(2).to_pylist() == [7]


def inside(*names: str) -> dict[str, Any]:
    fields = [{"id": i, "name": n, "type": "INT"} for i, n in enumerate(names)]
    return {"name": "r", "type": {"type": "ARRAY", "element": {"type": "ROW", "fields": fields}}}


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ({"name": "\u2003", "type": "INT"}, r"fields\[2\] must be an object with a 'name'"),
        (inside("a", ""), r"field 2 of r has no name \(''\)"),
        (inside("a", "b", "a"), "field 3 of r: the name 'a' is there twice"),
        ({"name": "\ud800", "type": "INT"}, r"column 3: the name '\\ud800' is not valid Unicode"),
        ({"name": "r", "type": {"type": "ROW", "fields": [{"id": 0, "name": 5, "type": "INT"}]}}, "not 5"),
    ],
)
def test_schemas(field: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=words):
        Table.create(f"{tmp_path}/d.db/u", {**SPEC, "fields": [*SPEC["fields"], field]})


@pytest.mark.parametrize("name", ["", " ", "\u3000"])
def test_alterations(table: Table, name: str) -> None:
    with refused(table, 3, name):
        table.alter(add={name: "INT"})
    with refused(table, 2, name):
        table.alter(rename={"c": name})
    with pytest.raises(InvalidInputError, match="field 1 of r has no name"):
        table.upsert(pa.table({"id": [1], "c": ["x"], "r": [{name: 1}]}), merge_schema="add")
    assert table.schema.field_names == ("id", "c")


@pytest.mark.parametrize("change", [{"rename": {"": "n"}}, {"drop": [""]}])
def test_a_table_that_got_one_before_is_named_with_the_way_out(
    tmp_path: Path, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(rules, "_check_siblings", lambda fields, inside: None)
        table = Table.create(f"{tmp_path}/d.db/n", SPEC)
        table.alter(add={"": "INT"})
        table.upsert(pa.table({"id": [1], "c": ["x"], "": pa.array([7], pa.int32())}))
    fault = next(r for r in table.verify().results if r.name == "files_readable")
    assert not fault.passed
    assert "column 3 has no name (''); Java Paimon cannot open the table: name it" in str(fault.sample)
    table = Table.open(table.uri)
    table.alter(**change)
    assert table.verify().passed
    assert table.scan().to_arrow().num_rows == 1
    if "rename" in change:
        assert table.scan().to_arrow().column("n").to_pylist() == [7]
