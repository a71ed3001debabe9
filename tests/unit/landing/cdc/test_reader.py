# ruff: noqa: E501
"""Messages as the tools' documentation shows them, and lines that are none: what rows, what reasons, what is counted."""

from __future__ import annotations

import json
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.format.schema.schema_file import TableSchema, new_schema
from lakeidx.landing.cast_rows import cast_piece
from lakeidx.landing.cdc.reader import read_changes, read_events_by_line
from lakeidx.landing.types import LandingOptions, Piece
from lakeidx.storage.local import LocalStore

KINDS = ("+I", "-U", "+U", "-D")


def schema_of(columns: dict[str, str], keys: list[str], **options: str) -> TableSchema:
    fields = [{"name": n, "type": t} for n, t in columns.items()]
    return new_schema({"fields": fields, "primaryKeys": keys, "options": {"bucket": "-1", **options}})


def pieces_of(
    tmp_path: Path, text: str | None, schema: TableSchema, options: LandingOptions, *, name: str = "f.json", **more: Any
) -> list[Piece]:
    """Pieces of a file with a text; of one that is there when the text is None."""
    file = tmp_path / name
    if text is not None:
        # Whole lines, so that all of a test are of one block.
        file.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    return list(read_changes(LocalStore(), str(file), schema, options, **more))


def read(
    tmp_path: Path, text: str | None, schema: TableSchema, options: LandingOptions, **more: Any
) -> tuple[list[tuple[Any, ...]], list[tuple[int, str]]]:
    """(kind, values ...) of all rows; (line, reason) of all that were rejected."""
    rows: list[tuple[Any, ...]] = []
    bad: list[tuple[int, str]] = []
    for piece in pieces_of(tmp_path, text, schema, options, **more):
        kept, rejected = cast_piece(piece, schema.fields, "f")
        kinds = kept.column("_VALUE_KIND").to_pylist() if "_VALUE_KIND" in kept.column_names else [0] * kept.num_rows
        values = [tuple(r[f.name] for f in schema.fields) for r in kept.to_pylist()]
        rows += [(KINDS[k], *v) for k, v in zip(kinds, values, strict=True)]
        bad += [(r["line"], r["reason"]) for r in rejected.to_pylist()]
    return rows, bad


CUSTOMERS = schema_of({"id": "INT", "first_name": "STRING", "last_name": "STRING", "email": "STRING"}, ["id"])


def customer_schema() -> dict[str, Any]:
    columns = [{"type": "int32", "optional": False, "field": "id"}] + [
        {"type": "string", "optional": False, "field": n} for n in ("first_name", "last_name", "email")
    ]
    image = {
        "type": "struct",
        "fields": columns,
        "optional": True,
        "name": "PostgreSQL_server.inventory.customers.Value",
    }
    return {"type": "struct", "fields": [{**image, "field": "before"}, {**image, "field": "after"}], "optional": False}


def customer(email: str) -> dict[str, Any]:
    return {"id": 1, "first_name": "Anne Marie", "last_name": "Kretchmar", "email": email}


def debezium(op: str, before: Any, after: Any, **source: Any) -> dict[str, Any]:
    where = {"version": "2.7.4.Final", "connector": "postgresql", "name": "PostgreSQL_server", "ts_ms": 1559033904863,
             "snapshot": "false", "db": "postgres", "schema": "public", "table": "customers", "txId": 556, "lsn": 24023128,
             "xmin": None, **source}  # fmt: skip
    return {"before": before, "after": after, "source": where, "op": op, "ts_ms": 1559033904961}


@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
@pytest.mark.parametrize("wrapped", [True, False])
def test_debeziums_messages_become_rows(tmp_path: Path, wrapped: bool, block_bytes: int) -> None:
    payloads = [
        debezium("c", None, customer("annek@noanswer.org")),
        debezium("u", customer("annek@noanswer.org"), customer("annek@example.com")),
        debezium("d", customer("annek@example.com"), None),
        None,
        debezium("r", None, customer("annek@x.org"), snapshot="last"),
    ]
    part = customer_schema()
    messages = [p if p is None or not wrapped else {"schema": part, "payload": p} for p in payloads]
    text = "\n".join(json.dumps(m) for m in messages)
    rows, bad = read(tmp_path, text, CUSTOMERS, LandingOptions("debezium"), block_bytes=block_bytes)
    assert bad == []
    who = (1, "Anne Marie", "Kretchmar")
    assert rows == [
        ("+I", *who, "annek@noanswer.org"),
        ("+U", *who, "annek@example.com"),
        ("-D", *who, "annek@example.com"),
        ("+I", *who, "annek@x.org"),
    ]
    pieces = pieces_of(tmp_path, text, CUSTOMERS, LandingOptions("debezium"), block_bytes=block_bytes)
    assert sum(p.skipped.get("tombstones", 0) for p in pieces) == 1
    assert max(p.newest_ms or 0 for p in pieces) == 1559033904863
    assert (
        [n for p in pieces if p.rows.num_rows for n in list(p.lines or [])] == [1, 2, 3, 5]
        if block_bytes == 1
        else True
    )


def connect(name: str, kind: str, meaning: str = "", **parameters: str) -> dict[str, Any]:
    out: dict[str, Any] = {"type": kind, "optional": True, "field": name}
    return {**out, **({"name": meaning} if meaning else {}), **({"parameters": parameters} if parameters else {})}


TEMPORAL = [
    (connect("v", "int32", "io.debezium.time.Date"), "DATE", 17683, date(2018, 6, 1)),
    (connect("v", "int32", "io.debezium.time.Time"), "TIME(3)", 37_800_250, time(10, 30, 0, 250000)),
    (connect("v", "int64", "io.debezium.time.MicroTime"), "TIME(3)", 37_800_250_000, time(10, 30, 0, 250000)),
    (connect("v", "int64", "io.debezium.time.NanoTime"), "TIME(3)", 37_800_250_000_000, time(10, 30, 0, 250000)),
    (connect("v", "int64", "io.debezium.time.Timestamp"), "TIMESTAMP(6)", 1529507596945, datetime(2018, 6, 20, 15, 13, 16, 945000)),
    (connect("v", "int64", "io.debezium.time.MicroTimestamp"), "TIMESTAMP(6)", 1529507596945104, datetime(2018, 6, 20, 15, 13, 16, 945104)),
    (connect("v", "int64", "io.debezium.time.MicroTimestamp"), "TIMESTAMP(3)", 1529507596945000, datetime(2018, 6, 20, 15, 13, 16, 945000)),
    (connect("v", "int64", "org.apache.kafka.connect.data.Timestamp"), "TIMESTAMP(3)", -1, datetime(1969, 12, 31, 23, 59, 59, 999000)),
    (connect("v", "string", "io.debezium.time.ZonedTimestamp"), "TIMESTAMP(6)", "2018-06-20T13:37:03.123456Z", datetime(2018, 6, 20, 13, 37, 3, 123456)),
    (connect("v", "bytes", "org.apache.kafka.connect.data.Decimal", scale="2"), "DECIMAL(10, 2)", "AZA=", Decimal("4.00")),
    (connect("v", "bytes", "org.apache.kafka.connect.data.Decimal", scale="3"), "DECIMAL(10, 3)", "/w==", Decimal("-0.001")),
    (connect("v", "struct", "io.debezium.data.VariableScaleDecimal"), "DECIMAL(10, 3)", {"scale": 1, "value": "AZA="}, Decimal("40.000")),
    (connect("v", "bytes"), "BYTES", "aGVsbG8=", b"hello"),
    (connect("v", "int16"), "BOOLEAN", 1, True),
    (connect("v", "double"), "DOUBLE", 0.5, 0.5),
]  # fmt: skip


@pytest.mark.parametrize("spoiled", [False, True])
@pytest.mark.parametrize(
    ("column", "wanted", "value", "expected"),
    TEMPORAL,
    ids=[f"{c['type']}-{c.get('name', '')}-{t}" for c, t, *_ in TEMPORAL],
)
def test_what_the_schema_part_says_of_values(
    tmp_path: Path, column: dict[str, Any], wanted: str, value: Any, expected: Any, spoiled: bool
) -> None:
    """By Arrow, and line by line after a line that is broken."""
    schema = schema_of({"id": "INT", "v": wanted}, ["id"])
    image = {"type": "struct", "fields": [connect("id", "int32"), column]}
    part = {"type": "struct", "fields": [{**image, "field": "before"}, {**image, "field": "after"}]}
    messages = [
        {"schema": part, "payload": {"op": "c", "before": None, "after": {"id": i, "v": v}}}
        for i, v in ((1, value), (2, None))
    ]
    lines = [json.dumps(m) for m in messages] + (
        [json.dumps({"schema": part, "payload": {"op": "?"}})] if spoiled else []
    )
    rows, bad = read(tmp_path, "\n".join(lines), schema, LandingOptions("debezium"))
    assert rows == [("+I", 1, expected), ("+I", 2, None)]
    assert len(bad) == spoiled


def test_a_value_that_is_no_such_thing_rejects_its_row_only(tmp_path: Path) -> None:
    schema = schema_of({"id": "INT", "day": "DATE", "v": "DECIMAL(4, 2)"}, ["id"])
    columns = [connect("id", "int32"), connect("day", "int32", "io.debezium.time.Date"),
               connect("v", "bytes", "org.apache.kafka.connect.data.Decimal", scale="2")]  # fmt: skip
    part = {"type": "struct", "fields": [{"type": "struct", "fields": columns, "field": "after"}]}
    values = [(1, 0, "AZA="), (2, 99_999_999_999, "AZA="), (3, 1, "!!"), (4, 1, "f////w==")]
    lines = [
        json.dumps({"schema": part, "payload": {"op": "c", "after": {"id": i, "day": d, "v": v}}}) for i, d, v in values
    ]
    rows, bad = read(tmp_path, "\n".join(lines), schema, LandingOptions("debezium"))
    assert rows == [("+I", 1, date(1970, 1, 1), Decimal("4.00"))]
    assert [line for line, _ in bad] == [2, 3, 4]
    assert all(reason.startswith("cast: column") for _, reason in bad)


CANAL = """
{"data":[{"id":"111","name":"scooter","description":"Big 2-wheel scooter","weight":"5.18"}],"database":"inventory","es":1589373560000,"id":9,"isDdl":false,"mysqlType":{"id":"INTEGER","name":"VARCHAR(255)","description":"VARCHAR(512)","weight":"FLOAT"},"old":[{"weight":"5.15"}],"pkNames":["id"],"sql":"","sqlType":{"id":4,"name":12,"description":12,"weight":7},"table":"products","ts":1589373560798,"type":"UPDATE"}
{"data":[{"id":"101","name":"drill","description":"18V","weight":"2.5"},{"id":"102","name":"saw","description":null,"weight":"0.8"}],"database":"inventory","es":1589373561000,"id":10,"isDdl":false,"mysqlType":{"id":"INTEGER","name":"VARCHAR(255)","description":"VARCHAR(512)","weight":"FLOAT"},"old":null,"pkNames":["id"],"sql":"","sqlType":{"id":4,"name":12,"description":12,"weight":7},"table":"products","ts":1589373561798,"type":"INSERT"}
{"data":null,"database":"inventory","es":1589373561500,"id":11,"isDdl":true,"mysqlType":null,"old":null,"pkNames":null,"sql":"alter table products add index (name)","sqlType":null,"table":"products","ts":1589373561800,"type":"ALTER"}
{"data":[{"id":"103","name":"saw","description":null,"weight":"0.8"}],"database":"inventory","es":1589373562000,"id":12,"isDdl":false,"mysqlType":null,"old":[{"id":"102"}],"pkNames":["id"],"sql":"","sqlType":null,"table":"products","ts":1589373562798,"type":"UPDATE"}
{"data":[{"id":"101","name":"drill","description":"18V","weight":"2.5"}],"database":"inventory","es":1589373563000,"id":13,"isDdl":false,"mysqlType":null,"old":null,"pkNames":["id"],"sql":"","sqlType":null,"table":"products","ts":1589373563798,"type":"DELETE"}
"""
MAXWELL = """
{"database":"test","table":"e","type":"insert","ts":1477053217,"xid":23396,"commit":true,"position":"master.000006:800911","server_id":23042,"primary_key":[1,"2016-10-21 05:33:37.523000"],"primary_key_columns":["id","c"],"data":{"id":1,"m":4.2341,"c":"2016-10-21 05:33:37.523000","comment":"I am a creature of light."}}
{"database":"test","table":"e","type":"update","ts":1477053218,"xid":23400,"data":{"id":1,"m":5.444,"c":"2016-10-21 05:33:54.631000","comment":"I am a creature of light."},"old":{"m":4.2341,"c":"2016-10-21 05:33:37.523000"}}
{"database":"test","table":"e","type":"table-alter","ts":1477053218,"def":{},"sql":"alter table e"}
{"database":"test","table":"e","type":"bootstrap-start","ts":1477053219,"data":{}}
{"database":"test","table":"e","type":"bootstrap-insert","ts":1477053219,"data":{"id":2,"m":null,"c":null,"comment":null}}
{"database":"test","table":"e","type":"delete","ts":1477053220,"xid":23404,"data":{"id":1,"m":5.444,"c":"2016-10-21 05:33:54.631000","comment":"I am a creature of light."}}
"""
OGG = """
{"table":"QASOURCE.TCUSTMER","op_type":"I","op_ts":"2015-11-05 18:45:36.000000","current_ts":"2016-10-05T10:15:51.267000","pos":"00000000000000002928","after":{"CUST_CODE":"WILL","NAME":"BG SOFTWARE CO.","CITY":"SEATTLE","STATE":"WA"}}
{"table":"QASOURCE.TCUSTMER","op_type":"U","op_ts":"2015-11-05 18:45:39.000000","current_ts":"2016-10-05T10:15:51.328000","pos":"00000000000000004300","before":{"CUST_CODE":"WILL","NAME":"BG SOFTWARE CO.","CITY":"SEATTLE","STATE":"WA"},"after":{"CUST_CODE":"ANN","NAME":"ANN'S BOATS","CITY":"NEW YORK","STATE":"NY"}}
{"table":"QASOURCE.TCUSTMER","op_type":"D","op_ts":"2015-11-05 18:45:39.000000","current_ts":"2016-10-05T10:15:51.332000","pos":"00000000000000005272","before":{"CUST_CODE":"DAVE","NAME":"DAVE'S PLANES INC.","CITY":"TALLAHASSEE","STATE":"FL"}}
{"table":"QASOURCE.TCUSTMER","op_type":"T","op_ts":"2015-11-05 18:45:39.000000","current_ts":"2016-10-05T10:15:51.333000","pos":"00000000000000005480"}
"""
DMS = """
{"data":{"EmployeeID":101,"Name":"Smith"},"metadata":{"timestamp":"2021-03-22T18:43:06.321000Z","record-type":"data","operation":"load","partition-key-type":"primary-key","schema-name":"hr","table-name":"employees"}}
{"data":{"EmployeeID":101,"Name":"Jones"},"before-image":{"EmployeeID":101,"Name":"Smith"},"metadata":{"timestamp":"2021-03-22T18:43:07.321000Z","record-type":"data","operation":"update","partition-key-type":"primary-key","schema-name":"hr","table-name":"employees","transaction-id":1}}
{"metadata":{"timestamp":"2021-03-22T18:43:08.321000Z","record-type":"control","operation":"drop-table","partition-key-type":"task-id","schema-name":"hr","table-name":"other"}}
{"data":{"EmployeeID":101,"Name":"Jones"},"metadata":{"timestamp":"2021-03-22T18:43:09.321000Z","record-type":"data","operation":"delete","schema-name":"hr","table-name":"employees"}}
"""


def test_canals_messages_become_rows(tmp_path: Path) -> None:
    schema = schema_of({"id": "BIGINT", "name": "STRING", "description": "STRING", "weight": "DOUBLE"}, ["id"])
    rows, bad = read(tmp_path, CANAL, schema, LandingOptions("canal"))
    assert bad == []
    assert rows == [
        ("+U", 111, "scooter", "Big 2-wheel scooter", 5.18),
        ("+I", 101, "drill", "18V", 2.5),
        ("+I", 102, "saw", None, 0.8),
        ("-D", 102, "saw", None, 0.8),
        ("+I", 103, "saw", None, 0.8),
        ("-D", 101, "drill", "18V", 2.5),
    ]
    pieces = pieces_of(tmp_path, CANAL, schema, LandingOptions("canal"))
    assert (pieces[0].skipped, pieces[0].newest_ms) == ({"ddl": 1}, 1589373563000)
    assert list(pieces[0].lines if pieces[0].lines is not None else ()) == [2, 3, 3, 5, 5, 6]


def test_rows_before_updates_where_the_table_takes_values_back(tmp_path: Path) -> None:
    options = {"merge-engine": "aggregation", "fields.weight.aggregate-function": "sum"}
    schema = schema_of(
        {"id": "BIGINT", "name": "STRING", "description": "STRING", "weight": "DOUBLE"}, ["id"], **options
    )
    rows, bad = read(tmp_path, CANAL.strip().split("\n")[0], schema, LandingOptions("canal"))
    assert bad == []
    assert [r[0] + f" {r[4]}" for r in rows] == ["-U 5.15", "+U 5.18"]
    text = json.dumps({"op": "u", "before": None, "after": {"id": 1, "weight": 2.0}})
    rows, bad = read(tmp_path, text, schema, LandingOptions("debezium"))
    assert rows == []
    assert "without the row before, which this table needs" in bad[0][1]


def test_maxwells_messages_become_rows(tmp_path: Path) -> None:
    schema = schema_of({"id": "INT", "m": "DECIMAL(8, 4)", "c": "TIMESTAMP(6)", "comment": "STRING", "x": "BIGINT"}, ["id"],
                       **{"sequence.field": "x"})  # fmt: skip
    rows, bad = read(tmp_path, MAXWELL, schema, LandingOptions("maxwell", order=("ts",)))
    light = "I am a creature of light."
    assert bad == []
    assert rows == [
        ("+I", 1, Decimal("4.2341"), datetime(2016, 10, 21, 5, 33, 37, 523000), light, 1477053217),
        ("+U", 1, Decimal("5.4440"), datetime(2016, 10, 21, 5, 33, 54, 631000), light, 1477053218),
        ("+I", 2, None, None, None, 1477053219),
        ("-D", 1, Decimal("5.4440"), datetime(2016, 10, 21, 5, 33, 54, 631000), light, 1477053220),
    ]
    pieces = pieces_of(tmp_path, MAXWELL, schema, LandingOptions("maxwell", order=("ts",)))
    assert (pieces[0].skipped, pieces[0].newest_ms) == ({"ddl": 1, "bootstrap marks": 1}, 1477053220000)


def test_golden_gates_messages_become_rows(tmp_path: Path) -> None:
    columns = {"CUST_CODE": "STRING", "NAME": "STRING", "CITY": "STRING", "STATE": "STRING", "at": "TIMESTAMP(6)"}
    schema = schema_of(columns, ["CUST_CODE"], **{"sequence.field": "at"})
    rows, bad = read(tmp_path, OGG, schema, LandingOptions("ogg", order=("op_ts",)))
    later = datetime(2015, 11, 5, 18, 45, 39)
    assert rows == [
        ("+I", "WILL", "BG SOFTWARE CO.", "SEATTLE", "WA", datetime(2015, 11, 5, 18, 45, 36)),
        ("-D", "WILL", "BG SOFTWARE CO.", "SEATTLE", "WA", later),
        ("+I", "ANN", "ANN'S BOATS", "NEW YORK", "NY", later),
        ("-D", "DAVE", "DAVE'S PLANES INC.", "TALLAHASSEE", "FL", later),
    ]
    assert [(n, r.split(",")[0]) for n, r in bad] == [(5, "format: op T: the source table was truncated")]


def test_messages_of_dms(tmp_path: Path) -> None:
    schema = schema_of({"EmployeeID": "INT", "Name": "STRING"}, ["EmployeeID"])
    rows, bad = read(tmp_path, DMS, schema, LandingOptions("dms-json"))
    assert (rows, bad) == ([("+I", 101, "Smith"), ("+U", 101, "Jones"), ("-D", 101, "Jones")], [])
    pieces = pieces_of(tmp_path, DMS, schema, LandingOptions("dms-json"))
    assert pieces[0].skipped == {"ddl": 1}
    assert pieces[0].newest_ms == 1616438589321


BAD_LINES = [
    ("debezium", {"id": 1}, "no debezium message: it has no op"),
    ("debezium", {"op": "x", "after": {"id": 1}}, "op 'x' is not one of c, r, u, d"),
    ("debezium", {"op": "t"}, "the source table was truncated"),
    ("debezium", {"op": "d", "before": None, "after": None}, "op d without its row in before: have the source write rows before"),
    ("debezium", {"op": "c", "before": None, "after": None}, "op c without its row in after"),
    ("debezium", {"op": "u", "before": {"a": "x"}, "after": {"id": 1}}, "before: the row before the change has no id, the table's key"),
    ("debezium", {"op": "u", "after": {"id": 1, "a": "__debezium_unavailable_value"}}, "the source did not send the value of a"),
    ("canal", {"type": "UPDATE", "data": [{"id": 1}], "old": [{}, {}]}, "1 rows after and 2 before the change"),
    ("canal", {"type": "TRUNCATE", "data": None}, "the source table was truncated"),
    ("maxwell", {"type": "insert"}, "op insert without its row in data"),
    ("ogg", [1], "a line must be a JSON object"),
    ("dms-json", {"metadata": {"operation": "shrink"}}, "op 'shrink' is not one of load, insert, update, delete"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "message", "reason"), BAD_LINES)
def test_a_line_that_is_no_message_is_rejected_with_its_reason(
    tmp_path: Path, name: str, message: Any, reason: str
) -> None:
    """And the messages around it are read."""
    good = {
        "debezium": {"op": "c", "after": {"id": 7, "a": "ä"}},
        "canal": {"type": "INSERT", "data": [{"id": "7", "a": "ä"}]},
        "maxwell": {"type": "insert", "data": {"id": 7, "a": "ä"}},
        "ogg": {"op_type": "I", "after": {"id": 7, "a": "ä"}},
        "dms-json": {"metadata": {"operation": "insert"}, "data": {"id": 7, "a": "ä"}},
    }[name]
    text = "\n".join([json.dumps(good), "", json.dumps(message), json.dumps(good)])
    rows, bad = read(tmp_path, text, schema_of({"id": "INT", "a": "STRING"}, ["id"]), LandingOptions(name))
    assert rows == [("+I", 7, "ä")] * 2
    assert [(line, reason in found) for line, found in bad] == [(3, True)], bad


def test_a_message_without_its_order_is_rejected(tmp_path: Path) -> None:
    schema = schema_of({"id": "INT", "n": "BIGINT"}, ["id"], **{"sequence.field": "n"})
    lines = [{"op": "c", "after": {"id": 1}, "source": {"lsn": 5}}, {"op": "c", "after": {"id": 2}, "source": {}}]
    text = "\n".join(map(json.dumps, lines))
    rows, bad = read(tmp_path, text, schema, LandingOptions("debezium", order=("source.lsn",)))
    assert (rows, bad) == ([("+I", 1, 5)], [(2, "format: order: the message has no source.lsn")])


@pytest.mark.parametrize("spoiled", [False, True])
@pytest.mark.parametrize(
    ("name", "message", "types"),
    [
        ("debezium", {"op": "c", "after": {"id": 1, "n": 3, "x": 0.5, "b": True, "t": "2020-01-01"}},
         {"n": "BIGINT", "x": "DOUBLE", "b": "BOOLEAN", "t": "STRING"}),
        ("canal", {"type": "INSERT", "data": [{"id": "1", "n": "3", "x": "2"}],
                   "mysqlType": {"id": "int", "n": "int(10) unsigned", "x": "decimal(9,2)"}},
         {"n": "BIGINT", "x": "DECIMAL(9, 2)"}),
    ],
)  # fmt: skip
def test_columns_that_the_table_does_not_have(
    tmp_path: Path, name: str, message: Any, types: dict[str, str], spoiled: bool
) -> None:
    """Refused, left out or told with their types; read by Arrow and line by line."""
    schema = schema_of({"id": "INT"}, ["id"])
    text = json.dumps(message) + ("\n?" if spoiled else "")
    with pytest.raises(InvalidInputError, match="columns the table does not have: n BIGINT"):
        read(tmp_path, text, schema, LandingOptions(name))
    assert read(tmp_path, text, schema, LandingOptions(name, ignore_extra=True))[0] == [("+I", 1)]
    found = pieces_of(tmp_path, text, schema, LandingOptions(name, merge_schema="add"))
    assert [{n: str(t) for n, t in p.extra.items()} for p in found] == [types]


def test_wider_types_are_reported_where_the_source_declares_them(tmp_path: Path) -> None:
    schema = schema_of({"id": "INT", "n": "INT", "name": "VARCHAR(5)"}, ["id"])
    types = {"id": "bigint", "n": "bigint(20)", "name": "varchar(255)"}
    text = json.dumps({"type": "INSERT", "data": [{"id": "1", "n": "3", "name": "x"}], "mysqlType": types})
    for policy, wider in (("add", {}), ("widen", {"n": "BIGINT"})):
        found = pieces_of(tmp_path, text, schema, LandingOptions("canal", merge_schema=policy))
        assert [{n: str(t) for n, t in p.extra.items()} for p in found] == [wider]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "empty.json").touch()
    with pytest.raises(InvalidInputError, match="empty"):
        list(read_changes(LocalStore(), f"{tmp_path}/empty.json", CUSTOMERS, LandingOptions("ogg")))
    with pytest.raises(NotFoundError, match="does not exist"):
        list(read_changes(LocalStore(), f"{tmp_path}/none.json", CUSTOMERS, LandingOptions("ogg")))
    append = new_schema({"fields": [{"name": "id", "type": "INT"}], "options": {"bucket": "-1"}})
    with pytest.raises(InvalidInputError, match="need a table with a primary key"):
        read(tmp_path, OGG, append, LandingOptions("ogg"))
    with pytest.raises(InvalidInputError, match=r"'sequence\.field', which has 0: name as many"):
        read(tmp_path, OGG, CUSTOMERS, LandingOptions("ogg", order=("pos",)))


def test_the_schema_part_may_change_within_a_file(tmp_path: Path) -> None:
    """A column becomes another type and one is added; lines keep their numbers, tombstones and blank lines between."""
    schema = schema_of({"id": "INT", "v": "TIMESTAMP(6)", "w": "STRING"}, ["id"])

    def part(*columns: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "struct",
            "fields": [{"type": "struct", "fields": [connect("id", "int32"), *columns], "field": "after"}],
        }

    old = part(connect("v", "int64", "io.debezium.time.Timestamp"))
    new = part(connect("v", "int64", "io.debezium.time.MicroTimestamp"), connect("w", "string"))
    lines = [
        {"schema": old, "payload": {"op": "c", "after": {"id": 1, "v": 1000}}},
        {"schema": None, "payload": None},
        {"schema": old, "payload": {"op": "c", "after": {"id": 2, "v": 2000}}},
        {"schema": new, "payload": {"op": "c", "after": {"id": 3, "v": 3_000_001, "w": "x"}}},
        {"payload": {"op": "c", "after": {"id": 4, "v": 4_000_000, "w": "y"}}, "schema": new},
        {"schema": old, "payload": {"op": "c", "after": {"id": 5, "v": 5000}}},
    ]
    text = "\n".join(["null", "", *map(json.dumps, lines)])
    rows, bad = read(tmp_path, text, schema, LandingOptions("debezium"))
    assert bad == []
    moments = [r[2] for r in rows]
    assert [r[1] for r in rows] == [1, 2, 3, 4, 5]
    assert moments == [datetime(1970, 1, 1, 0, 0, s, us) for s, us in ((1, 0), (2, 0), (3, 1), (4, 0), (5, 0))]
    found = pieces_of(tmp_path, text, schema, LandingOptions("debezium"))
    assert [int(n) for p in found if p.lines is not None for n in p.lines] == [3, 5, 6, 7, 8]
    assert sum(p.skipped.get("tombstones", 0) for p in found) == 2


def test_lines_beside_a_wrong_one_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Halves are tried until few lines are left, which are read one by one; lines keep their numbers."""
    by_line: list[int] = []

    def counted(run: Any, *rest: Any) -> Any:
        by_line.append(run.lines)
        return read_events_by_line(run, *rest)

    monkeypatch.setattr("lakeidx.landing.cdc.reader.read_events_by_line", counted)
    schema = schema_of({"id": "INT", "v": "INT"}, ["id"])
    lines = [json.dumps({"op": "c", "before": None, "after": {"id": i, "v": i}}) for i in range(5000)]
    lines[1999], lines[4321] = "no json", json.dumps({"op": "x"})
    rows, bad = read(tmp_path, "\n".join([*lines, "", "null"]), schema, LandingOptions("debezium"))
    assert [r[1] for r in rows] == [i for i in range(5000) if i not in (1999, 4321)]
    assert [line for line, _ in bad] == [2000, 4322]
    assert len(by_line) == 2
    assert sum(by_line) <= 512
    pieces = pieces_of(tmp_path, None, schema, LandingOptions("debezium"))
    assert [int(n) for p in pieces if p.lines is not None for n in p.lines] == [
        i + 1 for i in range(5000) if i not in (1999, 4321)
    ]
