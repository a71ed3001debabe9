"""Merge options: what is refused, by column and option, and when."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakeidx.data.engines import make_engine, validate_merge_options
from lakeidx.data.engines.options import Engine, SequenceGroup, merge_options
from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.types import Field, parse_type, to_arrow

ROWS = {"type": "ARRAY", "element": {"type": "ROW", "fields": [{"id": 9, "name": "k", "type": "INT"}]}}
COLUMNS: list[tuple[str, Any]] = [
    ("id", "INT NOT NULL"), ("s1", "INT"), ("s2", "BIGINT"), ("a", "STRING"), ("b", "BIGINT"), ("c", "BOOLEAN"),
    ("v", "VARCHAR(9)"), ("rows", ROWS), ("m", {"type": "MAP", "key": "STRING", "value": "INT"}), ("x", "BYTES"),
    ("d", "INT NOT NULL"),
]  # fmt: skip


def schema_of(options: dict[str, str], keys: tuple[str, ...] = ("id",)) -> TableSchema:
    fields = tuple(Field(i, name, parse_type(t)) for i, (name, t) in enumerate(COLUMNS))
    return TableSchema(id=0, fields=fields, highest_field_id=50, primary_keys=keys, options=options)


PARTIAL = {"merge-engine": "partial-update"}
AGGREGATE = {"merge-engine": "aggregation"}
GROUP = {"fields.s1.sequence-group": "a,b"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            PARTIAL | {"fields.b.aggregate-function": "sum"},
            r"'fields\.b\.aggregate-function': column 'b' is in no sequence group",
        ),
        (
            PARTIAL | {"fields.default-aggregate-function": "sum"},
            r"'fields\.default-aggregate-function': column 's1' is in no",
        ),
        (PARTIAL | {"fields.s1.sequence-group": "nope"}, r"'fields\.s1\.sequence-group': column 'nope' does not exist"),
        (
            PARTIAL | {"fields.nope.sequence-group": "a"},
            r"'fields\.nope\.sequence-group': column 'nope' does not exist",
        ),
        (PARTIAL | GROUP | {"fields.s2.sequence-group": "b"}, r"column 'b' is also in 'fields\.s1\.sequence-group'"),
        (PARTIAL | GROUP | {"fields.s2.sequence-group": "s1"}, r"column 's1' is also in 'fields\.s1\.sequence-group'"),
        (
            PARTIAL | {"ignore-delete": "true", "partial-update.remove-record-on-delete": "true"},
            "ignore-delete and partial-update.remove-record-on-delete contradict",
        ),
        (
            PARTIAL
            | GROUP
            | {"partial-update.ignore-delete": "true", "partial-update.remove-record-on-sequence-group": "s1"},
            "contradict",
        ),
        (
            PARTIAL | GROUP | {"partial-update.remove-record-on-delete": "true"},
            "cannot be combined with sequence groups",
        ),
        (
            PARTIAL | GROUP | {"partial-update.remove-record-on-sequence-group": "a"},
            "column 'a' orders no sequence group",
        ),
        (
            AGGREGATE | {"fields.a.aggregate-function": "sum"},
            r"'fields\.a\.aggregate-function': sum needs a number, column 'a' is STRING",
        ),
        (AGGREGATE | {"fields.a.aggregate-function": "product"}, "product needs a number"),
        (AGGREGATE | {"fields.a.aggregate-function": "bool_or"}, "bool_or needs BOOLEAN"),
        (AGGREGATE | {"fields.v.aggregate-function": "listagg"}, r"listagg needs STRING, column 'v' is VARCHAR\(9\)"),
        (AGGREGATE | {"fields.a.aggregate-function": "collect"}, "collect needs ARRAY"),
        (AGGREGATE | {"fields.a.aggregate-function": "merge_map"}, "merge_map needs MAP"),
        (
            AGGREGATE | {"fields.m.aggregate-function": "merge_map_with_keytime"},
            "merge_map_with_keytime needs MAP with a ROW",
        ),
        (AGGREGATE | {"fields.m.aggregate-function": "nested_update"}, "nested_update needs ARRAY of ROW"),
        (
            AGGREGATE | {"fields.rows.aggregate-function": "nested_partial_update"},
            r"needs option 'fields\.rows\.nested-key'",
        ),
        (
            AGGREGATE | {"fields.rows.aggregate-function": "nested_update", "fields.rows.nested-key": "z"},
            "no field 'z', only k",
        ),
        (
            AGGREGATE | {"fields.rows.aggregate-function": "nested_update", "fields.rows.count-limit": "many"},
            r"'fields\.rows\.count-limit'",
        ),
        (AGGREGATE | {"fields.a.aggregate-function": "rbm32"}, "rbm32 needs VARBINARY"),
        (AGGREGATE | {"fields.a.aggregate-function": "summ"}, r"unknown function 'summ'; known are bool_and"),
        (AGGREGATE | {"fields.b.ignore-retract": "maybe"}, r"'fields\.b\.ignore-retract': expected 'true' or 'false'"),
        (
            AGGREGATE | {"aggregation.remove-record-on-delete": "true", "fields.b.ignore-retract": "true"},
            r"'fields\.b\.ignore-retract' contradict",
        ),
        ({"merge-engine": "upsert"}, "merge-engine"),
    ],
)
def test_refused_when_the_engine_is_made(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make_engine(schema_of(options))
    with pytest.raises(InvalidInputError, match=message):
        validate_merge_options(schema_of(options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (AGGREGATE | {"fields.c.aggregate-function": "max"}, "max cannot compare values of BOOLEAN"),
        (AGGREGATE | {"fields.rows.aggregate-function": "min"}, "min cannot compare values of ARRAY"),
    ],
)
def test_refused_when_a_table_is_made(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        validate_merge_options(schema_of(options))


@pytest.mark.parametrize("function", ["rbm64", "hll_sketch", "theta_sketch"])
def test_functions_lakeidx_does_not_have(function: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"'fields\.x\.aggregate-function': function '{function}'"):
        make_engine(schema_of(AGGREGATE | {"fields.x.aggregate-function": function}))


def test_a_table_without_key_has_no_engine() -> None:
    with pytest.raises(InvalidInputError, match="without primary key"):
        make_engine(schema_of({}, keys=()))


def test_options_by_meaning() -> None:
    options = merge_options(
        schema_of(
            PARTIAL
            | {"fields.s2,s1.sequence-group": "s1,b", "fields.b.aggregate-function": "first_not_null_value"}
            | {"partial-update.remove-record-on-sequence-group": "s1"}
        )
    )
    assert options.engine is Engine.PARTIAL_UPDATE
    assert options.groups == (SequenceGroup((2, 1), (4,)),)
    assert options.remove_on_sequence == {1}
    assert {p: f.name for p, f in options.functions.items()} == {0: "primary-key", 4: "first_non_null_value"}
    functions = merge_options(
        schema_of(AGGREGATE | {"sequence.field": "s2", "fields.default-aggregate-function": "max"})
    ).functions
    assert [f.name for f in functions.values()] == ["primary-key", "max", "last_value", *["max"] * 8]


def kv_of(**columns: list[object]) -> pa.Table:
    n = len(next(iter(columns.values())))
    types = dict(COLUMNS)
    arrays = [pa.array(range(n), pa.int64()), pa.array([0] * n, pa.int8())]
    arrays += [pa.array(v, to_arrow(parse_type(types[k]))) for k, v in columns.items()]
    return pa.table(arrays, names=["_SEQUENCE_NUMBER", "_VALUE_KIND", *columns])


@pytest.mark.parametrize("starts", [[1], [0, 0], [0, 2, 1], [0, 3], [], [0, 1, 5]])
def test_run_starts_that_are_none(starts: list[int]) -> None:
    kv = kv_of(id=[1, 1, 2])
    with pytest.raises(InvalidInputError, match="run starts must rise from 0 and stay below the 3 rows"):
        make_engine(schema_of({})).merge(kv, np.array(starts, np.int64))


@pytest.mark.parametrize("engine", ["deduplicate", "first-row", "partial-update", "aggregation"])
def test_no_rows_at_all(engine: str) -> None:
    kv = kv_of(id=[1], s1=[1], a=["x"]).slice(0, 0)
    out = make_engine(schema_of({"merge-engine": engine})).merge(kv, np.empty(0, np.int64))
    assert out.num_rows == 0
    assert out.schema == kv.schema


def test_columns_of_a_group_need_its_sequence() -> None:
    engine = make_engine(schema_of(PARTIAL | GROUP))
    assert engine.required_columns(["c"]) == ["c"]
    assert engine.required_columns(["b", "id"]) == ["b", "id", "s1"]
    with pytest.raises(InvalidInputError, match="needs column 's1', too"):
        engine.merge(kv_of(id=[1], b=[2]), np.zeros(1, np.int64))
    removing = make_engine(schema_of(PARTIAL | GROUP | {"partial-update.remove-record-on-sequence-group": "s1"}))
    assert removing.required_columns(["c"]) == ["c", "s1"]


def test_a_null_in_a_not_null_column_names_it() -> None:
    kv = kv_of(id=[1, 1], d=[None, 2])
    with pytest.raises(InvalidInputError, match="column 'd' is NOT NULL"):
        make_engine(schema_of(PARTIAL)).merge(kv, np.zeros(1, np.int64))
