"""Tables inferred from files: what is proposed, what is written, what is loaded, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
import shlex
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pyarrow as pa
import pytest

from lakeidx.api.inference.infer import infer_table
from lakeidx.api.table import Table
from lakeidx.cli.table_commands import _reading
from lakeidx.errors import InvalidInputError, LakeIdxError
from lakeidx.pipeline_file.model import load_pipeline
from tests.kit.command_line import call

GERMAN = (
    "Kunden-Nr;Größe;Betrag;Datum;Aktiv;PLZ\r\n"
    "1;M;1.234,50;02.11.2026;ja;01234\r\n2;L;-0,5;13.12.2026;nein;80331\r\n3;x\r\n"
).encode("cp1252")


def types(folder: Path, **given: Any) -> dict[str, Any]:
    return {f["name"]: f["type"] for f in infer_table(str(folder), **given).attributes["fields"]}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_of_excel_becomes_a_table_a_pipeline_file_and_its_rows(here: Path) -> None:
    (here / "in/kunden.csv").write_bytes(GERMAN)
    shown = call("init", "in", "--table", "lake/shop.db/kunden", "--yes", "--json").output
    assert "line 4: 2 columns instead of 6" in shown
    assert "line 1 is not UTF-8: encoding cp1252" in shown
    rows = Table.open("lake/shop.db/kunden").scan().to_arrow().to_pylist()
    assert rows == [
        {"kunden_nr": 1, "grosse": "M", "Betrag": Decimal("1234.50"), "Datum": dt.date(2026, 11, 2), "Aktiv": True, "PLZ": "01234"},
        {"kunden_nr": 2, "grosse": "L", "Betrag": Decimal("-0.50"), "Datum": dt.date(2026, 12, 13), "Aktiv": False, "PLZ": "80331"},
    ]  # fmt: skip
    file = here / "pipelines/kunden.yaml"
    text = file.read_text()
    assert "'DECIMAL(18, 2)'}  # DECIMAL, which is exact" in text
    assert "kunden_nr: 2 rows, each another, none null" in text
    assert all(word in text for word in ("schedules:", "# max_rejected:", "# expectations:"))
    config = load_pipeline(file)
    assert (config.table, config.primary_keys) == ("shop.kunden", ("kunden_nr",))
    assert config.landing_options().renamed == {"Kunden-Nr": "kunden_nr", "Größe": "grosse"}
    assert (
        "remove it, or name another table"
        in call("init", "in", "--table", "lake/shop.db/kunden", "--yes", code=2).output
    )


def test_without_an_answer_nothing_is_written(here: Path) -> None:
    (here / "in/a.csv").write_text("id,v\n1,x\n")
    assert "nothing is done yet: --yes does it" in call("init", "in", code=2).output
    assert sorted(p.name for p in here.iterdir()) == ["in"]


def test_in_a_project_of_dg_the_component_is_written(here: Path) -> None:
    (here / "pyproject.toml").write_text('[tool.dg.project]\nroot_module = "shop"\n')
    (here / "src/shop/defs").mkdir(parents=True)
    (here / "in/a.csv").write_text("id,price\n1,2.5\n")
    call("init", "in/a.csv", "--yes")
    text = (here / "src/shop/defs/a/defs.yaml").read_text()
    assert text.startswith("type: lakeidx.dagster.PrimaryKeyTable\nattributes:\n  # ")
    assert "  - {name: price, type: 'DECIMAL(18, 2)'}" in text
    assert not (here / "pipelines").exists()


def test_when_the_first_batch_fails_nothing_stays(here: Path) -> None:
    (here / "in/a.csv").write_text("id,v\n" + "".join(f"{i},x\n" for i in range(100_000)))
    (here / "in/b.csv").write_text("id,v\n1,x\n")
    # Beyond the rows that are looked at.
    with (here / "in/a.csv").open("a") as file:
        file.write('1,"open\n')
    assert "never closed" in call("init", "in", "--yes", "--key", "id", code=2).output
    assert not (here / "pipelines").exists()
    assert not list((here / "warehouse").rglob("schema"))


@pytest.mark.parametrize(
    ("files", "arguments", "says"),
    [
        ({}, (), "no landing files"),
        ({"a.foo": "x"}, (), "of a.foo the kind is unknown: say --format"),
        ({"a.csv": "a,b\nx,y\nx,y\n"}, (), "name the primary key with --key; the files have a, b"),
        ({"a.csv": "a\n1\n"}, ("--key", "id"), "there is no column id; the files have a"),
        ({"a.csv": "a,b\n1,x\n2,x\n", "b.csv": "a,b\nq,x\nr,x\n"}, (), "column a is text here, and BIGINT in"),
        ({"a.csv": "a,b\n1,x\n", "b.csv": "c,d\n1,x\n"}, (), "make a table of each"),
        ({"a.csv": "a,b\n1,x\n", "b.csv": "a;b\n1;x\n"}, (), "give files that are written alike"),
        ({"a.csv": "1,2\n3,4\n"}, (), "the first line looks like a row"),
        ({"a.json": '{"a": [{"x": 1}],\n "b": [{"y": 1}]}'}, (), "several arrays, a, b"),
    ],
)  # fmt: skip
def test_what_gives_no_table_is_refused_in_one_line(
    here: Path, files: dict[str, str], arguments: tuple[str, ...], says: str
) -> None:
    for name, text in files.items():
        (here / "in" / name).write_text(text)
    shown = call("init", "in", "--yes", *arguments, code=2).output
    assert says in shown
    assert shown.count("\n") == 1
    assert sorted(p.name for p in here.iterdir()) == ["in"]


def test_types_are_those_that_all_values_have(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "id,big,money,measured,exp,flag,day,at,instant,none,mixed\n"
        "1,12345678901234567,1.5,0.123456,1e3,t,2026-01-02,2026-01-02 03:04:05,2026-01-02T03:04:05.5Z,,1\n"
        "2,-1,22,2.5,2,f,2026-01-03,2026-01-02 03:04:05,2026-01-02T03:04:05+01:00,,a\n"
    )
    assert types(tmp_path) == {
        "id": "BIGINT", "big": "BIGINT", "money": "DECIMAL(18, 2)", "measured": "DOUBLE", "exp": "DOUBLE", "flag": "BOOLEAN",
        "day": "DATE", "at": "TIMESTAMP(0)", "instant": "TIMESTAMP(3) WITH LOCAL TIME ZONE", "none": "STRING", "mixed": "STRING",
    }  # fmt: skip


def test_json_and_excel_and_parquet_are_looked_at(tmp_path: Path) -> None:
    for name in ("json", "excel", "parquet"):
        (tmp_path / name).mkdir()
    rows = [{"id": 1, "price": 9.99, "note": "007"}, {"id": 2, "price": 1.5, "note": "x"}]
    (tmp_path / "json/a.json").write_text('{"meta": {},\n "items": ' + json.dumps(rows) + "}")
    book = openpyxl.Workbook()
    for row in (["id", "price", "note"], *([*r.values()] for r in rows)):
        book.active.append(row)
    book.save(tmp_path / "excel/a.xlsx")
    pd.DataFrame(rows).to_parquet(tmp_path / "parquet/a.parquet")
    found = {n: types(tmp_path / n) for n in ("json", "excel", "parquet")}
    assert found["json"] == {"id": "BIGINT", "price": "DECIMAL(18, 2)", "note": "STRING"}
    assert found["excel"] == found["parquet"] == {**found["json"], "price": "DECIMAL(18, 4)"}
    assert infer_table(str(tmp_path / "json")).attributes["landing"]["member"] == "items"


def test_a_table_is_made_of_files_and_of_rows(here: Path) -> None:
    (here / "in/a.csv").write_bytes(GERMAN)
    (here / "in/b.csv").write_bytes(GERMAN.replace(b"1;M", b"7;M").replace(b"2;L", b"8;L"))
    call("table", "create", "w/d.db/files", "--from", "in/a.csv", "in/b.csv", "--key", "Kunden-Nr")
    made = Table.open("w/d.db/files")
    assert made.schema.primary_keys == ("kunden_nr",)
    assert sorted(made.scan().to_arrow()["kunden_nr"].to_pylist()) == [1, 2, 7, 8]
    assert "give --schema FILE, or --from FILE" in call("table", "create", "w/d.db/x", code=2).output
    rows = pa.table({"id": [1, 2], "price": [9.99, 1.5], "s": ["a", "007"]})
    of_rows = Table.create_from(str(here / "w/d.db/rows"), rows, primary_key=["id"])
    assert [str(f.type) for f in of_rows.schema.fields] == ["BIGINT NOT NULL", "DECIMAL(18, 4)", "STRING"]
    assert of_rows.scan().to_arrow().num_rows == 2
    with pytest.raises(InvalidInputError, match="there is no column no"):
        Table.create_from(str(here / "w/d.db/other"), rows, primary_key=["no"])
    with pytest.raises(LakeIdxError):
        Table.open(str(here / "w/d.db/other"))


def test_the_words_after_it_load_new_files_by_what_was_found(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(GERMAN)
    found = infer_table(str(tmp_path))
    table = Table.create(
        str(tmp_path / "w/d.db/t"), {n: found.attributes[n] for n in ("fields", "primaryKeys", "options")}
    )
    call("load", table.uri, *shlex.split(_reading(found)), "--settle", "0")
    assert sorted(table.scan().to_arrow()["Betrag"].to_pylist()) == [Decimal("-0.50"), Decimal("1234.50")]


# ---- the layout of a CSV: title lines, delimiters, lines that are no header; measured columns are no key -------------


@pytest.mark.parametrize(
    ("text", "landing"),
    [
        ("id,name\n1,a\n2,b\n", {}),
        ("id;name\n1;a,b\n2;c,d\n", {"delimiter": ";"}),
        ("id;a;b\n1;1,5;2,5\n2;3,5;4,5\n", {"delimiter": ";", "decimal": ","}),
        ("Report of May\n\nid,a,b\n1,x,y\n2,x,z\n", {"skip_lines": 2}),
        ("Report of May\nid;a;b\n1;1,5;2,5\n2;3,5;4,5\n", {"skip_lines": 1, "delimiter": ";", "decimal": ","}),
        ("Report;;\nid;a;b\n1;x;y\n2;x;z\n", {"skip_lines": 1, "delimiter": ";"}),
        ("sep=;\nid;a\n1;x\n", {"delimiter": ";"}),
        ("id\n1\n2\n", {}),
        ('id,"a\nb",c\n1,x,y\n2,x,z\n', {}),
    ],
)
def test_layouts(tmp_path: Path, text: str, landing: dict[str, object]) -> None:
    file = tmp_path / "a.csv"
    file.write_text(text, encoding="utf-8")
    found = infer_table(str(file), keys=["id"]).attributes["landing"]
    assert {k: v for k, v in found.items() if k not in ("path", "pattern", "columns")} == landing


@pytest.mark.parametrize("text", ["id\n1,a\n2,b\n", "x y\n1,a\n2,b\n", "a,b\n1,2,3\n4,5,6\n"])
def test_a_first_line_with_fewer_fields_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"the first line has \d fields? between ',', most have \d"):
        infer_table(str(file))


def test_what_is_measured_or_may_be_null_is_no_key(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("price,paid,lot\n1.50,yes,n/a\n2.50,no,7\n3.50,yes,8\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="name the primary key with --key"):
        infer_table(str(file))
