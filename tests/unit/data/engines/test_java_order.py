"""The order of java.util.HashMap, against orders that a JVM gave (JDK 17) and known hash codes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from lakeidx.data.engines.scalar.collections import hash_code, identity, java_key_order, java_order_computed
from lakeidx.types import parse_type


@pytest.mark.parametrize(
    ("type_name", "value", "expected"),
    [
        ("INT", -5, -5),
        ("TINYINT", -1, -1),
        ("BIGINT", -1, 0),
        ("BIGINT", 1 << 32, 1),
        ("BOOLEAN", True, 1231),
        ("BOOLEAN", False, 1237),
        ("DOUBLE", 1.0, 1072693248),
        ("DOUBLE", -0.0, -2147483648),
        ("DOUBLE", float("nan"), 2146959360),
        ("FLOAT", 1.5, 1069547520),
        ("DECIMAL(10, 2)", Decimal("12.34"), 31 * 1234 + 2),
        ("DECIMAL(10, 2)", Decimal("-12.34"), -31 * 1234 + 2),
        ("DECIMAL(30, 0)", Decimal(1 << 64), 31 * 961),
        ("TIMESTAMP(9)", (1, 7), 38),
        ("INT", None, 0),
    ],
)
def test_values_have_the_hash_codes_of_java(type_name: str, value: Any, expected: int) -> None:
    assert (hash_code(value, parse_type(type_name)) - expected) % (1 << 32) == 0


def test_small_integers_stand_by_bin() -> None:
    assert java_key_order([17, 3, 1, 16, 0], lambda v: v) == [16, 0, 17, 1, 3]
    assert java_order_computed([17, 3, 1, 16, 0, 17], lambda v: v) == [0, 16, 1, 17, 3]


def test_the_table_grows_past_three_quarters() -> None:
    twelve = [16, *range(11)]
    assert java_key_order(twelve, lambda v: v)[:2] == [16, 0]
    assert java_key_order([*twelve, 11], lambda v: v) == [*range(12), 16]
    # computeIfAbsent looks at the size before it inserts: thirteen entries still stand in sixteen bins.
    assert java_order_computed([*twelve, 11], lambda v: v)[:2] == [0, 16]
    assert java_order_computed([*twelve, 11, 11], lambda v: v) == [*range(12), 16]


def test_floats_are_equal_by_bits() -> None:
    t = parse_type("DOUBLE")
    assert identity(float("nan"), t) == identity(-float("nan"), t)
    assert identity(0.0, t) != identity(-0.0, t)
