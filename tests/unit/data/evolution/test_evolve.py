"""Columns by field id: renamed, added, dropped, retyped; the same inside rows, arrays and maps."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakeidx.codec.values import arrow_to_internal, internal_to_arrow
from lakeidx.data.read_data_file import evolve_column, plan_file_columns
from lakeidx.errors import UnsupportedError
from lakeidx.types import DataType, Field, parse_type, to_arrow


def row(*fields: tuple[int, str, Any]) -> DataType:
    return parse_type({"type": "ROW", "fields": [{"id": i, "name": n, "type": t} for i, n, t in fields]})


def evolve(old: DataType, new: DataType, values: list[Any]) -> list[Any]:
    (plan,) = plan_file_columns([Field(7, "before", old)], [Field(7, "now", new)])
    out = evolve_column(plan, pa.chunked_array([internal_to_arrow(values, old)]), len(values))
    assert out.type == to_arrow(new)
    return arrow_to_internal(out, new)


def test_columns_are_matched_by_id_not_by_name() -> None:
    int_, text = parse_type("INT"), parse_type("STRING")
    file = [Field(1, "a", int_), Field(2, "b", text)]
    plans = plan_file_columns(file, [Field(2, "a", text), Field(3, "b", int_), Field(1, "c", int_)])
    assert [p.source.name if p.source else None for p in plans] == ["b", None, "a"]
    missing = evolve_column(plans[1], None, 3)
    assert missing.type == pa.int32()
    assert missing.to_pylist() == [None, None, None]


def test_fields_of_rows_are_added_dropped_renamed_and_widened() -> None:
    old = row((1, "x", "INT"), (2, "y", "STRING"), (3, "z", row_json((4, "w", "SMALLINT"))))
    new = row(
        (2, "why", "STRING"),
        (5, "added", "DOUBLE"),
        (1, "x", "BIGINT"),
        (3, "z", row_json((6, "v", "DATE"), (4, "w", "INT"))),
    )
    values = [(1, "a", (5,)), None, (None, None, None), (-7, "b", (None,))]
    assert evolve(old, new, values) == [
        ("a", None, 1, (None, 5)), None, (None, None, None, None), ("b", None, -7, (None, None)),
    ]  # fmt: skip


def row_json(*fields: tuple[int, str, Any]) -> dict[str, Any]:
    return {"type": "ROW", "fields": [{"id": i, "name": n, "type": t} for i, n, t in fields]}


def test_rows_inside_arrays_and_maps() -> None:
    old_row, new_row = row_json((1, "x", "INT")), row_json((2, "n", "STRING"), (1, "x2", "BIGINT"))
    old = parse_type({"type": "ARRAY", "element": old_row})
    new = parse_type({"type": "ARRAY", "element": new_row})
    assert evolve(old, new, [[(1,), None], None, [], [(2,)]]) == [[(None, 1), None], None, [], [(None, 2)]]
    old = parse_type({"type": "MAP", "key": "STRING NOT NULL", "value": old_row})
    new = parse_type({"type": "MAP", "key": "STRING NOT NULL", "value": new_row})
    assert evolve(old, new, [[("a", (1,)), ("b", None)], None, []]) == [[("a", (None, 1)), ("b", None)], None, []]


def test_slices_keep_their_place() -> None:
    old = parse_type({"type": "ARRAY", "element": row_json((1, "x", "INT"))})
    new = parse_type({"type": "ARRAY", "element": row_json((1, "x", "BIGINT"))})
    values = [[(1,)], None, [(2,), (3,)], [], [(4,)]]
    (plan,) = plan_file_columns([Field(1, "c", old)], [Field(1, "c", new)])
    column = pa.chunked_array([internal_to_arrow(values, old).slice(1, 3)])
    assert arrow_to_internal(evolve_column(plan, column, 3), new) == values[1:4]
    inner = row((1, "x", "INT"), (2, "y", "STRING"))
    (plan,) = plan_file_columns([Field(1, "c", inner)], [Field(1, "c", row((2, "y", "STRING")))])
    column = pa.chunked_array([internal_to_arrow([(1, "a"), (2, "b"), None, (3, "c")], inner).slice(1, 3)])
    assert arrow_to_internal(evolve_column(plan, column, 3), plan.field.type) == [("b",), None, ("c",)]


def test_another_kind_of_nesting_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="no cast"):
        evolve(parse_type({"type": "ARRAY", "element": "INT"}), row((1, "x", "INT")), [[1]])


def test_a_file_that_holds_something_else_is_not_taken_for_nested_data() -> None:
    nested = parse_type({"type": "ARRAY", "element": "INT"})
    (plan,) = plan_file_columns([Field(1, "c", nested)], [Field(1, "c", nested)])
    with pytest.raises(ValueError, match="column 'c'"):
        evolve_column(plan, pa.chunked_array([pa.array([{"a": 1}])]), 1)
