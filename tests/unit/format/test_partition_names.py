"""Expected names were printed by InternalRowPartitionComputer and PartitionPathUtils of 1.4.2 (JDK 17, TZ Asia/Shanghai)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.errors import InvalidInputError
from lakeidx.format.partition_names import (
    escape,
    partition_dir_name,
    unescape,
)
from lakeidx.types import Field, parse_type

pytestmark = pytest.mark.usefixtures("shanghai")

TS = (1_700_000_000_123, 0)
TS_FINE = (1_700_000_000_120, 456_700)
TS_SECOND = (1_700_000_000_000, 0)
TS_MINUTE = (1_699_999_980_000, 0)
BEFORE = (-1, 999_999)
MICRO, NANO = (0, 1000), (0, 1)
FAR, LONG_AGO = (253_402_300_800_000, 0), (-62_198_755_200_000, 0)

# (type, value, legacy name, SQL name); None: the same
SAMPLES: list[tuple[str, Any, str, str]] = [
    ("BOOLEAN", True, "true", "true"),
    ("BOOLEAN", False, "false", "false"),
    ("BOOLEAN", None, "__D__", "__D__"),
    ("TINYINT", -5, "-5", "-5"),
    ("BIGINT", 12345678901, "12345678901", "12345678901"),
    ("FLOAT", 1.5, "1.5", "1.5"),
    ("FLOAT", 1e10, "1.0E10", "1.0E10"),
    ("FLOAT", 1e-5, "1.0E-5", "1.0E-5"),
    ("FLOAT", 0.1, "0.1", "0.1"),
    ("FLOAT", 3.4028235e38, "3.4028235E38", "3.4028235E38"),
    ("FLOAT", float("nan"), "NaN", "NaN"),
    ("FLOAT", -0.0, "-0.0", "-0.0"),
    ("FLOAT", 123456.7, "123456.7", "123456.7"),
    ("FLOAT", 1e7, "1.0E7", "1.0E7"),
    ("FLOAT", 9999999.0, "9999999.0", "9999999.0"),
    ("FLOAT", 0.001, "0.001", "0.001"),
    ("FLOAT", 2e-45, "1.4E-45", "1.4E-45"),
    ("FLOAT", float("inf"), "Infinity", "Infinity"),
    ("DOUBLE", 1e10, "1.0E10", "1.0E10"),
    ("DOUBLE", 1e-5, "1.0E-5", "1.0E-5"),
    ("DOUBLE", 0.1, "0.1", "0.1"),
    ("DOUBLE", 9999999.0, "9999999.0", "9999999.0"),
    ("DOUBLE", 0.002, "0.002", "0.002"),
    ("DOUBLE", 2.2250738585072014e-308, "2.2250738585072014E-308", "2.2250738585072014E-308"),
    ("DOUBLE", 4.9e-324, "4.9E-324", "4.9E-324"),
    ("DOUBLE", 123456789.125, "1.23456789125E8", "1.23456789125E8"),
    ("DOUBLE", float("-inf"), "-Infinity", "-Infinity"),
    ("DOUBLE", 100.0, "100.0", "100.0"),
    ("DECIMAL(5, 2)", Decimal("1.00"), "1.00", "1.00"),
    ("DECIMAL(5, 2)", Decimal("-0.05"), "-0.05", "-0.05"),
    ("DECIMAL(38, 20)", Decimal("1E-20"), "0.00000000000000000001", "0.00000000000000000001"),
    ("DECIMAL(20, 0)", Decimal("12345678901234567890"), "12345678901234567890", "12345678901234567890"),
    ("DATE", 19723, "19723", "2024-01-01"),
    ("DATE", -1, "-1", "1969-12-31"),
    ("DATE", -719529, "-719529", "000%2F-12-31"),
    ("DATE", 2932897, "2932897", "0000-01-01"),
    ("DATE", -1000000, "-1000000", "0)%2A(-02-04"),
    ("TIME(0)", 3661000, "3661000", "01%3A01%3A01"),
    ("TIME(0)", 86399999, "86399999", "23%3A59%3A59"),
    ("TIME(3)", 3661001, "3661001", "01%3A01%3A01.001"),
    ("TIME(3)", 0, "0", "00%3A00%3A00.0"),
    ("TIME(3)", 3661100, "3661100", "01%3A01%3A01.1"),
    ("TIMESTAMP(0)", TS, "2023-11-14T22%3A13%3A20.123", "2023-11-14 22%3A13%3A20.123"),
    ("TIMESTAMP(0)", TS_FINE, "2023-11-14T22%3A13%3A20.120456700", "2023-11-14 22%3A13%3A20.1204567"),
    ("TIMESTAMP(0)", TS_SECOND, "2023-11-14T22%3A13%3A20", "2023-11-14 22%3A13%3A20"),
    ("TIMESTAMP(0)", TS_MINUTE, "2023-11-14T22%3A13", "2023-11-14 22%3A13%3A00"),
    ("TIMESTAMP(0)", BEFORE, "1969-12-31T23%3A59%3A59.999999999", "1969-12-31 23%3A59%3A59.999999999"),
    ("TIMESTAMP(0)", MICRO, "1970-01-01T00%3A00%3A00.000001", "1970-01-01 00%3A00%3A00.000001"),
    ("TIMESTAMP(0)", FAR, "+10000-01-01T00%3A00", "0000-01-01 00%3A00%3A00"),
    ("TIMESTAMP(0)", LONG_AGO, "-0001-01-01T00%3A00", "000%2F-01-01 00%3A00%3A00"),
    ("TIMESTAMP(3)", TS, "2023-11-14T22%3A13%3A20.123", "2023-11-14 22%3A13%3A20.123"),
    ("TIMESTAMP(3)", TS_SECOND, "2023-11-14T22%3A13%3A20", "2023-11-14 22%3A13%3A20.000"),
    ("TIMESTAMP(6)", TS, "2023-11-14T22%3A13%3A20.123", "2023-11-14 22%3A13%3A20.123000"),
    ("TIMESTAMP(6)", TS_MINUTE, "2023-11-14T22%3A13", "2023-11-14 22%3A13%3A00.000000"),
    ("TIMESTAMP(9)", TS_FINE, "2023-11-14T22%3A13%3A20.120456700", "2023-11-14 22%3A13%3A20.120456700"),
    ("TIMESTAMP(9)", MICRO, "1970-01-01T00%3A00%3A00.000001", "1970-01-01 00%3A00%3A00.000001000"),
    ("TIMESTAMP(9)", NANO, "1970-01-01T00%3A00%3A00.000000001", "1970-01-01 00%3A00%3A00.000000001"),
    (
        "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        (1_700_000_000_123, 456_700),
        "2023-11-14T22%3A13%3A20.123456700",
        "2023-11-15 06%3A13%3A20.1234567",
    ),
    ("TIMESTAMP(3) WITH LOCAL TIME ZONE", TS_SECOND, "2023-11-14T22%3A13%3A20", "2023-11-15 06%3A13%3A20.000"),
    ("STRING", "a b/c=d%é", "a b%2Fc%3Dd%25é", "a b%2Fc%3Dd%25é"),
    ("STRING", "", "__D__", "__D__"),
    ("STRING", "  \t", "__D__", "__D__"),
    (
        "STRING",
        "\x00\x1f\x7f\"#%'*/:=?\\{}[]^",
        "%00%1F%7F%22%23%25%27%2A%2F%3A%3D%3F%5C%7B%7D%5B%5D%5E",
        "%00%1F%7F%22%23%25%27%2A%2F%3A%3D%3F%5C%7B%7D%5B%5D%5E",
    ),
    ("STRING", "𝄞<>|,;&+~`!@$()_-.", "𝄞<>|,;&+~`!@$()_-.", "𝄞<>|,;&+~`!@$()_-."),
    ("STRING", "\u00a0", "\u00a0", "\u00a0"),
    ("STRING", "\u3000", "__D__", "__D__"),
    ("STRING", "\x1c", "__D__", "__D__"),
    ("STRING", "\u2007", "\u2007", "\u2007"),
    ("STRING", "\u0085", "\u0085", "\u0085"),
    ("STRING", "\u2028", "__D__", "__D__"),
    ("STRING", "\u200b", "\u200b", "\u200b"),
    ("STRING", "\x1f", "__D__", "__D__"),
    ("STRING", "\u180e", "\u180e", "\u180e"),
    ("CHAR(3)", "ab", "ab", "ab"),
]


@pytest.mark.parametrize(("type_name", "value", "legacy", "sql"), SAMPLES)
def test_as_java_prints_it(type_name: str, value: Any, legacy: str, sql: str) -> None:
    fields = [Field(0, "k", parse_type(type_name))]
    assert partition_dir_name({"k": value}, fields, default_name="__D__") == f"k={legacy}"
    assert partition_dir_name({"k": value}, fields, legacy=False, default_name="__D__") == f"k={sql}"


def test_binary_columns_need_the_sql_form() -> None:
    fields = [Field(0, "k", parse_type("BYTES"))]
    assert partition_dir_name({"k": b"AB"}, fields, legacy=False) == "k=AB"
    with pytest.raises(InvalidInputError, match="legacy-name"):
        partition_dir_name({"k": b"AB"}, fields)


def test_several_columns_are_several_directories() -> None:
    fields = [Field(0, "dt", parse_type("DATE")), Field(1, "a=b", parse_type("STRING"))]
    assert partition_dir_name({"a=b": "x y", "dt": 1, "other": 0}, fields) == "dt=1/a%3Db=x y"
    assert partition_dir_name({}, []) == ""
    with pytest.raises(InvalidInputError, match="'dt' is missing"):
        partition_dir_name({"a=b": "x"}, fields)


def test_unescape_as_java() -> None:
    assert unescape("a%2Fb%zz%4%41%é1%2") == "a/b%zz%4A%é1%2"


@given(st.text())
def test_escape_round_trip(text: str) -> None:
    escaped = escape(text)
    assert unescape(escaped) == text
    assert "/" not in escaped
    assert "=" not in escaped
