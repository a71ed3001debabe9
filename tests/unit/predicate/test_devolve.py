"""Predicates said in the columns of an older file: sound for every row of it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.predicate import FALSE, TRUE, Predicate, bind, col, devolve, evaluate
from lakeidx.predicate.devolve import keeps_values
from lakeidx.types import Field, parse_type, to_arrow

NOW = [
    Field(0, "id", parse_type("BIGINT NOT NULL")),
    Field(1, "renamed", parse_type("STRING")),
    Field(2, "x", parse_type("DOUBLE")),
    Field(4, "added", parse_type("INT")),
    Field(5, "recast", parse_type("STRING")),
    Field(6, "m_now", parse_type({"type": "MAP", "key": "STRING", "value": "INT"})),
    Field(7, "dec", parse_type("DECIMAL(12, 4)")),
]
THEN = [
    Field(0, "id", parse_type("INT NOT NULL")),
    Field(1, "name", parse_type("VARCHAR(10)")),
    Field(2, "x", parse_type("FLOAT")),
    Field(3, "dropped", parse_type("INT")),
    Field(5, "recast", parse_type("INT")),
    Field(6, "m_then", parse_type({"type": "MAP", "key": "STRING", "value": "INT"})),
    Field(7, "dec", parse_type("DECIMAL(8, 2)")),
]


@pytest.mark.parametrize(
    ("pred", "expected"),
    [
        (col("renamed") == "x", col("name") == "x"),
        (col("id") == 5, col("id") == 5),
        (col("id") == 2**40, col("id").is_in([])),
        (col("id") < 2**40, col("id").not_in([])),
        (col("added") == 5, FALSE),
        (col("added") != 5, FALSE),
        (col("added").not_in([5]), FALSE),
        (col("added").is_null(), TRUE),
        (col("added").is_not_null(), FALSE),
        ((col("added") == 5) | (col("id") == 1), col("id") == 1),
        (col("recast") == "5", TRUE),
        (col("recast").is_null(), TRUE),
        (col("x") == 0.5, col("x") == 0.5),
        (col("x") == 0.1, col("x").is_in([])),
        (col("m_now")["k"] == 1, col("m_then")["k"] == 1),
        (col("dec") > Decimal("1.2345"), col("dec") > Decimal("1.23")),
    ],
)
def test_predicates_are_rewritten_for_older_columns(pred: Predicate, expected: Predicate) -> None:
    assert devolve(bind(pred, NOW), NOW, THEN) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("INT", "BIGINT", True),
        ("BIGINT", "INT", False),
        ("INT", "DOUBLE", False),
        ("VARCHAR(5)", "STRING", True),
        ("STRING", "VARCHAR(5)", False),
        ("VARCHAR(5)", "CHAR(9)", False),
        ("DECIMAL(8, 2)", "DECIMAL(8, 3)", False),
        ("DECIMAL(8, 2)", "DECIMAL(9, 3)", True),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", True),
        ("TIME(0)", "TIME(3)", True),
        ("TIMESTAMP(6)", "TIMESTAMP(3)", False),
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", False),
        ("DATE", "TIMESTAMP(3)", False),
        ("INT NOT NULL", "INT", True),
    ],
)
def test_which_changes_keep_values(old: str, new: str, expected: bool) -> None:
    assert keeps_values(parse_type(old), parse_type(new)) is expected


INTS = st.sampled_from([-(2**31), -1, 0, 7, 2**31 - 1])
FLOATS = st.floats(width=32, allow_nan=True)


@given(
    st.sampled_from(["id", "x"]),
    st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
    st.one_of(INTS, st.integers(-(2**40), 2**40), FLOATS, st.floats()),
    st.lists(st.tuples(INTS, FLOATS), max_size=8),
)
def test_same_rows_before_and_after_widening(name: str, op: str, literal: Any, rows: list[tuple[int, float]]) -> None:
    column = col(name)
    if name == "id" and isinstance(literal, float):
        literal = 3
    made: dict[str, Predicate] = {
        "=": column == literal,
        "<>": column != literal,
        "<": column < literal,
        "<=": column <= literal,
        ">": column > literal,
        ">=": column >= literal,
    }
    pred = bind(made[op], NOW)
    old = pa.table(
        {"id": pa.array([r[0] for r in rows], pa.int32()), "x": pa.array([r[1] for r in rows], pa.float32())}
    )
    new = old.cast(pa.schema([("id", to_arrow(NOW[0].type)), ("x", to_arrow(NOW[2].type))]))
    assert evaluate(devolve(pred, NOW, THEN), old).to_pylist() == evaluate(pred, new).to_pylist()
