"""Values as JSON writes them: of every Arrow type, whatever Python has for it, and with no need of pandas."""

from __future__ import annotations

import math
import sys
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.data.json_values import json_rows, json_values

NANOS = 1_785_000_000_123_456_789
CASES: list[tuple[pa.DataType, Any, Any]] = [
    (pa.timestamp("ns"), NANOS, "2026-07-25T17:20:00.123456789"),
    (pa.timestamp("us", "UTC"), 1, "1970-01-01T00:00:00.000001Z"),
    (pa.timestamp("ms"), 253_402_300_800_001, "10000-01-01T00:00:00.001"),
    (pa.timestamp("s"), -62_167_219_200, "0000-01-01T00:00:00"),
    (pa.timestamp("us", "UTC"), 2**63 - 1, "294247-01-10T04:00:54.775807Z"),
    (pa.timestamp("us"), -(2**63), "<out of range: -9223372036854775808>"),
    (pa.date32(), 2_932_897, "10000-01-01"),
    (pa.date32(), 2**31 - 1, "5881580-07-11"),
    (pa.date64(), 86_400_000, "1970-01-02"),
    (pa.time32("ms"), 86_400_000, "<value out of range: 86400000>"),
    (pa.time32("ms"), 86_399_999, "23:59:59.999"),
    (pa.time64("ns"), 1, "00:00:00.000000001"),
    (pa.duration("us"), 7, 7),
    (pa.binary(), b"\x00\xff", "00ff"),
    (pa.large_binary(), b"\x01", "01"),
    (pa.binary(2), b"ab", "6162"),
    (pa.float64(), math.nan, "NaN"),
    (pa.float32(), -math.inf, "-Infinity"),
    (pa.int8(), -1, -1),
    (pa.large_string(), "é", "é"),
    (pa.bool_(), True, True),
]


@pytest.mark.parametrize(("t", "value", "shown"), CASES, ids=lambda v: str(v))
def test_plain_and_nested_values_are_shown_alike(t: pa.DataType, value: Any, shown: Any) -> None:
    if pa.types.is_temporal(t):
        plain = pa.array([None, value], pa.int32() if t.bit_width == 32 else pa.int64()).cast(t)
    else:
        plain = pa.array([None, value], t)
    assert json_values(plain) == [None, shown]
    assert json_values(pa.chunked_array([plain, plain.slice(1)])) == [None, shown, shown]
    assert json_values(plain.dictionary_encode()) == [None, shown]
    lists = pa.ListArray.from_arrays(pa.array([0, None, 2, 2], pa.int32()), pa.concat_arrays([plain, plain]))
    assert json_values(lists) == [[None, shown], None, []]
    assert json_values(lists.slice(1)) == [None, []]
    assert json_values(pa.FixedSizeListArray.from_arrays(plain, 2)) == [[None, shown]]
    rows = pa.StructArray.from_arrays([plain, lists.slice(0, 2)], ["a", "b"], mask=pa.array([True, False]))
    assert json_values(rows) == [None, {"a": shown, "b": None}]
    keys = pa.array(["k", "l"])
    maps = pa.MapArray.from_arrays(pa.array([0, 1, None, 2], pa.int32()), keys, plain)
    assert json_values(maps) == [[["k", None]], [["l", shown]], None]
    assert json_values(maps.slice(1)) == [[["l", shown]], None]
    assert json_rows(pa.table({"x": plain})) == [{"x": None}, {"x": shown}]


def test_pandas_is_not_imported_for_nanoseconds() -> None:
    had = "pandas" in sys.modules
    json_values(pa.array([NANOS]).cast(pa.timestamp("ns")))
    assert ("pandas" in sys.modules) is had
