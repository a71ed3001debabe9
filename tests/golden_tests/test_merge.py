"""Merge engines against the released Java (merge.jsonl): row, kind and sequence number of one key, or its error."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakeidx.codec.values import arrow_to_internal, internal_to_arrow
from lakeidx.data.engines import make_engine, validate_merge_options
from lakeidx.data.row_kinds import SHORT_NAMES
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.types import Field, parse_type
from tests.conftest import GOLDEN
from tests.kit.json_forms import internal_to_json, json_to_internal
from tests.kit.reference_engines import Record, make_reference_engine, merge_reduced

pytestmark = pytest.mark.golden

READ = [json.loads(line) for line in (GOLDEN / "merge.jsonl").read_text(encoding="utf-8").split("\n") if line]
CASES = [pytest.param(case, id=str(case["id"])) for case in READ]


def schema_of(case: dict[str, Any]) -> TableSchema:
    fields = tuple(
        Field(i, name, parse_type(t)) for i, (name, t) in enumerate(zip(case["fields"], case["types"], strict=True))
    )
    return TableSchema(
        id=0,
        fields=fields,
        highest_field_id=100,
        primary_keys=tuple(case["primary_key"]),
        options={"merge-engine": case["engine"]} | case["options"],
    )


def records_of(case: dict[str, Any], schema: TableSchema) -> list[Record]:
    return [
        Record(
            SHORT_NAMES.index(kind),
            sequence,
            tuple(json_to_internal(v, f.type) for v, f in zip(values, schema.fields, strict=True)),
        )
        for kind, sequence, _, values in case["records"]
    ]


def table_of(records: list[Record], schema: TableSchema) -> pa.Table:
    columns = [pa.array([r.sequence for r in records], pa.int64()), pa.array([r.kind for r in records], pa.int8())]
    columns += [internal_to_arrow([r.values[i] for r in records], f.type) for i, f in enumerate(schema.fields)]
    # Without the NOT NULL marks: what nulls in such columns do is part of the cases.
    return pa.table(columns, names=schema.kv_arrow_schema.names)


def record_as_json(record: Record | None, schema: TableSchema) -> Any:
    if record is None:
        return None
    values = [internal_to_json(v, f.type) for v, f in zip(record.values, schema.fields, strict=True)]
    return {"kind": SHORT_NAMES[record.kind], "seq": record.sequence, "values": values}


def table_as_json(table: pa.Table, schema: TableSchema) -> Any:
    assert table.num_rows <= 1
    assert table.schema.names == schema.kv_arrow_schema.names
    if table.num_rows == 0:
        return None
    values = tuple(arrow_to_internal(table.column(f.name), f.type)[0] for f in schema.fields)
    record = Record(table.column("_VALUE_KIND")[0].as_py(), table.column("_SEQUENCE_NUMBER")[0].as_py(), values)
    return record_as_json(record, schema)


def test_there_are_cases_of_every_engine() -> None:
    assert {c["engine"] for c in READ} == {"deduplicate", "first-row", "partial-update", "aggregation"}


@pytest.mark.parametrize("case", CASES)
def test_record_at_a_time(case: dict[str, Any]) -> None:
    schema = schema_of(case)
    if "create_error" in case:
        with pytest.raises(InvalidInputError):
            make_reference_engine(schema)
        return
    records = records_of(case, schema)
    if "error" in case:
        with pytest.raises(InvalidInputError):
            make_reference_engine(schema).merge(records)
    else:
        assert record_as_json(make_reference_engine(schema).merge(records), schema) == case["result"]
    if "reduced" in case:
        assert record_as_json(merge_reduced(make_reference_engine(schema), records), schema) == case["reduced"]


@pytest.mark.parametrize("case", CASES)
def test_vectorised(case: dict[str, Any]) -> None:
    schema = schema_of(case)
    starts = np.zeros(1, np.int64)
    if "create_error" in case:
        with pytest.raises(InvalidInputError, match="option 'fields"):
            validate_merge_options(schema)
        with pytest.raises(InvalidInputError):
            make_engine(schema)
        return
    kv = table_of(records_of(case, schema), schema)
    if "error" in case:
        with pytest.raises(InvalidInputError):
            make_engine(schema).merge(kv, starts)
    else:
        assert table_as_json(make_engine(schema).merge(kv, starts), schema) == case["result"]
    if "reduced" in case:
        merged = make_engine(schema).merge(kv, starts, shortcut=True)
        assert table_as_json(merged, schema) == case["reduced"]
    if "reduced_error" in case:
        with pytest.raises(InvalidInputError):
            make_engine(schema).merge(kv, starts, shortcut=True)
