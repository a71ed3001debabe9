"""Predicates against a plain model of SQL's three-valued logic, over random WHERE texts and tables.

The generator makes each condition twice: as text, and as a function of a row that answers True, False or None (NULL).
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.predicate import (
    ColumnStats,
    columns,
    equality_values,
    evaluate,
    filter_table,
    format_predicate,
    may_match_stats,
    project,
    split_and,
)
from lakeidx.predicate.parse import parse_where
from lakeidx.types import Field, parse_type, to_arrow

NAMES = ("i", "s", "x", "dec", "d", "b", "ts", "m")
TYPES: dict[str, Any] = {
    "i": "INT",
    "s": "STRING",
    "x": "DOUBLE",
    "dec": "DECIMAL(5, 2)",
    "d": "DATE",
    "b": "BOOLEAN",
    "ts": "TIMESTAMP(3)",
    "m": {"type": "MAP", "key": "STRING", "value": "INT"},
}
FIELDS = [Field(n, name, parse_type(TYPES[name])) for n, name in enumerate(NAMES)]
EPOCH = dt.date(1970, 1, 1)
Truth = bool | None
Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A condition as text and as a function of a row."""

    text: str
    truth: Callable[[Row], Truth]


def _order(value: Any) -> tuple[bool, Any]:
    """Spark's order of doubles: NaN equals itself and is greatest."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0 if is_nan else value


def _compare(op: str, left: Any, right: Any) -> bool:
    a, b = _order(left), _order(right)
    answers = {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
    return answers[op]


INTS = st.sampled_from([0, 1, 2, 3, -1, 2147483647, -2147483648])
STRINGS = st.sampled_from(["", "a", "ab", "abc", "b", "a%", "é", "zz", "𐍈", "it's"])
DOUBLES = st.sampled_from([0.0, -0.0, 1.5, -2.25, math.nan, math.inf, -math.inf, 3.0])
DECIMALS = st.sampled_from([Decimal(t) for t in ("0.00", "1.25", "-1.25", "999.99", "-999.99", "1.20")])
DATES = st.sampled_from([0, 1, 19723, -1])
STAMPS = st.sampled_from([0, 1, 1704103200500, -1])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": INTS,
    "s": STRINGS,
    "x": DOUBLES,
    "dec": DECIMALS,
    "d": DATES,
    "b": st.booleans(),
    "ts": STAMPS,
}


def _text_of(name: str, value: Any) -> str:
    if value is None:
        return "NULL"
    if name == "s":
        return str("'" + value.replace("'", "''") + "'")
    if name == "d":
        return f"DATE '{EPOCH + dt.timedelta(days=value)}'"
    if name == "ts":
        return f"'{(dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=value)).isoformat(sep=' ', timespec='milliseconds')}'"
    if isinstance(value, float) and not math.isfinite(value):
        return "'NaN'" if math.isnan(value) else "'Infinity'" if value > 0 else "'-Infinity'"
    return str(value).upper() if isinstance(value, bool) else str(value)


# Literals that are no value of their column's type but can be compared with it: (text, a value that orders the same)
BETWEEN_VALUES: dict[str, list[tuple[str, Any]]] = {
    "i": [("1.5", 1.5), ("-0.5", -0.5), ("9999999999", 9999999999), ("-9999999999", -9999999999)],
    "dec": [
        ("1.255", Decimal("1.255")),
        ("-1.255", Decimal("-1.255")),
        ("1000", Decimal(1000)),
        ("-1e9", Decimal(-(10**9))),
    ],
    "d": [("'1970-01-01 12:00:00'", 0.5)],
    "ts": [("'1970-01-01 00:00:00.0005'", 0.5)],
}


@st.composite
def literals(draw: st.DrawFn, name: str) -> tuple[str, Any]:
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return "NULL", None
    if kind == 1 and name in BETWEEN_VALUES:
        found: tuple[str, Any] = draw(st.sampled_from(BETWEEN_VALUES[name]))
        return found
    value = draw(VALUES[name])
    return _text_of(name, value), value


@st.composite
def leaf_cases(draw: st.DrawFn) -> Case:
    name = draw(st.sampled_from(["i", "s", "x", "dec", "d", "b", "ts", "m"]))
    base, shown = name, name
    if name == "m":
        base, shown = "i", "m['k']"

    def get(row: Row) -> Any:
        return row[name] if name != "m" else dict(row["m"] or ()).get("k")

    kind = draw(st.sampled_from(["cmp", "cmp", "cmp", "in", "null", "between", "like", "safe", "bare"]))
    if kind == "null":
        no = draw(st.booleans())
        return Case(f"{shown} IS {'NOT ' if no else ''}NULL", lambda row: (get(row) is None) != no)
    if kind == "bare" and name == "b":
        return Case("b", lambda row: get(row))
    if kind == "like" and name == "s":
        pattern = draw(st.sampled_from(["a%", "%b", "%b%", "a_%", "%", "", "a\\%", "ab", "_", "%a%c", "%%", "it''s%"]))
        plain = pattern.replace("''", "'").replace("\\%", "\0")
        regex = re.compile(re.escape(plain).replace("%", ".*").replace("_", ".").replace("\0", "%"), re.DOTALL)
        return Case(
            f"s LIKE '{pattern}'", lambda row: None if get(row) is None else regex.fullmatch(get(row)) is not None
        )
    if kind == "in":
        pairs = draw(st.lists(literals(base), min_size=1, max_size=4))
        values = [v for _, v in pairs]

        def is_in(row: Row) -> Truth:
            value = get(row)
            if value is None:
                return None
            if any(v is not None and _compare("=", value, v) for v in values):
                return True
            return None if None in values else False

        return Case(f"{shown} IN ({', '.join(t for t, _ in pairs)})", is_in)
    if kind == "between":
        (low_text, low), (high_text, high) = draw(literals(base)), draw(literals(base))

        def inside(row: Row) -> Truth:
            value = get(row)
            above = None if value is None or low is None else _compare(">=", value, low)
            below = None if value is None or high is None else _compare("<=", value, high)
            return False if above is False or below is False else None if above is None or below is None else True

        return Case(f"{shown} BETWEEN {low_text} AND {high_text}", inside)
    text, literal = draw(literals(base))
    if kind == "safe":
        return Case(
            f"{shown} <=> {text}",
            lambda row: (
                literal is None if get(row) is None else False if literal is None else _compare("=", get(row), literal)
            ),
        )
    op = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    return Case(
        f"{shown} {op} {text}",
        lambda row: None if get(row) is None or literal is None else _compare(op, get(row), literal),
    )


def _not(case: Case) -> Case:
    return Case(f"NOT ({case.text})", lambda row: None if case.truth(row) is None else not case.truth(row))


def _and(a: Case, b: Case) -> Case:
    def truth(row: Row) -> Truth:
        both = (a.truth(row), b.truth(row))
        return False if False in both else None if None in both else True

    return Case(f"({a.text}) AND ({b.text})", truth)


def _or(a: Case, b: Case) -> Case:
    def truth(row: Row) -> Truth:
        both = (a.truth(row), b.truth(row))
        return True if True in both else None if None in both else False

    return Case(f"({a.text}) OR ({b.text})", truth)


def cases() -> st.SearchStrategy[Case]:
    return st.recursive(
        leaf_cases(),
        lambda inner: st.one_of(st.builds(_not, inner), st.builds(_and, inner, inner), st.builds(_or, inner, inner)),
        max_leaves=6,
    )


MAPS = st.one_of(
    st.none(),
    st.lists(st.tuples(st.sampled_from(["k", "j"]), st.one_of(st.none(), INTS)), max_size=2, unique_by=lambda e: e[0]),
)
ROWS = st.lists(
    st.fixed_dictionaries({**{n: st.one_of(st.none(), VALUES[n]) for n in VALUES}, "m": MAPS}), min_size=0, max_size=12
)


def to_table(rows: list[Row]) -> pa.Table:
    return pa.table(
        [pa.array([r[f.name] for r in rows], to_arrow(f.type)) for f in FIELDS], names=[f.name for f in FIELDS]
    )


def stats_of(rows: list[Row], name: str) -> ColumnStats:
    """Statistics as a writer keeps them: NaN makes min and max unknown, strings are cut after two characters."""
    values = [r[name] for r in rows if r[name] is not None]
    nulls = len(rows) - len(values)
    if not values or any(isinstance(v, float) and math.isnan(v) for v in values):
        return ColumnStats(None, None, nulls, len(rows))
    low, high = min(values), max(values)
    if name == "s":
        low = low[:2]
        high = high if len(high) <= 2 else high[:1] + chr(ord(high[1]) + 1)
    internal: list[Any] = [(v // 1000 * 1000 + v % 1000, 0) if name == "ts" else v for v in (low, high)]
    return ColumnStats(internal[0], internal[1], nulls, len(rows))


@settings(max_examples=150, deadline=None)
@given(cases(), ROWS)
def test_selected_rows_are_those_the_model_calls_true(case: Case, rows: list[Row]) -> None:
    pred = parse_where(case.text, FIELDS)
    table = to_table(rows)
    expected = [case.truth(row) is True for row in rows]
    assert evaluate(pred, table).to_pylist() == expected
    assert filter_table(pred, table).num_rows == sum(expected)
    negated = evaluate(~pred, table).to_pylist()
    assert negated == [case.truth(row) is False for row in rows]


@settings(max_examples=60, deadline=None)
@given(cases(), st.lists(ROWS, min_size=1, max_size=5), st.booleans())
def test_pruning_never_drops_a_file_with_a_selected_row(case: Case, files: list[list[Row]], blind: bool) -> None:
    pred = parse_where(case.text, FIELDS)
    for rows in files:
        stats = {name: stats_of(rows, name) for name in VALUES}
        if blind:  # as Arrow's Parquet writer leaves them
            numbers = [r["x"] for r in rows if r["x"] is not None and not math.isnan(r["x"])]
            bounds = (min(numbers), max(numbers)) if numbers else (None, None)
            stats["x"] = ColumnStats(*bounds, stats["x"].null_count, len(rows))  # type: ignore[call-arg]
        answer = may_match_stats(pred, stats, nan_blind=blind)
        assert answer or not any(case.truth(row) is True for row in rows)


@settings(max_examples=60, deadline=None)
@given(cases(), ROWS, st.sets(st.sampled_from(NAMES)))
def test_projection_is_implied_and_uses_only_its_columns(case: Case, rows: list[Row], keep: set[str]) -> None:
    pred = parse_where(case.text, FIELDS)
    implied = project(pred, keep)
    assert set(columns(implied)) <= keep
    selected = evaluate(implied, to_table(rows)).to_pylist()
    assert all(hit for hit, row in zip(selected, rows, strict=True) if case.truth(row) is True)
    if keep >= set(columns(pred)):
        assert implied == pred


@settings(max_examples=60, deadline=None)
@given(cases(), ROWS, st.lists(st.sampled_from(["i", "s", "x"]), min_size=1, max_size=2, unique=True))
def test_equality_values_hold_every_selected_combination(case: Case, rows: list[Row], names: list[str]) -> None:
    listed = equality_values(parse_where(case.text, FIELDS), names)
    if listed is not None:
        assert len(set(listed)) == len(listed)
        for row in rows:
            if case.truth(row) is True:
                assert tuple(row[n] for n in names) in listed


@settings(max_examples=60, deadline=None)
@given(cases())
def test_text_form_reads_back(case: Case) -> None:
    pred = parse_where(case.text, FIELDS)
    again = parse_where(format_predicate(pred, FIELDS), FIELDS)
    assert repr(again) == repr(pred)  # repr: NaN is not equal to itself


@settings(max_examples=30, deadline=None)
@given(cases(), ROWS)
def test_conjuncts_together_are_the_predicate(case: Case, rows: list[Row]) -> None:
    table = to_table(rows)
    masks = [evaluate(part, table).to_pylist() for part in split_and(parse_where(case.text, FIELDS))]
    assert [all(m[n] for m in masks) for n in range(len(rows))] == [case.truth(row) is True for row in rows]
