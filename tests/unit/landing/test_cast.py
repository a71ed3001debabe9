"""Casting landing columns: every type from text, what fails is marked row by row, whole columns that never fit are an error."""

from __future__ import annotations

import math
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.errors import InvalidInputError
from lakeidx.landing.cast import cast_column
from lakeidx.landing.cast_values import decode_hex
from lakeidx.types import parse_type, to_arrow

INTS = {"type": "ARRAY", "element": "INT"}
COUNTS = {"type": "MAP", "key": "STRING", "value": "INT"}


def row(**fields: Any) -> dict[str, Any]:
    return {"type": "ROW", "fields": [{"id": i, "name": n, "type": t} for i, (n, t) in enumerate(fields.items())]}


def cast(values: list[Any], t: Any, arrow: pa.DataType | None = None) -> tuple[list[Any], list[bool]]:
    out = cast_column(pa.array(values, arrow or pa.string()), parse_type(t))
    assert out.values.type == to_arrow(parse_type(t))
    failed = [False] * len(values) if out.failed is None else out.failed.tolist()
    shown = out.values.to_pylist()
    assert all(v is None for v, bad in zip(shown, failed, strict=True) if bad)
    return shown, failed


GOOD: list[tuple[str, str, Any]] = [
    ("BOOLEAN", " TRUE ", True),
    ("BOOLEAN", "n", False),
    ("TINYINT", "-128", -128),
    ("SMALLINT", "+32767", 32767),
    ("INT", "0012", 12),
    ("INT", "5.0", 5),
    ("INT", "+2e3", 2000),
    ("BIGINT", "-9223372036854775808", -(2**63)),
    ("BIGINT", "9223372036854775807.000", 2**63 - 1),
    ("FLOAT", "0.5", 0.5),
    ("DOUBLE", "-1.5e-3", -0.0015),
    ("DOUBLE", "Infinity", math.inf),
    ("DECIMAL(5, 2)", "-999.99", Decimal("-999.99")),
    ("DECIMAL(38, 0)", "9" * 38, Decimal("9" * 38)),
    ("DECIMAL(5, 2)", "1.10", Decimal("1.10")),
    ("DECIMAL(5, 2)", "1e2", Decimal("100.00")),
    ("CHAR(3)", " ab", " ab"),
    ("VARCHAR(10)", "", ""),
    ("STRING", "żółw 🐢", "żółw 🐢"),
    ("BINARY(2)", "00fF", b"\x00\xff"),
    ("BYTES", "", b""),
    ("DATE", "2024-02-29", date(2024, 2, 29)),
    ("TIME(0)", "23:59:59", time(23, 59, 59)),
    ("TIME(3)", "01:02:03.004", time(1, 2, 3, 4000)),
    ("TIME(0)", "07:30", time(7, 30)),
    ("TIMESTAMP(3)", "2024-01-02 03:04:05.678", datetime(2024, 1, 2, 3, 4, 5, 678000)),
    ("TIMESTAMP(3)", "2024-01-02T03:04:05.678000000", datetime(2024, 1, 2, 3, 4, 5, 678000)),
    ("TIMESTAMP(6)", "0001-01-01 00:00:00", datetime(1, 1, 1)),
    ("TIMESTAMP(6)", "9999-12-31T23:59:59.999999", datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ("TIMESTAMP(0)", "2024-01-02", datetime(2024, 1, 2)),
]


@pytest.mark.parametrize(("t", "text", "value"), GOOD, ids=lambda v: str(v))
def test_text_of_every_type(t: str, text: str, value: Any) -> None:
    assert cast([text, None], t) == ([value, None], [False, False])


BAD = [
    ("BOOLEAN", "maybe"),
    ("TINYINT", "128"),
    ("INT", "1.5"),
    ("INT", "2147483648.0"),
    ("INT", "1e-1"),
    ("INT", "1e400"),
    ("INT", "0x10"),
    ("INT", ""),
    ("INT", "1_000"),
    ("BIGINT", "9223372036854775808"),
    ("FLOAT", "1e39"),
    ("DOUBLE", "1e400"),
    ("DOUBLE", "1,5"),
    ("DECIMAL(5, 2)", "1000.00"),
    ("DECIMAL(5, 2)", "1.234"),
    ("DECIMAL(5, 2)", "NaN"),
    ("BYTES", "abc"),
    ("BYTES", "0g"),
    ("DATE", "2023-02-29"),
    ("DATE", "2024-1-1"),
    ("DATE", "2024-01-01 00:00:00"),
    ("TIME(0)", "24:00:00"),
    ("TIME(3)", "00:00:00.0001"),
    ("TIMESTAMP(3)", "2024-01-02 03:04:05.6789"),
    ("TIMESTAMP(3)", "2024-01-02 03:04:05+02:00"),
    ("TIMESTAMP(3)", "2024-01-02 03:04:05-0030"),
    ("TIMESTAMP(3)", "2024-01-02 03:04:05ZZ"),
    ("TIMESTAMP(3)", "2024-01-02Z"),
    ("TIMESTAMP(9)", "9999-01-01 00:00:00"),
    ("TIMESTAMP(3)", "yesterday"),
    (INTS, "{}"),
    (INTS, '["x"]'),
    (COUNTS, "[1]"),
    (row(a="INT"), '{"b": 1}'),
]


@pytest.mark.parametrize(("t", "text"), BAD, ids=str)
def test_bad_text_is_marked_and_only_it(t: Any, text: str) -> None:
    good = {"DATE": "2024-01-01", "BOOLEAN": "true", "BYTES": "00", "TIME": "00:00:00", "TIMESTAMP": "2024-01-01"}
    fine = good.get(t.split("(")[0], "1") if isinstance(t, str) else None
    values, failed = cast([fine, text, None, text, fine], t)
    assert failed == [False, True, False, True, False]
    assert values[2] is None


def test_zones_are_applied_to_instants() -> None:
    values, failed = cast(
        ["2024-01-02 03:04:05+02:00", "2024-01-02T03:04:05Z", "2024-01-02 03:04:05", "2024-01-02T03:04:05-0530"],
        "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    )
    assert failed == [False] * 4
    assert [v.strftime("%H:%M:%S%z") for v in values] == [
        "01:04:05+0000",
        "03:04:05+0000",
        "03:04:05+0000",
        "08:34:05+0000",
    ]


def test_a_timestamp_takes_the_clock_of_utc() -> None:
    """As it takes instants of Parquet files; in any other zone it is not known which clock is meant."""
    texts = ["2024-01-02T03:04:05Z", "2024-01-02 03:04:05.678+00:00", "2024-01-02 03:04:05+0000", "2024-01-02 03:04:05"]
    values, failed = cast([*texts, "2024-01-02 03:04Z", "2024-01-02"], "TIMESTAMP(3)")
    assert failed == [False] * 6
    shown = [v.isoformat(sep=" ", timespec="milliseconds") for v in values]
    assert shown == ["2024-01-02 03:04:05.000", "2024-01-02 03:04:05.678", *["2024-01-02 03:04:05.000"] * 2,
                     "2024-01-02 03:04:00.000", "2024-01-02 00:00:00.000"]  # fmt: skip


def test_half_a_pair_of_surrogates_in_json_is_no_text() -> None:
    texts = {"type": "ARRAY", "element": "STRING"}
    assert cast(['["\\ud800"]', '["x"]'], texts) == ([None, ["x"]], [True, False])
    assert cast(['{"\\udfff": 1}', '{"x": 1}'], COUNTS) == ([None, [("x", 1)]], [True, False])


def test_json_text_becomes_nested_values() -> None:
    assert cast(['[1, null, "3"]'], INTS) == ([[1, None, 3]], [False])
    assert cast(['{"a": 1}', '[["b", 2]]'], COUNTS) == ([[("a", 1)], [("b", 2)]], [False, False])
    assert cast(['{"x": "1.50", "y": ["00ff"]}'], row(x="DECIMAL(4, 2)", y={"type": "ARRAY", "element": "BYTES"})) == (
        [{"x": Decimal("1.50"), "y": [b"\x00\xff"]}],
        [False],
    )
    assert cast(['{"t": "2024-01-02 03:04:05", "d": "2024-01-02"}'], row(t="TIMESTAMP(3)", d="DATE")) == (
        [{"t": datetime(2024, 1, 2, 3, 4, 5), "d": date(2024, 1, 2)}],
        [False],
    )


NUMBERS = [
    (pa.int64(), "INT", [1, 2**31, -(2**31), -(2**31) - 1], [1, None, -(2**31), None]),
    (pa.uint64(), "BIGINT", [2**63 - 1, 2**63], [2**63 - 1, None]),
    (pa.float64(), "INT", [1.0, 1.5, math.nan, math.inf, 2.0**31], [1, None, None, None, None]),
    (pa.float64(), "BIGINT", [2.0**62, 2.0**63, -(2.0**63)], [2**62, None, -(2**63)]),
    (pa.float64(), "FLOAT", [0.5, 1e300, math.inf], [0.5, None, math.inf]),
    (pa.float64(), "DECIMAL(4, 1)", [0.1, 0.25, 1000.0], [Decimal("0.1"), None, None]),
    (pa.int32(), "DECIMAL(4, 1)", [999, 1000], [Decimal("999.0"), None]),
    (pa.decimal128(10, 3), "DECIMAL(4, 1)", [Decimal("1.100"), Decimal("1.110"), Decimal("1000.000")],
     [Decimal("1.1"), None, None]),
    (pa.int64(), "STRING", [12], ["12"]),
    (pa.timestamp("us"), "TIMESTAMP(3)", [datetime(2024, 1, 1, 0, 0, 0, 5000), datetime(2024, 1, 1, 0, 0, 0, 5)],
     [datetime(2024, 1, 1, 0, 0, 0, 5000), None]),
    (pa.timestamp("us"), "DATE", [datetime(2024, 1, 1), datetime(2024, 1, 1, 1)], [date(2024, 1, 1), None]),
    (pa.date64(), "DATE", [86_400_000, 1], [date(1970, 1, 2), None]),
    (pa.time32("s"), "TIME(3)", [86_399, 86_400, -1], [time(23, 59, 59), None, None]),
    (pa.timestamp("ms", "Europe/Warsaw"), "TIMESTAMP(3)", [1_704_067_200_000], [datetime(2024, 1, 1)]),
    (pa.binary(), "STRING", [b"ok", b"\xff"], ["ok", None]),
]  # fmt: skip


@pytest.mark.parametrize(("found", "t", "given", "wanted"), NUMBERS, ids=lambda v: str(v)[:30])
def test_columns_of_other_types(found: pa.DataType, t: str, given: list[Any], wanted: list[Any]) -> None:
    values, failed = cast([*given, None], t, found)
    assert values == [*wanted, None]
    assert failed == [w is None for w in wanted] + [False]


def test_dictionary_columns_are_cast_by_their_distinct_values() -> None:
    column = pa.array(["1", "x", None, "1"]).dictionary_encode()
    out = cast_column(pa.chunked_array([column, column]), parse_type("INT"))
    assert out.values.to_pylist() == [1, None, None, 1] * 2
    assert out.failed is not None
    assert out.failed.tolist() == [False, True, False, False] * 2


@pytest.mark.parametrize(
    ("column", "t"),
    [
        (pa.array([{"a": 1}]), "INT"),
        (pa.array([True]), "INT"),
        (pa.array([1]), "BOOLEAN"),
        (pa.array([1]), INTS),
        (pa.array([[1]]), "STRING"),
        (pa.array([1]), "BYTES"),
    ],
    ids=str,
)
def test_a_column_that_never_fits_is_an_error(column: pa.Array, t: Any) -> None:
    with pytest.raises(InvalidInputError, match="does not cast to"):
        cast_column(column, parse_type(t))


@pytest.mark.slow
def test_many_bad_texts_are_found_without_trying_each() -> None:
    texts = [f"bad {i}" for i in range(200_000)]
    texts[77] = "5"
    values, failed = cast(texts, "INT")
    assert values[77] == 5
    assert sum(failed) == len(texts) - 1


@given(
    st.lists(st.one_of(st.none(), st.text(max_size=12), st.integers().map(str), st.decimals(allow_nan=False).map(str)))
)
@settings(max_examples=150, deadline=None)
def test_integers_as_python_reads_them(texts: list[str | None]) -> None:
    texts = [t for t in texts if t is None or t.isascii() or not any(c.isdigit() for c in t)]
    values, failed = cast(texts, "INT")
    for text, value, bad in zip(texts, values, failed, strict=True):
        try:
            wanted = None if text is None else int(text.replace("_", "x"))
        except ValueError:
            wanted = None
        if wanted is not None and not -(2**31) <= wanted < 2**31:
            wanted = None
        assert value == wanted, repr(text)
        assert bad == (text is not None and wanted is None)


@given(
    st.lists(
        st.one_of(
            st.none(), st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**6), max_value=10**6)
        )
    )
)
@settings(max_examples=100, deadline=None)
def test_decimals_keep_every_digit_or_fail(numbers: list[Decimal | None]) -> None:
    texts = [None if n is None else format(n, "f") for n in numbers]
    values, failed = cast(texts, "DECIMAL(7, 2)")
    for number, value, bad in zip(numbers, values, failed, strict=True):
        fits = number is not None and abs(number) < 10**5 and number == round(number, 2)
        assert bad == (number is not None and not fits)
        assert value == (number if fits else None)


@given(st.lists(st.one_of(st.none(), st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)))))
@settings(max_examples=100, deadline=None)
def test_timestamps_keep_their_microseconds(moments: list[datetime | None]) -> None:
    texts = [None if m is None else m.isoformat(" ") for m in moments]
    assert cast(texts, "TIMESTAMP(6)") == (moments, [False] * len(moments))
    values, failed = cast(texts, "TIMESTAMP(3)")
    assert failed == [m is not None and m.microsecond % 1000 != 0 for m in moments]
    assert all(v is None or v == m for v, m in zip(values, moments, strict=True))


@given(st.lists(st.one_of(st.none(), st.binary(max_size=9))))
@settings(max_examples=60, deadline=None)
def test_hex_text_becomes_bytes(values: list[bytes | None]) -> None:
    texts = [None if v is None else v.hex() for v in values]
    assert decode_hex(pa.array(texts, pa.string())).to_pylist() == values


@given(st.lists(st.one_of(st.none(), st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)))))
@settings(max_examples=60, deadline=None)
def test_text_becomes_times(values: list[time | None]) -> None:
    texts = [None if v is None else v.isoformat() for v in values]
    assert cast(texts, "TIME(3)") == (values, [False] * len(values))


def test_an_empty_column() -> None:
    for t in ("INT", "STRING", INTS, "TIMESTAMP(3)", "BYTES", "TIME(0)"):
        assert len(cast_column(pa.chunked_array([], pa.string()), parse_type(t)).values) == 0
        assert cast_column(pa.nulls(3), parse_type(t)).values.null_count == 3
