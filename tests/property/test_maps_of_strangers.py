"""Random nested columns, maps among them, are looked at, shown and cast to their own type without an abort or a change.

Arrow ends the process where it makes a map with null keys, which a map of none may have when its keys have no type.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.data.json_values import json_values
from lakeidx.errors import InvalidInputError
from lakeidx.landing.cast import cast_column
from lakeidx.landing.text.utf8 import check_layout, is_utf8
from lakeidx.types import from_arrow, parse_type

LEAVES = st.sampled_from([pa.string(), pa.string_view(), pa.int32(), pa.time32("ms"), pa.decimal128(5, 2), pa.date64()])


@st.composite
def arrays(draw: Any, rows: int, depth: int = 0) -> pa.Array:
    kind = draw(st.sampled_from(["leaf", "map", "list", "struct"])) if depth < 3 else "leaf"
    gone = pa.array(draw(st.lists(st.booleans(), min_size=rows, max_size=rows)), pa.bool_())
    if kind == "leaf":
        t = draw(LEAVES)
        return (
            pa.array([None] * rows, t)
            if draw(st.booleans()) or not pa.types.is_string(t)
            else pa.array(["é"] * rows, t)
        )
    if kind == "struct":
        return pa.StructArray.from_arrays([draw(arrays(rows, depth + 1))], ["a"], mask=gone)
    sizes = draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows))
    offsets = pa.array([sum(sizes[:i]) for i in range(rows + 1)], pa.int32())
    inner = draw(arrays(sum(sizes), depth + 1))
    if kind == "list":
        return pa.ListArray.from_arrays(offsets, inner, mask=gone)
    return pa.MapArray.from_arrays(
        offsets, pa.array([f"k{i}" for i in range(sum(sizes))], pa.string()), inner, mask=gone
    )


@given(st.data())
def test_nothing_aborts(data: Any) -> None:
    rows = data.draw(st.integers(0, 3))
    column = data.draw(arrays(rows))
    for values in (column, column.slice(rows // 2)):
        check_layout(pa.record_batch([values], ["x"]))
        assert is_utf8(values)
        assert len(json_values(values)) == len(values)
        cast = cast_column(values, from_arrow(values.type))
        assert json_values(cast.values) == json_values(values)


def test_a_map_without_a_type_of_keys_is_refused() -> None:
    empty = pa.MapArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array([]), pa.array([], pa.int32()))
    column = pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["k"]), empty)
    check_layout(pa.record_batch([column], ["x"]))
    with pytest.raises(InvalidInputError, match="has no type for its keys"):
        cast_column(column, parse_type({"type": "MAP", "key": "STRING", "value": "INT"}))
