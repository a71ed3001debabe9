"""Vectorised pruning over every type, and its speed at table scale."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakeidx.predicate import FALSE, TRUE, ColumnStats, Predicate, StatsArrays, col, may_match_many, may_match_stats
from lakeidx.predicate.mask import to_array
from lakeidx.types import parse_type, to_arrow

a = col("a")
VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [False, True],
    "TINYINT": [-128, 0, 5, 127],
    "BIGINT": [-(2**63), -1, 0, 2**63 - 1],
    "FLOAT": [float("-inf"), -0.0, 0.0, 1.5, float("nan")],
    "DOUBLE": [-2.5, -0.0, 0.0, 1e300, float("nan")],
    "DECIMAL(20, 2)": [Decimal("-99999999999999.99"), Decimal("0.00"), Decimal("0.01")],
    "STRING": ["", "a", "ab", "b", "é", "𐍈"],
    "BYTES": [b"", b"\x00", b"\x7f", b"\x80", b"\xff"],
    "DATE": [-1, 0, 19723],
    "TIME(3)": [0, 1, 86399999],
    "TIMESTAMP(3)": [(-1, 0), (0, 0), (1, 0)],
    "TIMESTAMP(6)": [(-1, 999000), (0, 0), (0, 1000)],
    "TIMESTAMP_LTZ(9)": [(-1, 999999), (0, 0), (0, 1)],
}


def predicates(values: list[Any], text: bool) -> list[Predicate]:
    made: list[Predicate] = [
        a.is_null(),
        a.is_not_null(),
        a.is_in([]),
        a.not_in([]),
        TRUE,
        FALSE,
        a.is_in([*values, None]),
    ]
    for x in values:
        made += [a == x, a != x, a < x, a <= x, a > x, a >= x, a.is_in([x, None]), a.not_in([x]), a.is_in(values[:2])]
    made += [a.not_in([*values[:1], None])]
    if text:
        made += [
            p
            for x in values
            for p in (a.startswith(x), ~a.startswith(x), a.like(x + "_%"), a.contains(x), a.endswith(x))
        ]
    return made


@pytest.mark.parametrize("type_text", VALUES)
@pytest.mark.parametrize("nan_blind", [False, True])
def test_same_answer_as_one_file_at_a_time(type_text: str, nan_blind: bool) -> None:
    values = VALUES[type_text]
    files = [
        ColumnStats(low, high, nulls, rows)
        for i, low in enumerate([*values, None])
        for high in ([*values, None] if low is None else [*values[i:], None])
        for nulls, rows in ((0, 5), (2, 5), (5, 5), (None, 5), (0, 0), (None, None), (1, None))
        if nulls != rows or low is None
    ]
    arrow = to_arrow(parse_type(type_text))
    arrays = StatsArrays(
        to_array([f.min for f in files], arrow),
        to_array([f.max for f in files], arrow),
        pa.array([f.null_count for f in files], pa.int64()),
        pa.array([f.row_count for f in files], pa.int64()),
    )
    for pred in predicates(values, type_text == "STRING"):
        many = may_match_many(pred, {"a": arrays}, len(files), nan_blind=nan_blind)
        one = [may_match_stats(pred, {"a": f}, nan_blind=nan_blind) for f in files]
        assert many.dtype == bool
        assert many.tolist() == one, pred


def test_no_files() -> None:
    empty = StatsArrays(*(pa.array([], pa.int64()) for _ in range(4)))
    assert may_match_many(a.is_in([1]) | (a > 3), {"a": empty}, 0).shape == (0,)


def test_ten_thousand_files_at_once() -> None:
    low = np.arange(10_000, dtype=np.int64) * 100
    counts = pa.array(np.zeros(10_000, np.int64)), pa.array(np.full(10_000, 100, np.int64))
    stats = {"a": StatsArrays(pa.array(low), pa.array(low + 99), *counts)}
    pred = (a >= 5_000) & a.is_in(range(0, 1_000_000, 1000))
    assert np.flatnonzero(may_match_many(pred, stats, 10_000)).tolist() == list(range(50, 10_000, 10))
