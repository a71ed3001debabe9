"""Random Paimon types, internal values and Arrow layouts for the codec tests."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from lakeidx.codec.values import internal_to_arrow, map_types
from lakeidx.types import (
    BYTES_ROOTS,
    INT_ROOTS,
    MAX_LENGTH,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    Field,
    Root,
    to_arrow,
)

_INT_BITS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64, Root.DATE: 32}
_DAY_MS = 86_400_000

atomic_types = st.one_of(
    st.sampled_from([Root.BOOLEAN, *sorted(INT_ROOTS), Root.FLOAT, Root.DOUBLE, Root.DATE]).map(DataType),
    st.sampled_from([Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY]).map(
        lambda root: DataType(root, length=MAX_LENGTH)
    ),
    st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: DataType(Root.DECIMAL, precision=p, scale=s))),
    st.sampled_from([0, 3]).map(lambda p: DataType(Root.TIME, precision=p)),
    st.tuples(st.sampled_from(sorted(TIMESTAMP_ROOTS)), st.integers(0, 9)).map(
        lambda rp: DataType(rp[0], precision=rp[1])
    ),
)


def _row_type(types: list[DataType]) -> DataType:
    return DataType(Root.ROW, fields=tuple(Field(i, f"f{i}", t) for i, t in enumerate(types)))


def _extend(children: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    return st.one_of(
        children.map(lambda t: DataType(Root.ARRAY, element=t)),
        st.tuples(atomic_types, children).map(
            lambda kv: DataType(Root.MAP, key=kv[0].with_nullable(False), element=kv[1])
        ),
        atomic_types.map(lambda t: DataType(Root.MULTISET, element=t)),
        st.lists(children, min_size=1, max_size=3).map(_row_type),
        st.just(DataType(Root.VARIANT)),
    )


nested_types = st.recursive(atomic_types, _extend, max_leaves=4).filter(lambda t: t.is_nested or t.root is Root.VARIANT)
any_types = st.one_of(atomic_types, atomic_types, nested_types)


def not_null(t: DataType) -> st.SearchStrategy[Any]:
    """Internal values of a type that Arrow can hold, with the corners of each type over-represented."""
    if t.root is Root.BOOLEAN:
        return st.booleans()
    if t.root in _INT_BITS:
        half = 1 << (_INT_BITS[t.root] - 1)
        return st.one_of(st.integers(-half, half - 1), st.integers(-3, 3), st.sampled_from([-half, half - 1]))
    if t.root is Root.TIME:
        return st.integers(0, _DAY_MS - 1)
    if t.root is Root.FLOAT:
        return st.floats(width=32, allow_nan=False) | st.sampled_from([math.nan, -0.0, 0.0])
    if t.root is Root.DOUBLE:
        return st.floats(allow_nan=False) | st.sampled_from([math.nan, -0.0, 0.0])
    if t.root in STRING_ROOTS:
        letters = st.text(st.sampled_from("\0\1\2aabé€\U0001f601\uffff"), max_size=24)
        return letters | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    if t.root in BYTES_ROOTS:
        return st.binary(max_size=24) | st.lists(st.sampled_from([0, 1, 2, 255]), max_size=20).map(bytes)
    if t.root is Root.DECIMAL:
        bound = 10**t.precision - 1
        ints = st.integers(-bound, bound) | st.sampled_from([0, bound, -bound]) | st.integers(-min(bound, 300), 0)
        return ints.map(lambda i: Decimal((int(i < 0), tuple(int(d) for d in str(abs(i))), -t.scale)))
    if t.root in TIMESTAMP_ROOTS:
        return _timestamps(t)
    if t.root is Root.VARIANT:
        return st.tuples(st.binary(max_size=12), st.binary(max_size=12))
    if t.root is Root.ARRAY:
        assert t.element is not None
        return st.lists(values(t.element), max_size=5)
    if t.root is Root.ROW:
        return st.tuples(*(values(f.type) for f in t.fields))
    key, item = map_types(t)
    return st.lists(st.tuples(values(key), values(item)), max_size=4)


def _timestamps(t: DataType) -> st.SearchStrategy[tuple[int, int]]:
    step = 10 ** max(0, 9 - t.precision)
    # What Arrow's nanoseconds hold, to the day; other units hold Paimon's whole range.
    low, high = (
        (-62_135_596_800_000, 253_402_300_799_999) if t.precision <= 6 else (-9_223_286_400_000, 9_223_286_400_000)
    )
    nanos = st.just(0) if t.precision <= 3 else st.integers(0, 999_999 // step).map(lambda k: k * step)
    return st.tuples(st.integers(low, high) | st.integers(-2, 2), nanos)


def values(t: DataType) -> st.SearchStrategy[Any]:
    """Internal values of a type, null among them where it is nullable."""
    return st.none() | not_null(t) if t.nullable else not_null(t)


@st.composite
def tables(
    draw: st.DrawFn,
    types: st.SearchStrategy[DataType] = any_types,
    *,
    min_columns: int = 1,
    max_columns: int = 5,
    max_rows: int = 12,
) -> tuple[list[DataType], list[list[Any]]]:
    """(column types, rows of internal values)."""
    chosen = draw(st.lists(types, min_size=min_columns, max_size=max_columns))
    return chosen, draw(st.lists(st.tuples(*(values(t) for t in chosen)).map(list), max_size=max_rows))


def columns_of(types: list[DataType], rows: list[list[Any]]) -> list[pa.Array]:
    """Rows of internal values as plain Arrow columns."""
    return [internal_to_arrow([row[i] for row in rows], t) for i, t in enumerate(types)]


LAYOUTS = ("plain", "sliced", "chunked", "many_chunks", "garbage", "large", "view", "dictionary")


def laid_out(column: pa.Array, t: DataType, layout: str) -> pa.Array | pa.ChunkedArray:
    """The same values in another Arrow layout; layouts that a type does not have leave it as it is."""
    n = len(column)
    is_bytes = t.root in STRING_ROOTS or t.root in BYTES_ROOTS
    if layout == "sliced":
        back = column.take(pa.array(range(n)[::-1], pa.int64()))
        return pa.concat_arrays([back, column, back]).slice(n, n)
    if layout == "chunked":
        return pa.chunked_array([column.slice(0, n // 2), column.slice(n // 2)], column.type)
    if layout == "many_chunks":
        empty = column.slice(0, 0)
        return pa.chunked_array([c for i in range(n) for c in (empty, column.slice(i, 1))], column.type)
    if layout == "garbage" and not t.is_nested and t.root is not Root.VARIANT and n:
        return _garbage_under_nulls(column, t)
    if layout == "large" and is_bytes:
        return column.cast(pa.large_string() if t.root in STRING_ROOTS else pa.large_binary())
    if layout == "view" and is_bytes:
        return column.cast(pa.string_view() if t.root in STRING_ROOTS else pa.binary_view())
    if layout == "dictionary" and is_bytes:
        return column.dictionary_encode()
    return column


def _garbage_under_nulls(column: pa.Array, t: DataType) -> pa.Array:
    """Nulls whose value buffers hold something other than zeros, as a filter or a join may leave them."""
    valid = np.asarray(column.is_valid())
    some = next((v for v in column if v.is_valid), None)
    fillers: dict[Root, Any] = {Root.BOOLEAN: True, Root.DECIMAL: Decimal(1).scaleb(-t.scale)}
    filler = some if some is not None else fillers.get(t.root, "x" if t.root in STRING_ROOTS else b"x")
    if some is None and t.root not in fillers and t.root not in STRING_ROOTS and t.root not in BYTES_ROOTS:
        filler = pa.scalar(1, pa.int64()).cast(pa.int32() if to_arrow(t).bit_width == 32 else pa.int64())
        if to_arrow(t).bit_width < 32 or t.root in (Root.FLOAT, Root.DOUBLE):
            filler = filler.cast(to_arrow(t))
        filler = filler.cast(to_arrow(t))
    if not isinstance(filler, pa.Scalar):
        filler = pa.scalar(filler, to_arrow(t))
    full = column.fill_null(filler)
    if full.offset:
        full = pa.concat_arrays([full])
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(column.type, len(column), [bitmap, *full.buffers()[1:]])


def same(a: Any, b: Any) -> bool:
    """Equality of internal values that tells -0.0 from 0.0 and takes NaN for equal to itself."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or struct.pack("<d", a) == struct.pack("<d", b)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and a == b
