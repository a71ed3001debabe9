"""Avro data files of other writers; the golden tables hold some of Paimon's own."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from lakeidx.data.read_data_file import read_data_file
from lakeidx.errors import CorruptFileError
from tests.unit.data.tables import STORE, kv_rows_of, table_schema

SCHEMA = table_schema(
    {"k": "INT NOT NULL", "d": "DECIMAL(10, 2)", "t": "TIMESTAMP(6)",
     "m": {"type": "MAP", "key": "INT NOT NULL", "value": "STRING"},
     "s": {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"},
     "r": {"type": "ROW", "fields": [{"id": 0, "name": "x", "type": "DATE"}]}}
)  # fmt: skip


def nullable(t: Any) -> list[Any]:
    return ["null", t]


AVRO = {
    "type": "record",
    "name": "record",
    "fields": [
        {"name": "_SEQUENCE_NUMBER", "type": "long"},
        {"name": "_VALUE_KIND", "type": "int"},
        {"name": "k", "type": "int"},
        {"name": "d", "type": nullable({"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2})},
        {"name": "t", "type": nullable({"type": "long", "logicalType": "timestamp-micros"})},
        {
            "name": "m",
            "type": nullable(
                {
                    "type": "array",
                    "logicalType": "map",
                    "items": {
                        "type": "record",
                        "name": "entry",
                        "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": nullable("string")}],
                    },
                }
            ),
        },
        {"name": "s", "type": nullable({"type": "map", "values": nullable("int")})},
        {
            "name": "r",
            "type": nullable({"type": "record", "name": "row", "fields": [{"name": "x", "type": nullable("int")}]}),
        },
    ],
}


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_values_of_every_shape(tmp_path: Path, codec: str) -> None:
    records = [
        {"_SEQUENCE_NUMBER": 4, "_VALUE_KIND": 2, "k": 1, "d": Decimal("-1.25"), "t": -1, "m": [{"key": 1, "value": None}],
         "s": {"a": 3}, "r": {"x": 19000}},
        {"_SEQUENCE_NUMBER": 5, "_VALUE_KIND": 3, "k": 2, "d": None, "t": None, "m": None, "s": None, "r": None},
    ]  # fmt: skip
    path = tmp_path / "data-1.avro"
    with path.open("wb") as out:
        fastavro.writer(out, fastavro.parse_schema(AVRO), records, codec=codec)
    tables = list(read_data_file(STORE, str(path), None, SCHEMA, SCHEMA, batch_rows=1))
    assert kv_rows_of(pa.concat_tables(tables), SCHEMA) == [
        (4, 2, 1, Decimal("-1.25"), (-1, 999_000), [(1, None)], [("a", 3)], (19000,)),
        (5, 3, 2, None, None, None, None, None),
    ]
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CorruptFileError, match=r"data-1\.avro"):
        list(read_data_file(STORE, str(path), None, SCHEMA, SCHEMA))


def test_values_of_another_type_are_damage(tmp_path: Path) -> None:
    wrong = {"type": "record", "name": "record", "fields": [*AVRO["fields"][:2], {"name": "k", "type": "string"}]}
    path = tmp_path / "data-1.avro"
    with path.open("wb") as out:
        fastavro.writer(out, fastavro.parse_schema(wrong), [{"_SEQUENCE_NUMBER": 1, "_VALUE_KIND": 0, "k": "x"}])
    with pytest.raises(CorruptFileError, match="column 'k'"):
        list(read_data_file(STORE, str(path), None, SCHEMA, SCHEMA, ["k"]))
