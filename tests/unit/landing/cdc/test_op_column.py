"""Rows that say in a column what happened to them: files of AWS DMS, and those of others."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError
from lakeidx.landing.types import LandingOptions
from tests.kit.command_line import call
from tests.unit.landing.cdc.test_reader import pieces_of, read, schema_of

STAFF = schema_of({"EmployeeID": "INT", "Name": "STRING", "Hired": "STRING", "Office": "STRING"}, ["EmployeeID"])
#: As AWS publishes it: no header line.
LINES = """I,101,Smith,4-Jun-14,New York
U,101,Smith,8-Oct-15,Los Angeles
U,101,Smith,13-Mar-17,Dallas
D,101,Smith,13-Mar-17,Dallas
"""
COLUMNS = ("Op", *STAFF.field_names)


def test_csv_without_a_header_line(tmp_path: Path) -> None:
    rows, bad = read(tmp_path, LINES, STAFF, LandingOptions("dms", columns=COLUMNS), name="f.csv")
    assert bad == []
    assert [(r[0], r[1], r[4]) for r in rows] == [
        ("+I", 101, "New York"), ("+U", 101, "Los Angeles"), ("+U", 101, "Dallas"), ("-D", 101, "Dallas"),
    ]  # fmt: skip


def test_a_full_load_has_no_operations(tmp_path: Path) -> None:
    text = "EmployeeID,Name,Hired,Office\n5,Ann,2-Jan-20,Bern\n"
    assert read(tmp_path, text, STAFF, LandingOptions("dms"), name="f.csv")[0] == [("+I", 5, "Ann", "2-Jan-20", "Bern")]
    with pytest.raises(InvalidInputError, match="has no column 'op' with the operations"):
        read(tmp_path, text, STAFF, LandingOptions("csv", op_column="op"), name="f.csv")


def test_letters_of_ones_own(tmp_path: Path) -> None:
    """A flattened message of Debezium; an operation nobody knows rejects its row."""
    schema = schema_of({"id": "INT", "at": "TIMESTAMP(6)"}, ["id"], **{"sequence.field": "at"})
    start = 1_700_000_000_000_000
    changes = [(1, "c", start + 1), (1, "d", start + 2), (2, "z", 1), (3, None, 1)]
    text = "\n".join(json.dumps({"id": k, "__op": op, "__ts_us": n}) for k, op, n in changes)
    options = LandingOptions("jsonl", op_column="__op", op_values=(("c", "+I"), ("d", "-D")), order=("__ts_us",))
    rows, bad = read(tmp_path, text, schema, options, name="f.jsonl")
    assert [(r[0], r[1], r[2].microsecond) for r in rows] == [("+I", 1, 1), ("-D", 1, 2)]
    assert [(n, r.rpartition(": ")[2]) for n, r in bad] == [(3, "'operation z'"), (4, "'operation null'")]


def test_parquet_with_an_order(tmp_path: Path) -> None:
    schema = schema_of({"id": "INT", "v": "STRING", "n": "BIGINT"}, ["id"], **{"sequence.field": "n"})
    table = pa.table({"Op": ["I", "D"], "id": pa.array([1, 1], pa.int32()), "v": ["a", "a"], "transact_id": [7, 8]})
    pq.write_table(table, tmp_path / "f.parquet")
    options = LandingOptions("dms", order=("transact_id",))
    assert read(tmp_path, None, schema, options, name="f.parquet")[0] == [("+I", 1, "a", 7), ("-D", 1, "a", 8)]
    with pytest.raises(InvalidInputError, match="no column 'scn', the order of its changes"):
        pieces_of(tmp_path, None, schema, LandingOptions("dms", order=("scn",), ignore_extra=True), name="f.parquet")


def test_the_command_line(tmp_path: Path) -> None:
    table = Table.create(f"{tmp_path}/wh/d.db/t", {"fields": [{"name": "id", "type": "INT"}], "primaryKeys": ["id"],
                                                   "options": {"bucket": "-1"}})  # fmt: skip
    (tmp_path / "f.csv").write_text("what,id\nnew,1\nnew,2\ngone,1\n", encoding="utf-8")
    words = ["upsert", table.uri, f"{tmp_path}/f.csv", "--op-column", "what", "--op-value", "new=+I"]
    call(*words, "--op-value", "gone=-D")
    assert table.scan().to_arrow().to_pylist() == [{"id": 2}]
    assert "write a text and its row kind" in call(*words, "--op-value", "gone", code=2).output
