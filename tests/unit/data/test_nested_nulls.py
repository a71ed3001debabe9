"""Nulls of required nested fields against a walk over Python values."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.data.nested_nulls import has_required_fields, settle_column, without_hidden_nulls


@st.composite
def types(draw: st.DrawFn, depth: int = 3) -> pa.DataType:
    """Nested types in which any field may be required."""
    leaf = st.sampled_from([pa.int32(), pa.string(), pa.decimal128(30, 2), pa.bool_(), pa.timestamp("us")])
    if depth == 0:
        return draw(leaf)
    kind = draw(st.sampled_from(["leaf", "struct", "list", "map"] if depth < 3 else ["struct", "list", "map"]))
    inner = types(depth=depth - 1)
    if kind == "leaf":
        return draw(leaf)
    if kind == "struct":
        fields = draw(st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=3))
        return pa.struct([pa.field(f"f{i}", t, null) for i, (t, null) in enumerate(fields)])
    value = pa.field("element" if kind == "list" else "value", draw(inner), draw(st.booleans()))
    return pa.list_(value) if kind == "list" else pa.map_(pa.int32(), value)


def _values(draw: st.DrawFn, t: pa.DataType) -> Any:
    if draw(st.integers(0, 3)) == 0:
        return None
    if pa.types.is_struct(t):
        return {t.field(i).name: _values(draw, t.field(i).type) for i in range(t.num_fields)}
    if pa.types.is_list(t):
        return [_values(draw, t.value_type) for _ in range(draw(st.integers(0, 3)))]
    if pa.types.is_map(t):
        return [(i, _values(draw, t.item_type)) for i in range(draw(st.integers(0, 3)))]
    return {"int32": 7, "string": "x", "bool": True}.get(str(t)) or (1 if pa.types.is_decimal(t) else 5)


def _bad(value: Any, t: pa.DataType) -> bool:
    if value is None:
        return False
    if pa.types.is_struct(t):
        fields = [t.field(i) for i in range(t.num_fields)]
        return any((value[f.name] is None and not f.nullable) or _bad(value[f.name], f.type) for f in fields)
    if pa.types.is_list(t):
        return any((v is None and not t.value_field.nullable) or _bad(v, t.value_type) for v in value)
    if pa.types.is_map(t):
        return any((v is None and not t.item_field.nullable) or _bad(v, t.item_type) for _, v in value)
    return False


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_equals_the_walk_over_values(data: st.DataObject) -> None:
    """Bad rows are those of the walk; the others keep their values and can be written as Parquet, in slices too."""
    t = data.draw(types())
    values = [_values(data.draw, t) for _ in range(data.draw(st.integers(0, 6)))]  # type: ignore[arg-type]
    start = data.draw(st.integers(0, len(values)))
    array = pa.array(values, t).slice(start)
    out, bad = without_hidden_nulls(array)
    out.validate(full=True)
    expected = [_bad(v, t) for v in values[start:]]
    assert (np.zeros(len(array), bool) if bad is None else bad).tolist() == expected
    fine = [i for i, is_bad in enumerate(expected) if not is_bad]
    shown, before = out.to_pylist(), array.to_pylist()
    assert [shown[i] for i in fine] == [before[i] for i in fine]
    kept, none = without_hidden_nulls(array.take(pa.array(fine, pa.int32())))
    assert none is None
    pq.write_table(pa.table({"c": kept}), io.BytesIO())


def test_types_without_required_fields_are_not_touched() -> None:
    """The array itself comes back."""
    array = pa.array([None, [{"a": 1}]], pa.list_(pa.struct([("a", pa.int32())])))
    assert not has_required_fields(array.type)
    assert without_hidden_nulls(array)[0] is array
    column = pa.chunked_array([array])
    assert settle_column(column) == (column, False)
