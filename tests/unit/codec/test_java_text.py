"""Java's text forms; the full matrix is compared with Java itself in the interop lane."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.codec.java_text import (
    civil_from_days,
    date_text,
    days_from_civil,
    double_text,
    float_text,
    parse_date,
    parse_time,
    parse_timestamp,
    time_text,
    timestamp_text,
)
from lakeidx.types import parse_type

EPOCH = dt.date(1970, 1, 1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (-2.5, "-2.5"), (100.0, "100.0"), (0.001, "0.001"), (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"), (1e7, "1.0E7"), (123456.789, "123456.789"), (1e10, "1.0E10"), (1.5e300, "1.5E300"),
        (5e-324, "4.9E-324"), (math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity"),
    ],
)  # fmt: skip
def test_doubles_have_the_text_of_java(value: float, text: str) -> None:
    assert double_text(value) == text


@given(st.floats())
def test_the_text_of_a_double_reads_back(value: float) -> None:
    text = double_text(value)
    back = float(text)
    assert back == value or (math.isnan(back) and math.isnan(value))
    if math.isfinite(value):
        assert "." in text.split("E")[0]
        assert ("E" in text) == (value != 0 and not 1e-3 <= abs(value) < 1e7)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_the_text_of_a_float_reads_back(value: float) -> None:
    assert np.float32(float_text(value)) == np.float32(value)


def test_a_float_has_the_digits_of_32_bits() -> None:
    assert float_text(float(np.float32(0.1))) == "0.1"
    assert float_text(float(np.float32(3.4e38))) == "3.4E38"


@given(st.integers(-(2**31), 2**31 - 1))
def test_days_and_dates_are_inverse(days: int) -> None:
    assert days_from_civil(*civil_from_days(days)) == days


@given(st.dates())
def test_days_are_those_of_the_calendar(date: dt.date) -> None:
    days = (date - EPOCH).days
    assert civil_from_days(days) == (date.year, date.month, date.day)
    assert date_text(days) == date.isoformat()
    assert parse_date(date.isoformat()) == days


@pytest.mark.parametrize(
    ("days", "text"), [(-719_529, "000/-12-31"), (2_932_896, "9999-12-31"), (2_932_897, "0000-01-01")]
)
def test_years_that_have_not_four_digits_are_written_as_java_does(days: int, text: str) -> None:
    assert date_text(days) == text
    assert timestamp_text((days * 86_400_000, 0), 0) == f"{text} 00:00:00"


@pytest.mark.parametrize(
    ("millis", "precision", "text"),
    [
        (0, 0, "00:00:00"),
        (0, 3, "00:00:00.0"),
        (1, 3, "00:00:00.001"),
        (120, 3, "00:00:00.12"),
        (86_399_999, 0, "23:59:59"),
    ],
)
def test_times_have_the_text_of_java(millis: int, precision: int, text: str) -> None:
    assert time_text(millis, precision) == text


def test_timestamps_have_at_least_the_digits_of_their_precision() -> None:
    assert timestamp_text((0, 0), 0) == "1970-01-01 00:00:00"
    assert timestamp_text((-1, 0), 3) == "1969-12-31 23:59:59.999"
    assert timestamp_text((5, 7000), 6) == "1970-01-01 00:00:00.005007"
    assert timestamp_text((5, 7), 3) == "1970-01-01 00:00:00.005000007"


@pytest.mark.parametrize("text", ["", "x", "2024-13-01", "2023-02-29", "2024-00-10", "2024-1-1-1", "20-a-1"])
def test_what_is_no_date(text: str) -> None:
    with pytest.raises(ValueError, match="DATE"):
        parse_date(text)


@pytest.mark.parametrize("text", ["", "x", "2024-01-01 25:00:00", "2024-02-30 00:00:00", "2024-01-01 10:11"])
def test_what_is_no_timestamp(text: str) -> None:
    with pytest.raises(ValueError, match=r"TIMESTAMP|DATE"):
        parse_timestamp(text, parse_type("TIMESTAMP(3)"))


def test_parsed_times_and_timestamps() -> None:
    assert parse_time("1:2:3.4") == 3_723_400
    assert parse_time("12345") == 12345
    with pytest.raises(ValueError, match="TIME"):
        parse_time("1:x")
    t3, t6 = parse_type("TIMESTAMP(3)"), parse_type("TIMESTAMP(6)")
    assert parse_timestamp("1970-01-02 00:00:00.1239", t3) == (86_400_123, 0)
    assert parse_timestamp("1970-01-01T00:01", t6) == (60_000, 0)
    assert parse_timestamp("1234567", t6) == (1234, 567_000)
