"""Binding predicates that Python built."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.predicate import TRUE, bind, col
from lakeidx.predicate.tree import And, Compare, In, Op
from lakeidx.types import Field, parse_type

FIELDS = [
    Field(0, "a", parse_type("INT")),
    Field(1, "day", parse_type("DATE")),
    Field(2, "amt", parse_type("DECIMAL(6, 2)")),
    Field(3, "at", parse_type("TIMESTAMP(6)")),
    Field(4, "m", parse_type({"type": "MAP", "key": "STRING", "value": "DATE"})),
]


def test_python_values_become_internal_values() -> None:
    pred = (
        (col("day") >= dt.date(2024, 1, 1))
        & col("amt").is_in(["1.5", 2])
        & (col("at") < dt.datetime(1970, 1, 1, 0, 0, 1))
    )
    bound = bind(pred, FIELDS)
    assert bound == And(
        (Compare("day", Op.GE, 19723), In("amt", (Decimal("1.50"), Decimal("2.00"))), Compare("at", Op.LT, (1000, 0)))
    )
    assert bind(bound, FIELDS) == bound


def test_entries_of_maps_take_the_value_type() -> None:
    assert bind(col("m")["k"] == dt.date(1970, 1, 2), FIELDS) == Compare("m[k]", Op.EQ, 1, "k")


def test_unbound_names_and_types() -> None:
    assert bind(TRUE, FIELDS) == TRUE
    with pytest.raises(InvalidInputError, match="did you mean 'day'"):
        bind(col("Day") == 1, FIELDS)
    with pytest.raises(InvalidInputError, match="column 'a'"):
        bind(col("a") == dt.date(2024, 1, 1), FIELDS)
    with pytest.raises(InvalidInputError, match="string keys"):
        bind(col("a")["k"] == 1, FIELDS)
