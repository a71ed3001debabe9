"""Python values and text as literals of a column's type."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.errors import InvalidInputError
from lakeidx.predicate.literals import Literal, cast_literal
from lakeidx.types import parse_type

ZONE = dt.timezone(dt.timedelta(hours=2))


@pytest.mark.parametrize(
    ("value", "type_text", "expected"),
    [
        (np.int16(7), "BIGINT", Literal(7)),
        (127, "TINYINT", Literal(127)),
        (128, "TINYINT", Literal(None, False, 1)),
        (-129, "TINYINT", Literal(None, False, -1)),
        (127.5, "TINYINT", Literal(127, False)),
        (-128.5, "TINYINT", Literal(None, False, -1)),
        (math.nan, "INT", Literal(None, False, 1)),
        (-math.inf, "INT", Literal(None, False, -1)),
        ("1e999999", "INT", Literal(None, False, 1)),
        ("-1e-999999", "INT", Literal(-1, False)),
        (0.1, "DECIMAL(3, 2)", Literal(Decimal("0.10"))),
        (Decimal("9.999"), "DECIMAL(3, 2)", Literal(Decimal("9.99"), False)),
        (Decimal("10"), "DECIMAL(3, 2)", Literal(None, False, 1)),
        (Decimal("-9.999"), "DECIMAL(3, 2)", Literal(None, False, -1)),
        (dt.date(1969, 12, 31), "DATE", Literal(-1)),
        (dt.datetime(1970, 1, 2, 0, 0, 1), "DATE", Literal(1, False)),
        (19723, "DATE", Literal(19723)),
        (dt.time(1, 2, 3, 4000), "TIME(3)", Literal(3723004)),
        (dt.time(0, 0, 0, 1), "TIME(3)", Literal(0, False)),
        (dt.datetime(1970, 1, 1, 0, 0, 0, 1500), "TIMESTAMP(6)", Literal((1, 500000))),
        (dt.datetime(1970, 1, 1, 0, 0, 0, 1500), "TIMESTAMP(3)", Literal((1, 0), False)),
        (dt.datetime(1970, 1, 1, 2, tzinfo=ZONE), "TIMESTAMP_LTZ(3)", Literal((0, 0))),
        (np.datetime64("1970-01-01T00:00:00.000000001"), "TIMESTAMP(9)", Literal((0, 1))),
        (np.datetime64("1970-01-02"), "TIMESTAMP(0)", Literal((86400000, 0))),
        ((5, 999999), "TIMESTAMP(9)", Literal((5, 999999))),
        ("9999-12-31", "TIMESTAMP(9)", Literal(None, False, 1)),
        ("0001-01-01", "TIMESTAMP(9)", Literal(None, False, -1)),
        ("0001-01-01", "TIMESTAMP(6)", Literal((-62135596800000, 0))),
        (memoryview(b"ab"), "BYTES", Literal(b"ab")),
        (np.bool_(True), "BOOLEAN", Literal(True)),
        ("False", "BOOLEAN", Literal(False)),
        (np.float32(1.5), "FLOAT", Literal(1.5)),
        (1e39, "FLOAT", Literal(3.4028234663852886e38, False)),
    ],
)
def test_literals_are_cast_to_the_columns_type(value: Any, type_text: str, expected: Literal) -> None:
    assert cast_literal(value, parse_type(type_text)) == expected


@pytest.mark.parametrize(
    ("value", "type_text"),
    [
        (True, "INT"),
        ("x", "INT"),
        ("", "DOUBLE"),
        (b"x", "STRING"),
        ("\ud800", "STRING"),
        ("x", "BYTES"),
        (1, "BOOLEAN"),
        (5, "TIMESTAMP(3)"),
        ((1, True), "TIMESTAMP(3)"),
        (np.datetime64("NaT"), "TIMESTAMP(3)"),
        (dt.datetime(2024, 1, 1, tzinfo=ZONE), "TIMESTAMP(3)"),
        ("2024-1-1x", "DATE"),
        ("٢٠٢٤-01-01", "DATE"),
        (object(), "DATE"),
        (dt.time(1, tzinfo=ZONE), "TIME(0)"),
        (5, "VARIANT"),
    ],
)
def test_literals_of_other_types_are_refused(value: Any, type_text: str) -> None:
    with pytest.raises(InvalidInputError, match="column 'c'"):
        cast_literal(value, parse_type(type_text), where="column 'c'")


def test_float_that_is_no_32_bit_float() -> None:
    t = parse_type("FLOAT")
    assert cast_literal(0.1, t) == Literal(0.10000000149011612)
    strict = cast_literal(0.1, t, strict_float=True)
    assert not strict.exact
    assert strict.value == 0.09999999403953552
    assert cast_literal(0.5, t, strict_float=True) == Literal(0.5)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=5), st.integers(1, 10), st.integers(0, 4))
def test_inexact_decimals_are_the_greatest_value_below(value: Decimal, digits: int, scale: int) -> None:
    precision = digits + scale
    step = Decimal(1).scaleb(-scale)
    limit = Decimal(10) ** digits
    literal = cast_literal(value, parse_type(f"DECIMAL({precision}, {scale})"))
    if literal.beyond:
        assert value >= limit if literal.beyond > 0 else value < -limit + step
    else:
        assert -limit < literal.value < limit
        assert literal.value <= value < literal.value + step
        assert literal.exact == (literal.value == value)
