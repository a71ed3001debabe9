"""Column casts: the fast paths equal the scalar rules (which interop compares with Java), and bad text names its column."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.values import arrow_to_internal, internal_to_arrow
from lakeidx.data.cast import (
    cast_to_type,
    fit_decimal,
    is_same_value,
    parse_whole,
    scalar_cast,
    truncate_timestamp,
    wrap,
)
from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.types import DataType, parse_type
from tests.unit.codec.strategies import not_null

NUMBERS = ["TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"]
WIDENED = [
    ("DECIMAL(8, 2)", "DECIMAL(14, 2)"),
    ("DECIMAL(8, 2)", "DECIMAL(20, 5)"),
    ("DECIMAL(20, 5)", "DECIMAL(6, 1)"),
    ("TIMESTAMP(3)", "TIMESTAMP(6)"),
    ("DATE", "TIMESTAMP(3)"),
    ("STRING", "VARCHAR(3)"),
    ("VARCHAR(3)", "STRING"),
    ("CHAR(3)", "CHAR(5)"),
]
PAIRS = [(a, b) for a in NUMBERS for b in NUMBERS] + WIDENED


@pytest.mark.parametrize(("old", "new"), PAIRS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_column_casts_equal_the_scalar_rules(old: str, new: str, data: st.DataObject) -> None:
    t, target = parse_type(old), parse_type(new)
    values = data.draw(st.lists(st.none() | not_null(t), max_size=8))
    column = pa.chunked_array([internal_to_arrow(values[:3], t), internal_to_arrow(values[3:], t)])
    convert = scalar_cast(t, target)
    wanted = [None if v is None else convert(v) for v in values]
    found = cast_to_type(column, t, target, name="c")
    assert found.type == internal_to_arrow([], target).type
    assert bits(found, target) == bits(pa.chunked_array([internal_to_arrow(wanted, target)]), target)


def bits(column: pa.ChunkedArray, t: DataType) -> list[Any]:
    """Values that compare by their bits: -0.0 is not 0.0, NaN is NaN."""
    return [np.float64(v).tobytes() if isinstance(v, float) else v for v in arrow_to_internal(column, t)]


def test_slices_are_cast_as_they_lie() -> None:
    column = pa.chunked_array([pa.array([1.5, None, 3e10, -7.9, 1.0])[1:4]])
    assert cast_to_type(column, parse_type("DOUBLE"), parse_type("INT"), name="c").to_pylist() == [None, 2**31 - 1, -7]


def test_text_that_does_not_parse_names_the_column() -> None:
    column = pa.chunked_array([["1", "x"]])
    with pytest.raises(InvalidInputError, match=r"column 'price' changed from STRING to INT: 'x'"):
        cast_to_type(column, parse_type("STRING"), parse_type("INT"), name="price")


def test_types_that_store_the_same_bytes_need_no_cast() -> None:
    assert is_same_value(parse_type("INT NOT NULL"), parse_type("INT"))
    assert is_same_value(parse_type("CHAR(3)"), parse_type("VARCHAR(3)"))
    assert not is_same_value(parse_type("VARCHAR(4)"), parse_type("VARCHAR(3)"))
    assert not is_same_value(parse_type("VARCHAR(3)"), parse_type("CHAR(3)"))


def test_nested_values_become_text() -> None:
    t = parse_type({"type": "ARRAY", "element": {"type": "MAP", "key": "INT NOT NULL", "value": "DOUBLE"}})
    column = pa.chunked_array([internal_to_arrow([[[(1, 0.5), (2, None)], None], None, []], t)])
    assert cast_to_type(column, t, parse_type("STRING"), name="c").to_pylist() == [
        "[{1 -> 0.5, 2 -> null}, null]",
        None,
        "[]",
    ]
    row = parse_type(
        {"type": "ROW", "fields": [{"id": 1, "name": "a", "type": "DATE"}, {"id": 2, "name": "b", "type": "BOOLEAN"}]}
    )
    column = pa.chunked_array([internal_to_arrow([(0, True), (None, None)], row)])
    assert cast_to_type(column, row, parse_type("STRING"), name="c").to_pylist() == [
        "{1970-01-01, true}",
        "{null, null}",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [("BYTES", "INT"), ("DATE", "INT"), ("BOOLEAN", "DATE"), ("DOUBLE", "BOOLEAN"), ("DATE", "VARCHAR(5)")],
)
def test_casts_that_paimon_does_not_have(old: str, new: str) -> None:
    with pytest.raises(UnsupportedError, match="no cast"):
        scalar_cast(parse_type(old), parse_type(new))


def test_numbers_wrap_parse_and_fit_as_in_java() -> None:
    assert wrap(300, 8) == 44
    assert wrap(-129, 8) == 127
    assert parse_whole("+12.9", 8) == 12
    with pytest.raises(ValueError, match="does not fit"):
        parse_whole("128", 8)
    assert fit_decimal(Decimal("0.25"), parse_type("DECIMAL(3, 1)")) == Decimal("0.3")
    assert fit_decimal(Decimal("-0.25"), parse_type("DECIMAL(3, 1)")) == Decimal("-0.3")
    assert fit_decimal(Decimal("99.96"), parse_type("DECIMAL(3, 1)")) is None
    assert truncate_timestamp((1999, 5), 0) == (1000, 0)
    assert truncate_timestamp((1999, 123_456), 6) == (1999, 123_000)
