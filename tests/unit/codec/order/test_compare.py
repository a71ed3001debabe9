from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from lakeidx.types import parse_type
from tests.kit.scalar_twins import compare_rows, compare_values

# Values of each type in Paimon's order, as the format's rules state it.
IN_ORDER = {
    "BOOLEAN": [None, False, True],
    "TINYINT": [None, -128, -1, 0, 127],
    "BIGINT": [None, -(2**63), -1, 0, 1, 2**63 - 1],
    "DATE": [None, -1, 0, 1],
    "DOUBLE": [None, -math.inf, -1.5, -0.0, 0.0, 5e-324, math.inf, math.nan],
    "FLOAT": [None, -math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, math.nan],
    "STRING": [None, "", "\0", "\0\0", "A", "a", "a\0", "aa", "é", "\uffff", "\U0001f601"],
    "BYTES": [None, b"", b"\0", b"\x7f", b"\x80", b"\xff", b"\xff\0"],
    "DECIMAL(38, 2)": [None, Decimal("-1e35"), Decimal("-0.01"), Decimal("0.00"), Decimal("0.01"), Decimal("1e35")],
    "TIMESTAMP(9)": [None, (-5, 999_999), (-4, 0), (0, 0), (0, 1), (1, 0)],
}


@pytest.mark.parametrize("type_text", IN_ORDER)
def test_values_of_every_type_compare_in_their_order(type_text: str) -> None:
    t, values = parse_type(type_text), IN_ORDER[type_text]
    for i, a in enumerate(values):  # type: ignore[arg-type, var-annotated]
        for j, b in enumerate(values):  # type: ignore[arg-type, var-annotated]
            assert compare_values(a, b, t) == (i > j) - (i < j)


def test_any_nan_equals_any_other() -> None:
    assert compare_values(math.nan, -math.nan, parse_type("DOUBLE")) == 0


def test_rows_field_by_field() -> None:
    types = [parse_type("INT"), parse_type("STRING")]
    rows: list[list[Any]] = [[None, "z"], [1, None], [1, "a"], [1, "b"], [2, ""]]
    for i, a in enumerate(rows):
        for j, b in enumerate(rows):
            assert compare_rows(a, b, types) == (i > j) - (i < j)
