"""Predicates shown as SQL. That the text reads back is a property test."""

from __future__ import annotations

import pytest

from lakeidx.predicate import FALSE, Predicate, col, format_predicate
from lakeidx.predicate.parse import parse_where
from lakeidx.types import Field, parse_type

FIELDS = [
    Field(0, "day", parse_type("DATE")),
    Field(1, "at", parse_type("TIMESTAMP(9)")),
    Field(2, "t", parse_type("TIME(3)")),
    Field(3, "select", parse_type("INT")),
    Field(4, "odd `name", parse_type("BYTES")),
    Field(5, "m", parse_type({"type": "MAP", "key": "STRING", "value": "STRING"})),
    Field(6, "s", parse_type("STRING")),
]


@pytest.mark.parametrize(
    ("pred", "text"),
    [
        (col("day") == 19723, "day = DATE '2024-01-01'"),
        (col("at") == (1704103200123, 456789), "at = TIMESTAMP '2024-01-01 10:00:00.123456789'"),
        (col("at") == (-1, 0), "at = TIMESTAMP '1969-12-31 23:59:59.999'"),
        (col("t") == 36660005, "t = TIME '10:11:00.005'"),
        (col("select") == 5, "`select` = 5"),
        (col("odd `name") == b"\x01", "`odd ``name` = X'01'"),
        (col("m")["it's"] == "x'y", "m['it''s'] = 'x''y'"),
        (col("s").startswith("50%_\\"), "s LIKE '50\\%\\_\\\\%'"),
        (~col("s").contains("x"), "s NOT LIKE '%x%'"),
        (
            (col("s") == "a") & ((col("day") < 0) | col("s").is_null()),
            "s = 'a' AND (day < DATE '1970-01-01' OR s IS NULL)",
        ),
        (FALSE, "FALSE"),
    ],
)
def test_shown_and_read_back(pred: Predicate, text: str) -> None:
    shown = format_predicate(pred, FIELDS)
    assert shown == text
    assert parse_where(shown, FIELDS) == pred


def test_long_lists_can_be_cut_and_types_left_out() -> None:
    assert format_predicate(col("a").is_in(range(30)), shorten=True).endswith("18, 19, … 10 more)")
    assert format_predicate(col("day") == 19723) == "day = 19723"
    assert format_predicate(col("day") == 10**9, FIELDS) == "day = epoch day 1000000000"
    assert format_predicate(col("at") == (10**16, 0), FIELDS) == "at = epoch second 10000000000000"
