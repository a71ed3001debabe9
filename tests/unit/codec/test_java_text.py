"""Java's text forms read back; texts that Java printed are in `tests/unit/format/test_partition_names.py`."""

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
)
from lakeidx.types import parse_type

EPOCH = dt.date(1970, 1, 1)


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


@given(st.integers(-(2**31), 2**31 - 1))
def test_days_and_dates_are_inverse(days: int) -> None:
    assert days_from_civil(*civil_from_days(days)) == days


@given(st.dates())
def test_days_are_those_of_the_calendar(date: dt.date) -> None:
    days = (date - EPOCH).days
    assert civil_from_days(days) == (date.year, date.month, date.day)
    assert date_text(days) == date.isoformat()
    assert parse_date(date.isoformat()) == days


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
