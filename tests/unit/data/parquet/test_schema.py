"""The columns of a data file and their field ids."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeidx.data.parquet.chunks import leaf_paths
from lakeidx.data.parquet.schema import element_id, file_fields, holds_int96, is_int96, map_key_id, parquet_arrow_schema
from lakeidx.types import Field, parse_type


def ids(field: object) -> int:
    return int(field.metadata[b"PARQUET:field_id"])  # type: ignore[attr-defined]


def test_columns_of_a_primary_key_file() -> None:
    fields = (Field(3, "v", parse_type("STRING")), Field(7, "k", parse_type("INT NOT NULL")))
    found = file_fields(fields, ["k"])
    assert [(f.name, f.id) for f in found] == [
        ("_KEY_k", 1073741830), ("_SEQUENCE_NUMBER", 2147483646), ("_VALUE_KIND", 2147483645), ("v", 3), ("k", 7),
    ]  # fmt: skip
    assert [f.type.nullable for f in found] == [False, False, False, True, False]
    assert [f.name for f in file_fields(fields, ["k"], thin=True)] == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "v", "k"]
    assert file_fields(fields, []) == fields


def test_ids_inside_arrays_maps_and_rows() -> None:
    # Field 5 of the fact sheet's sample: element id 536876032.
    assert element_id(5, 1) == 536876032
    nested = {"type": "ARRAY", "element": {"type": "MAP", "key": "STRING", "value": {"type": "ROW", "fields": [
        {"id": 9, "name": "x", "type": {"type": "ARRAY", "element": "INT"}}]}}}  # fmt: skip
    (field,) = parquet_arrow_schema([Field(5, "c", parse_type(nested))])
    assert ids(field) == 5
    element = field.type.value_field
    assert (element.name, ids(element)) == ("element", 536876032)
    assert (ids(element.type.key_field), ids(element.type.item_field)) == (map_key_id(5, 2), element_id(5, 2))
    assert not element.type.key_field.nullable
    inner = element.type.item_field.type.field("x")
    assert ids(inner) == 9
    assert ids(inner.type.value_field) == element_id(9, 1)


@pytest.mark.parametrize(
    ("text", "own", "anywhere"),
    [
        ("TIMESTAMP(6)", False, False), ("TIMESTAMP(7)", True, True), ("TIMESTAMP(9) WITH LOCAL TIME ZONE", True, True),
        ({"type": "ARRAY", "element": "TIMESTAMP(9)"}, False, True), ({"type": "ARRAY", "element": "TIMESTAMP(3)"}, False, False),
    ],
)  # fmt: skip
def test_which_types_hold_int96(text: object, own: bool, anywhere: bool) -> None:
    t = parse_type(text)  # type: ignore[arg-type]
    assert (is_int96(t), holds_int96(t)) == (own, anywhere)


def test_leaf_paths_are_parquets() -> None:
    t = pa.struct([pa.field("x", pa.map_(pa.string(), pa.list_(pa.int32()))), pa.field("y.z", pa.int8())])
    assert [p for p, _ in leaf_paths("r", t)] == ["r.x.key_value.key", "r.x.key_value.value.list.element", "r.y.z"]
