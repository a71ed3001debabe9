"""The Python builder makes the same trees as text does."""

from __future__ import annotations

import pytest

from lakeidx.predicate import Predicate, bind, col
from lakeidx.predicate.parse import parse_where
from lakeidx.types import Field, parse_type

FIELDS = [
    Field(0, "a", parse_type("INT")),
    Field(1, "s", parse_type("STRING")),
    Field(2, "m", parse_type({"type": "MAP", "key": "STRING", "value": "INT"})),
]
a, s, e = col("a"), col("s"), col("m")["k"]


@pytest.mark.parametrize(
    ("pred", "text"),
    [
        ((a > 5) & (s == "x"), "a > 5 AND s = 'x'"),
        ((a >= 5) | (a < 1) | (a <= 0), "a >= 5 OR a < 1 OR a <= 0"),
        (~((a == 5) | (s != "x")), "NOT (a = 5 OR s <> 'x')"),
        (a.is_in([1, 2]) & a.not_in([3]), "a IN (1, 2) AND a NOT IN (3)"),
        (a.between(1, 2), "a BETWEEN 1 AND 2"),
        (a.is_null() | s.is_not_null(), "a IS NULL OR s IS NOT NULL"),
        (s.startswith("x") & s.endswith("y") & s.contains("z"), "s LIKE 'x%' AND s LIKE '%y' AND s LIKE '%z%'"),
        (~s.like("a_b"), "s NOT LIKE 'a_b'"),
        (e > 5, "m['k'] > 5"),
    ],
)
def test_same_as_text(pred: Predicate, text: str) -> None:
    assert bind(pred, FIELDS) == parse_where(text, FIELDS)


def test_misuse_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"& \| ~"):
        bool(a == 5)
    with pytest.raises(TypeError, match="two columns"):
        a == s  # noqa: B015  # the comparison itself raises
    with pytest.raises(TypeError, match="already names"):
        e["j"]
