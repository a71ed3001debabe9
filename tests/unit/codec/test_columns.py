from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakeidx.codec.arrays import null_mask, one_array, values_of
from lakeidx.codec.columns import (
    BytesColumn,
    FixedColumn,
    TailColumn,
    bytes_column,
    fixed_width,
    is_fixed,
    split_columns,
)
from lakeidx.types import DataType, parse_type, to_arrow


def never(value: object, t: DataType) -> bytes:
    raise AssertionError("no nested value here")


@pytest.mark.parametrize(
    ("type_text", "shape"),
    [
        ("BOOLEAN", FixedColumn),
        ("DATE", FixedColumn),
        ("DECIMAL(18, 2)", FixedColumn),
        ("DECIMAL(19, 2)", TailColumn),
        ("TIMESTAMP(3)", FixedColumn),
        ("TIMESTAMP(4) WITH LOCAL TIME ZONE", TailColumn),
        ("CHAR(3)", BytesColumn),
        ("BYTES", BytesColumn),
    ],
)
def test_every_type_has_its_shape_of_columns(type_text: str, shape: type) -> None:
    t = parse_type(type_text)
    (part,), n = split_columns([pa.nulls(3, to_arrow(t))], [t], None, never)
    assert isinstance(part, shape)
    assert n == 3
    assert is_fixed(t) == (shape is FixedColumn)
    assert part.valid is not None
    assert not part.valid.any()


def test_widths_are_those_of_the_values() -> None:
    words = ["BOOLEAN", "TINYINT", "SMALLINT", "INT", "DATE", "TIME(3)", "FLOAT", "BIGINT", "DOUBLE", "TIMESTAMP(3)"]
    assert [fixed_width(parse_type(w)) for w in words] == [1, 1, 2, 4, 4, 4, 4, 8, 8, 8]


def test_values_and_nulls_of_a_slice() -> None:
    array = pa.array([1, None, 3, 4]).slice(1, 2)
    mask = null_mask(array)
    assert mask is not None
    assert mask.tolist() == [False, True]
    assert values_of(array, np.int64)[1] == 3
    assert null_mask(array.slice(1)) is None
    part = bytes_column(pa.array(["zz", None, "abc"]).slice(1))
    assert part.lengths.tolist() == [-1, 3]
    assert part.data[part.starts[1] :][:3].tobytes() == b"abc"


def test_plain_columns_are_not_copied() -> None:
    array = pa.array(np.arange(1000))
    (part,), _ = split_columns([pa.chunked_array([array])], [parse_type("BIGINT")], None, never)
    assert isinstance(part, FixedColumn)
    assert part.words.ctypes.data == array.buffers()[1].address


def test_large_columns_are_joined() -> None:
    column = pa.chunked_array([["a"], ["b", None]], pa.large_string())
    assert one_array(column, parse_type("STRING")).to_pylist() == ["a", "b", None]
