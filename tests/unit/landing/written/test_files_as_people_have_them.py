"""Files as programs export them, in several languages: the same rows from each, by options alone."""

from __future__ import annotations

import datetime as dt
import inspect
import io
import json
import re
from collections.abc import Callable
from dataclasses import fields
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pytest

from lakeidx.api.table import Table
from lakeidx.batch.stages.rejected_rows import read_rejected
from lakeidx.cli.inputs import landing_options
from lakeidx.errors import LakeIdxError
from lakeidx.landing.types import LandingOptions
from lakeidx.pipeline_file.sections import LandingConfig

SPEC = {
    "fields": [
        {"name": "id", "type": "BIGINT"},
        {"name": "name", "type": "STRING"},
        {"name": "total", "type": "DECIMAL(10, 2)"},
        {"name": "day", "type": "DATE"},
        {"name": "at", "type": "TIMESTAMP(3) WITH LOCAL TIME ZONE"},
        {"name": "ok", "type": "BOOLEAN"},
    ],
    "primaryKeys": ["id"],
    "options": {"bucket": "1"},
}
UTC = dt.UTC
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": 'Zoë "Z"; x', "total": Decimal("1234.50"), "day": dt.date(2026, 11, 2),
     "at": dt.datetime(2026, 11, 2, 9, 30, tzinfo=UTC), "ok": True},
    {"id": 2, "name": "two\nlines, ß", "total": Decimal("-0.50"), "day": dt.date(2026, 3, 4),
     "at": dt.datetime(2026, 7, 1, 22, 5, tzinfo=UTC), "ok": False},
    {"id": 3, "name": "null", "total": None, "day": None, "at": None, "ok": None},
]  # fmt: skip


def table(folder: Path) -> Table:
    return Table.create(str(folder / "wh/d.db/t"), SPEC)


def loaded(folder: Path, name: str, content: bytes, **options: Any) -> list[dict[str, Any]]:
    made = table(folder)
    file = folder / name
    file.write_bytes(content)
    result = made.upsert_files([str(file)], LandingOptions(**options))
    path = result.ingest.rejected_path
    assert path is None, read_rejected(made.store, path).to_pylist()
    return sorted(made.scan().to_arrow().to_pylist(), key=lambda r: r["id"])


def rejected(folder: Path, name: str, content: bytes, **options: Any) -> list[tuple[int, str]]:
    made = table(folder)
    file = folder / name
    file.write_bytes(content)
    path = made.upsert_files([str(file)], LandingOptions(**options)).ingest.rejected_path
    assert path is not None
    return [(r["line"], r["reason"]) for r in read_rejected(made.store, path).to_pylist()]


# The rows as texts: names of the columns, how values look, how records are put together.
def number(point: str, group: str = "", *, behind: bool = False) -> Callable[[Decimal], str]:
    def shown(value: Decimal) -> str:
        text = f"{abs(value):,.2f}".replace(",", "\0").replace(".", point).replace("\0", group)
        return (f"{text}-" if behind else f"-{text}") if value < 0 else text

    return shown


def dates(day: str, at: str, hours: int | None = None) -> Callable[[dt.date], str]:
    """Texts of dates; of instants on the clocks of Berlin, unless hours from UTC are given."""

    def shown(value: dt.date) -> str:
        if not isinstance(value, dt.datetime):
            return value.strftime(day)
        offset = hours if hours is not None else 2 if value.month in range(4, 10) else 1
        return (value + dt.timedelta(hours=offset)).strftime(at)

    return shown


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def spark_quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def copy_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def written(
    names: str,
    *,
    sep: str = ",",
    end: str = "\n",
    numbers: Callable[[Decimal], str] = number("."),
    times: Callable[[dt.date], str] = dates("%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ", 0),
    words: tuple[str, str] = ("true", "false"),
    null: str = "",
    text: Callable[[str], str] = quoted,
    every: bool = False,
    before: str = "",
    encoding: str = "utf-8",
) -> bytes:
    def cell(value: Any) -> str:
        if value is None:
            return null
        if isinstance(value, bool):
            shown = words[0] if value else words[1]
        elif isinstance(value, Decimal):
            shown = numbers(value)
        elif isinstance(value, dt.date):
            shown = times(value)
        else:
            shown = str(value)
        return text(shown) if isinstance(value, str) or every or (sep in shown and text is quoted) else shown

    lines = [before + names, *(sep.join(cell(v) for v in row.values()) for row in ROWS)]
    return "".join(line + end for line in lines).encode(encoding)


def frame() -> pd.DataFrame:
    return pd.DataFrame(ROWS).assign(id=[1.0, 2.0, 3.0])


def pandas_csv(**options: Any) -> bytes:
    return str(frame().to_csv(index=False, **options)).encode()


def pandas_json(**options: Any) -> bytes:
    rows = [{k: str(v) if isinstance(v, (Decimal, dt.date)) else v for k, v in row.items()} for row in ROWS]
    return json.dumps(rows, **options).encode()


def excel(header: list[str], *, before: int = 0, sheets: tuple[str, ...] = ("Tabelle1",), texts: bool = False) -> bytes:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name in sheets:
        sheet = book.create_sheet(name)
    for i in range(before):
        sheet.append([f"Report {i}"])
    sheet.append(header)
    for row in ROWS:
        total, at = row["total"], row["at"]
        local = None if at is None else (at + dt.timedelta(hours=2 if at.month == 7 else 1)).replace(tzinfo=None)
        shown = None if total is None else number(",", ".")(total) if texts else float(total)
        sheet.append([row["id"], row["name"], shown, row["day"], local, row["ok"]])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


COLUMNS = ["id", "name", "total", "day", "at", "ok"]
PLAIN = ",".join(COLUMNS)
NAMES = {
    "de": ["Kunden-Nr", "Name", "Betrag", "Datum", "Zeitpunkt", "Aktiv"],
    "fr": ["N° client", "Nom", "Montant (€)", "Date", "Créé le", "Actif"],
    "es": ["Número", "Nombre", "Importe", "Fecha", "Creado", "Activo"],
    "it": ["Codice", "Nome", "Importo", "Data", "Creato", "Attivo"],
    "pl": ["Nr klienta", "Nazwa", "Kwota", "Dzień", "Utworzono", "Aktywny"],
    "en": ["Customer ID", "Full name", "Amount", "Day", "Created at", "Active?"],
}


def named(language: str, sep: str = ";") -> str:
    return sep.join(quoted(n) if sep in n else n for n in NAMES[language])


def to_table(language: str) -> dict[str, str | None]:
    return dict(zip(NAMES[language], COLUMNS, strict=True))


BERLIN = {"timezone": "Europe/Berlin"}
GERMAN = {"decimal": ",", "thousands": ".", "date_formats": ["%d.%m.%Y", "%d.%m.%Y %H:%M"], **BERLIN}
GERMAN_TEXT: dict[str, Any] = {"numbers": number(",", "."), "times": dates("%d.%m.%Y", "%d.%m.%Y %H:%M")}
SLASHES: dict[str, Any] = {"times": dates("%d/%m/%Y", "%d/%m/%Y %H:%M:%S")}
SLASHED = {"date_formats": ["%d/%m/%Y", "%d/%m/%Y %H:%M:%S"], **BERLIN}
US: dict[str, Any] = {"times": dates("%m/%d/%Y", "%m/%d/%Y %I:%M %p")}
US_FORMATS = {"date_formats": ["%m/%d/%Y", "%m/%d/%Y %I:%M %p"], **BERLIN}
SAP: dict[str, Any] = {
    "numbers": number(",", ".", behind=True),
    "times": dates("%Y%m%d", "%Y%m%d%H%M%S"),
    "words": ("X", "N"),
}
SAP_FORMATS = {
    "decimal": ",",
    "thousands": ".",
    "date_formats": ["%Y%m%d", "%Y%m%d%H%M%S"],
    "true_values": ["X"],
    **BERLIN,
}

#: What wrote the file, its name, its bytes, the options that read it.
FILES: list[tuple[str, str, bytes, dict[str, Any]]] = [
    ("Excel de CSV", "a.csv", written(named("de"), sep=";", end="\r\n", words=("WAHR", "FALSCH"), encoding="cp1252", **GERMAN_TEXT),
     {**GERMAN, "encoding": "cp1252", "columns": to_table("de"), "true_values": ["wahr"], "false_values": ["falsch"]}),
    ("Excel de CSV UTF-8", "a.csv", written(named("de"), sep=";", end="\r\n", encoding="utf-8-sig", **GERMAN_TEXT),
     {**GERMAN, "columns": to_table("de")}),
    ("Excel de sep=", "a.csv", written(named("de", "|"), sep="|", end="\r\n", before="sep=|\r\n", **GERMAN_TEXT),
     {**GERMAN, "columns": to_table("de")}),
    ("Excel Unicode text", "a.txt", written(named("de", "\t"), sep="\t", end="\r\n", encoding="utf-16", **GERMAN_TEXT),
     {**GERMAN, "format": "csv", "columns": to_table("de")}),
    ("Excel fr CSV", "a.csv", written(named("fr"), sep=";", end="\r\n", numbers=number(",", "\u00a0"), words=("VRAI", "FAUX"),
     encoding="cp1252", **SLASHES),
     {**SLASHED, "decimal": ",", "thousands": " ", "encoding": "windows-1252", "columns": to_table("fr"), "true_values": ["VRAI"],
      "false_values": ["FAUX"]}),
    ("LibreOffice fr, narrow blank", "a.csv", written(named("fr"), sep=";", numbers=number(",", "\u202f"), words=("oui", "non"),
     **SLASHES),
     {**SLASHED, "decimal": ",", "thousands": " ", "columns": to_table("fr"), "true_values": ["oui"], "false_values": ["non"]}),
    ("Excel es CSV", "a.csv", written(named("es"), sep=";", end="\r\n", numbers=number(",", "."), words=("VERDADERO", "FALSO"),
     encoding="latin-1", **SLASHES),
     {**SLASHED, "decimal": ",", "thousands": ".", "encoding": "latin-1", "columns": to_table("es"), "true_values": ["verdadero"],
      "false_values": ["falso"]}),
    ("Excel it CSV", "a.csv", written(named("it"), sep=";", end="\r\n", numbers=number(","), words=("VERO", "FALSO"), **SLASHES),
     {**SLASHED, "decimal": ",", "columns": to_table("it"), "true_values": ["VERO"], "false_values": ["FALSO"]}),
    ("Excel pl CSV", "a.csv", written(named("pl"), sep=";", end="\r\n", numbers=number(",", " "), words=("PRAWDA", "NIE"),
     times=dates("%d.%m.%Y", "%d.%m.%Y %H:%M:%S"), encoding="cp1250"),
     {"decimal": ",", "thousands": " ", "date_formats": ["%d.%m.%Y", "%d.%m.%Y %H:%M:%S"], "encoding": "cp1250", **BERLIN,
      "columns": to_table("pl"), "true_values": ["prawda"], "false_values": ["nie"]}),
    ("Excel en-US CSV", "a.csv", written(named("en", ","), end="\r\n", numbers=number(".", ","), words=("TRUE", "FALSE"), **US),
     {**US_FORMATS, "thousands": ",", "columns": to_table("en")}),
    ("Excel de-CH CSV", "a.csv", written(named("de"), sep=";", numbers=number(".", "’"), times=GERMAN_TEXT["times"]),
     {**GERMAN, "decimal": ".", "thousands": "'", "columns": to_table("de")}),
    ("Excel UTF-16 BE", "a.csv", b"\xfe\xff" + written(PLAIN, encoding="utf-16-be"), {}),
    ("UTF-16 without mark", "a.csv", written(PLAIN, encoding="utf-16-le"), {"encoding": "utf-16-le"}),
    ("UTF-8 mark against option", "a.csv", written(PLAIN, encoding="utf-8-sig"), {"encoding": "latin-1"}),
    ("Excel for Mac", "a.csv", written(PLAIN, end="\r", encoding="mac-roman"), {"encoding": "mac-roman"}),
    ("LibreOffice all quoted", "a.csv", written(PLAIN, every=True), {}),
    ("LibreOffice tabs", "a.tsv", written(PLAIN.replace(",", "\t"), sep="\t"), {"format": "csv", "delimiter": "\\t"}),
    ("LibreOffice minus sign", "a.csv", written(named("de"), sep=";", numbers=lambda v: number(",")(v).replace("-", "−"),
     times=GERMAN_TEXT["times"]), {**GERMAN, "thousands": "", "columns": to_table("de")}),
    ("LibreOffice single quotes", "a.csv", written(PLAIN, text=lambda t: f"'{t}'"), {"quote": "'"}),
    ("pandas to_csv", "a.csv", pandas_csv(), {}),
    ("pandas to_csv de", "a.csv", pandas_csv(sep=";", date_format="%d.%m.%Y %H:%M", na_rep="NaN"),
     {"date_formats": ["iso", "%d.%m.%Y %H:%M"], "null_values": ["NaN"]}),
    ("pandas to_json", "a.json", pandas_json(indent=2, ensure_ascii=False), {}),
    ("pandas to_json lines", "a.jsonl", b"\n".join(json.dumps(r).encode() for r in json.loads(pandas_json())), {}),
    ("pandas to_json table", "a.json", b'{"schema": {"fields": [{"data": []}]},\n "data": ' + pandas_json(indent=1) + b"}",
     {"member": "data"}),
    ("Spark CSV", "part-0.csv", written(PLAIN, text=spark_quoted), {"escape": "\\"}),
    ("Spark CSV offsets", "part-0.csv", written(PLAIN, text=spark_quoted,
     times=dates("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S.000+01:00", 1)),
     {"escape": "\\"}),
    ("Spark CSV null", "part-0.csv", written(PLAIN, text=spark_quoted, null="NULL"), {"escape": "\\", "null_values": ["NULL"]}),
    ("Spark no header", "part-0.csv", written("").lstrip(), {"columns": COLUMNS}),
    ("Postgres COPY csv", "a.csv", written(PLAIN, words=("t", "f"), times=dates("%Y-%m-%d", "%Y-%m-%d %H:%M:%S+00", 0)), {}),
    ("Postgres COPY text", "a.copy", written("", sep="\t", null="\\N", text=copy_text, words=("t", "f"),
     times=dates("%Y-%m-%d", "%Y-%m-%d %H:%M:%S+00", 0)).lstrip(),
     {"format": "csv", "delimiter": "\t", "quote": "", "escape": "\\", "null_values": ["\\N"], "columns": COLUMNS}),
    ("Postgres COPY text de", "a.copy", written("", sep="\t", null="\\N", text=copy_text, words=("t", "f"),
     times=dates("%d.%m.%Y", "%d.%m.%Y %H:%M:%S")).lstrip(),
     {"format": "csv", "delimiter": "\t", "quote": "", "escape": "\\", "null_values": ["\\N"], "columns": COLUMNS,
      "date_formats": ["%d.%m.%Y", "%d.%m.%Y %H:%M:%S"], **BERLIN}),
    ("BigQuery CSV", "a.csv", written(PLAIN, times=dates("%Y-%m-%d", "%Y-%m-%d %H:%M:%S UTC", 0)),
     {"date_formats": ["iso", "%Y-%m-%d %H:%M:%S UTC"], "timezone": "UTC"}),
    ("BigQuery JSON", "a.json", b"".join(json.dumps({k: str(v) if isinstance(v, (int, Decimal, dt.date)) and not isinstance(v, bool)
     else v for k, v in r.items()}).encode() + b"\n" for r in ROWS), {}),
    ("Salesforce report", "a.csv", written(named("en", ","), every=True, **US), {**US_FORMATS, "columns": to_table("en")}),
    ("Salesforce report de", "a.csv", written(named("de"), sep=";", encoding="cp1252", before="Bericht\n\n", **GERMAN_TEXT),
     {**GERMAN, "encoding": "cp1252", "skip_lines": 2, "columns": to_table("de")}),
    ("Salesforce query", "a.json", json.dumps({"totalSize": 3, "done": True, "result": {"records": [
     {"attributes": {"type": "X"}, **r} for r in json.loads(pandas_json())]}}).encode(),
     {"member": "result.records", "columns": {"attributes": None}}),
    ("SAP list", "a.txt", written(named("de", "|"), sep="|", before="------\n* 02.11.2026\n", **SAP),
     {**SAP_FORMATS, "format": "csv", "skip_lines": 1, "comment": "*", "columns": to_table("de"), "false_values": ["N"]}),
    ("SAP tabs", "a.csv", written(named("de", "\t"), sep="\t", encoding="utf-16-le", before="\ufeff", **SAP),
     {**SAP_FORMATS, "columns": to_table("de")}),
    ("SAP user's format", "a.csv", written(named("de"), sep=";", numbers=number(".", ",", behind=True), times=dates("%Y/%m/%d",
     "%Y/%m/%d %H:%M:%S")),
     {"thousands": ",", "date_formats": ["%Y/%m/%d", "%Y/%m/%d %H:%M:%S"], **BERLIN, "columns": to_table("de")}),
    ("Excel de xlsx", "a.xlsx", excel(NAMES["de"]), {**BERLIN, "columns": to_table("de")}),
    ("Excel en xlsx, a sheet of several", "a.xlsx", excel(NAMES["en"], sheets=("Info", "Data"), before=3),
     {**BERLIN, "sheet": "Data", "skip_lines": 3, "columns": to_table("en")}),
    ("Excel xlsx numbers as text", "a.xlsx", excel(COLUMNS, texts=True), {**BERLIN, "decimal": ",", "thousands": "."}),
    ("LibreOffice xlsx no header", "a.xlsx", excel(COLUMNS), {**BERLIN, "skip_lines": 1, "columns": COLUMNS}),
    ("dates in words", "a.csv", written(PLAIN, times=lambda v: "4. März 2026" if v == dt.date(2026, 3, 4) else "2 nov. 2026"
     if v == dt.date(2026, 11, 2) else dates("", "%d.%m.%y %H:%M")(v)),
     {"date_formats": ["%d. %B %Y", "%d %b %Y", "%d.%m.%y %H:%M"], **BERLIN}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "options"), [f[1:] for f in FILES], ids=[f[0] for f in FILES])
def test_the_rows_of_every_export(tmp_path: Path, name: str, content: bytes, options: dict[str, Any]) -> None:
    # Line ends inside of values are those of the program.
    rows = loaded(tmp_path, name, content, **options)
    assert [{**r, "name": r["name"].replace("\r\n", "\n").replace("\r", "\n")} for r in rows] == ROWS


def test_there_are_forty_of_them() -> None:
    assert len(FILES) >= 40


@pytest.mark.parametrize(
    ("column", "value", "options", "says"),
    [
        ("total", "1.5", {"decimal": ","}, "column total is not DECIMAL(10, 2) with ',' before the fraction: '1.5'"),
        ("total", "1.23,4", {"decimal": ",", "thousands": "."}, "between thousands: '1.23,4'"),
        ("day", "31.02.2026", {"date_formats": ["%d.%m.%Y"]}, "column day is not DATE as %d.%m.%Y: '31.02.2026'"),
        ("day", "2026-02-03", {"date_formats": ["%d.%m.%Y"]}, "'2026-02-03'"),
        ("day", "13/02/2026", {"date_formats": ["%m/%d/%Y"]}, "'13/02/2026'"),
        ("at", "2026-10-25 02:30:00", BERLIN, "of Europe/Berlin, once on its clocks: '2026-10-25 02:30:00'"),
        ("at", "2026-03-29 02:30:00", BERLIN, "'2026-03-29 02:30:00'"),
        ("ok", "jein", {"true_values": ["ja"], "false_values": ["nein"]}, "column ok is not BOOLEAN (ja, nein): 'jein'"),
        ("id", "NULL", {"null_values": ["NULL"]}, "null: column id must not be null"),
    ],
)  # fmt: skip
def test_what_is_spelled_otherwise_is_rejected_with_line_column_and_value(
    tmp_path: Path, column: str, value: str, options: dict[str, Any], says: str
) -> None:
    names = ["id", column] if column != "id" else ["id"]
    good = ["9", ""] if column != "id" else ["9"]
    bad = ["8", value] if column != "id" else [value]
    content = "\n".join(";".join(r) for r in [names, good, bad]) + "\n"
    ((line, reason),) = rejected(tmp_path, "a.csv", content.encode(), delimiter=";", missing="null", **options)
    assert line == 3
    assert says in reason


def test_text_of_another_encoding_is_rejected_by_line_and_says_what_to_do(tmp_path: Path) -> None:
    content = "id,name\n1,a\n2,Größe\n".encode("latin-1")
    (found,) = rejected(tmp_path, "a.csv", content, missing="null")
    assert found[0] == 3
    assert "--encoding cp1252" in found[1]
    (tmp_path / "2").mkdir()
    (found,) = rejected(tmp_path / "2", "a.csv", b"id,name\n1,a\n2,\x81\n", missing="null", encoding="cp1252")
    assert found == (3, "format: not cp1252 text")


@pytest.mark.parametrize(
    ("name", "content", "options", "says"),
    [
        ("a.csv", "Kunden-Nr;Name\n1;x\n", {"delimiter": ";"}, "columns: {NAME: id}"),
        ("a.csv", "id;name\n1;x\n", {"delimiter": ","}, "--delimiter ';'"),
        ("a.csv", "id,name\n", {"columns": {"id": "idd"}}, "did you mean 'id'"),
        ("a.csv", "id,name\n1,x\n", {"constants": {"name": "y"}}, "constants or from_name give a value"),
        ("a.csv", "id\n1\n", {"constants": {"day": "soon"}}, "'soon' of column 'day' is not DATE"),
        ("a.csv", "id\n1\n", {"from_name": {"day": r"x-(\d+)"}}, "does not fit the file's name 'a.csv'"),
        ("a.json", '{"a": 1, "rows": [{"id": 1}]}', {"member": "data"}, "arrays are in: rows"),
        ("a.json", '{\n "rows": [{"id": 1}]}', {}, "--member"),
        ("a.json", '[{"id": 1},', {}, "the file is not whole"),
        ("a.json", '[{"id": 1}]\n[]', {}, "there is more after the JSON array that ends in line 1"),
        ("a.xlsx", "no book", {}, "not a readable .xlsx file"),
        ("a.xls", "no book", {}, "cannot derive the format"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_is_refused_in_one_line(
    tmp_path: Path, name: str, content: str, options: dict[str, Any], says: str
) -> None:
    made = table(tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(LakeIdxError) as error:
        made.upsert_files([str(tmp_path / name)], LandingOptions(**{"missing": "null", **options}))
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert made.snapshot is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"decimal": ";"}, "decimal is"),
        ({"decimal": ",", "thousands": ","}, "both ','"),
        ({"date_formats": ["%d.%q.%Y"]}, "unknown directive '%q'"),
        ({"date_formats": ["%d.%m"]}, "one day, month and year"),
        ({"date_formats": "%d.%m.%Y"}, "write a list"),
        ({"timezone": "Mars/Olympus"}, "unknown timezone"),
        ({"encoding": "klingon"}, "unknown encoding"),
        ({"quote": "''"}, "one ASCII character"),
        ({"delimiter": "|", "comment": "|"}, "the same character"),
        ({"true_values": ["J"], "false_values": ["j"]}, "among true_values and false_values"),
        ({"columns": {"a": "id", "b": "id"}}, "given twice"),
        ({"from_name": {"id": "x"}}, "needs a group"),
        ({"escape": "\\", "null_values": ["\\N"]}, "leave escape out"),
        ({"format": "parquet", "member": "x"}, "member is for JSON files"),
        ({"format": "debezium", "columns": {"a": "b"}}, "not for messages of debezium"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(LakeIdxError, match=re.escape(says)):
        LandingOptions(**options)


def test_columns_of_parquet_are_renamed_dropped_and_given_too(tmp_path: Path) -> None:
    made = table(tmp_path)
    (tmp_path / "2026-11-02").mkdir()
    file = tmp_path / "2026-11-02" / "kunden.parquet"
    pd.DataFrame({"Nr": [1], "name": ["a"], "x": [1]}).to_parquet(file)
    options = LandingOptions(
        columns={"Nr": "id", "x": None}, constants={"ok": True, "total": "1.50"},
        from_name={"day": r"/(\d{4}-\d\d-\d\d)/"}, missing="null",
    )  # fmt: skip
    made.upsert_files([str(file)], options)
    assert made.scan().to_arrow().to_pylist() == [
        {"id": 1, "name": "a", "total": Decimal("1.50"), "day": dt.date(2026, 11, 2), "at": None, "ok": True}
    ]


def test_every_option_of_the_reader_is_one_of_pipeline_files_and_of_the_command_line() -> None:
    own = {f.name for f in fields(LandingOptions)} - {"optional"}
    names = {"ignore_extra": "ignore_extra_columns", "missing": "missing_columns"}
    # The last one is of the whole file.
    assert {names.get(n, n) for n in own - {"merge_schema"}} <= LandingConfig.model_fields.keys()
    command = {"format": "file_format", "op_values": "op_value", "constants": "constant", "storage_options": "landing_option",
               "date_formats": "date_format", "true_values": "true_value", "false_values": "false_value",
               "null_values": "null_value"}  # fmt: skip
    assert {command.get(n, n) for n in own} == inspect.signature(landing_options).parameters.keys()


def test_a_pipeline_file_reads_as_the_options_say() -> None:
    text = {"path": "/in", "delimiter": "\\t", "columns": {"Kunden-Nr": "id", "Notiz": None},
            "constants": {"day": dt.date(2026, 1, 2)},
            "true_values": [1, "ja"], "decimal": ",", "timezone": "Europe/Berlin"}  # fmt: skip
    made = LandingConfig.model_validate(text).options()
    assert made == LandingOptions(
        delimiter="\t", columns={"Kunden-Nr": "id", "Notiz": None}, constants={"day": "2026-01-02"}, true_values=("1", "ja"),
        decimal=",", timezone="Europe/Berlin",
    )  # fmt: skip
    with pytest.raises(ValueError, match="decimal is"):
        LandingConfig.model_validate({"path": "/in", "decimal": ";"})


def test_a_guess_is_said(tmp_path: Path) -> None:
    made = table(tmp_path)
    (tmp_path / "a.csv").write_text("id;name\n1;x\n")
    notes = made.upsert_files([str(tmp_path / "a.csv")], LandingOptions(missing="null")).ingest.notes
    assert notes == (f"{tmp_path}/a.csv: the delimiter is ';', as the header says",)
