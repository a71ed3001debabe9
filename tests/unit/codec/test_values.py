from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.values import (
    arrow_int_to_timestamp,
    arrow_to_internal,
    internal_to_arrow,
    timestamp_to_arrow_int,
    unscaled_of,
)
from lakeidx.errors import InvalidInputError
from lakeidx.types import parse_type, to_arrow
from tests.unit.codec.strategies import LAYOUTS, columns_of, laid_out, same, tables


@given(tables(max_columns=1, min_columns=1), st.sampled_from(LAYOUTS))
@settings(deadline=None)
def test_arrow_round_trip(table: tuple[list[Any], list[list[Any]]], layout: str) -> None:
    (t,), rows = table
    column = columns_of([t], rows)[0]
    assert column.type == to_arrow(t)
    column.validate(full=True)
    assert same(arrow_to_internal(laid_out(column, t, layout), t), [row[0] for row in rows])


def test_internal_values_against_the_standard_library() -> None:
    """Expected values by datetime and pyarrow's own conversion, not by the code under test."""
    moment = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)
    column = pa.array([moment], pa.timestamp("us"))
    assert arrow_to_internal(column, parse_type("TIMESTAMP(6)")) == [(-1, 999_000)]
    assert internal_to_arrow([(-1, 999_000)], parse_type("TIMESTAMP(6)")).to_pylist() == [moment]
    day = datetime.date(2024, 2, 29)
    assert arrow_to_internal(pa.array([day]), parse_type("DATE")) == [(day - datetime.date(1970, 1, 1)).days]
    noon = pa.array([datetime.time(12, 0, 0, 5000)], pa.time32("ms"))
    assert arrow_to_internal(noon, parse_type("TIME(3)")) == [12 * 3_600_000 + 5]
    assert internal_to_arrow([Decimal("1.5")], parse_type("DECIMAL(38, 20)")).to_pylist() == [Decimal("1.5")]
    pairs = [("k", [Decimal("1.00"), None])]
    t = parse_type({"type": "MAP", "key": "STRING NOT NULL", "value": {"type": "ARRAY", "element": "DECIMAL(3, 2)"}})
    assert internal_to_arrow([pairs, None], t).to_pylist() == [pairs, None]


@pytest.mark.parametrize(
    ("value", "type_text"),
    [
        (Decimal("0.001"), "DECIMAL(5, 2)"),
        (Decimal("1000"), "DECIMAL(5, 2)"),
        (Decimal("NaN"), "DECIMAL(5, 2)"),
        (1, "DECIMAL(5, 2)"),
        (2**31, "INT"),
        (-129, "TINYINT"),
        ("x", "INT"),
        (b"\xff", "STRING"),
        (1, "BYTES"),
        ((0, 1), "TIMESTAMP(6)"),
        ((0, 1_000_000), "TIMESTAMP(9)"),
        ((9_300_000_000_000, 0), "TIMESTAMP(9)"),
        ((0, 5), "TIMESTAMP(3)"),
    ],
)
def test_values_that_are_not_of_the_type(value: Any, type_text: str) -> None:
    with pytest.raises(InvalidInputError):
        internal_to_arrow([value], parse_type(type_text))


def test_a_decimal_is_exact_beyond_the_default_context() -> None:
    t = parse_type("DECIMAL(38, 10)")
    assert (
        unscaled_of(Decimal("-1234567890123456789012345678.0123456789"), t) == -12345678901234567890123456780123456789
    )


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([3, 6, 9]))
def test_timestamps_are_floored_to_the_milli(ticks: int, precision: int) -> None:
    millis, nanos = arrow_int_to_timestamp(ticks, precision)
    unit = {3: 1_000_000, 6: 1_000, 9: 1}[precision]
    assert millis * 1_000_000 + nanos == ticks * unit
    assert 0 <= nanos < 1_000_000
    assert timestamp_to_arrow_int((millis, nanos), precision) == ticks


def test_a_column_of_another_type() -> None:
    assert arrow_to_internal(pa.array([1, 2], pa.int64()), parse_type("SMALLINT")) == [1, 2]
    for column, type_text in ((pa.array(["a"]), "INT"), (pa.array([2**40]), "INT")):
        with pytest.raises(InvalidInputError):
            arrow_to_internal(column, parse_type(type_text))
    for column in (pa.array([1]), pa.array([[1]]), pa.array([{"a": 1}])):
        with pytest.raises(InvalidInputError):
            arrow_to_internal(column, parse_type({"type": "MAP", "key": "INT", "value": "INT"}))
    with pytest.raises(InvalidInputError):
        arrow_to_internal(pa.array([{"a": 1}]), parse_type({"type": "ROW", "fields": []}))
