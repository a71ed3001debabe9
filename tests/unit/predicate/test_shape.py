"""Columns, conjuncts, projection, renaming and listed values of predicates."""

from __future__ import annotations

import math

import pytest

from lakeidx.predicate import (
    FALSE,
    TRUE,
    Predicate,
    col,
    columns,
    equality_values,
    leaves,
    project,
    rename,
    split_and,
)
from lakeidx.predicate.tree import Compare, Op

a, b, c = col("a"), col("b"), col("c")
e = col("m")["k"]


def test_columns_are_those_to_read() -> None:
    assert columns((b == 1) & ((a > 2) | (e == 3)) & (b < 9)) == ("b", "a", "m")
    assert columns(TRUE) == ()
    assert [leaf.column for leaf in leaves((b == 1) & (e == 3))] == ["b", "m[k]"]


def test_a_conjunction_is_split() -> None:
    assert split_and((a == 1) & (b == 2) & (c == 3)) == (a == 1, b == 2, c == 3)
    assert split_and(a == 1) == (a == 1,)
    assert split_and(TRUE) == ()
    assert split_and(FALSE) == (FALSE,)


@pytest.mark.parametrize(
    ("pred", "expected"),
    [
        ((a == 1) & (b == 2), a == 1),
        ((a == 1) | (b == 2), TRUE),
        (((a == 1) & (b == 2)) | ((a == 3) & (c == 4)), (a == 1) | (a == 3)),
        ((a == 1) & ((b == 2) | (a > 5)), a == 1),
        (b == 2, TRUE),
        (FALSE, FALSE),
        (e == 1, TRUE),
    ],
)
def test_a_projection_keeps_what_some_columns_decide(pred: Predicate, expected: Predicate) -> None:
    assert project(pred, {"a"}) == expected


def test_renaming_keeps_map_keys() -> None:
    renamed = rename((a == 1) | (e == 2) | (b == 3), {"a": "z", "m": "n"})
    assert renamed == (col("z") == 1) | (col("n")["k"] == 2) | (b == 3)
    assert columns(renamed) == ("z", "n", "b")


@pytest.mark.parametrize(
    ("pred", "expected"),
    [
        ((a == 1) & (b == 2), [(1, 2)]),
        ((b == 2) & a.is_in([1, 3]) & (c > 5), [(1, 2), (3, 2)]),
        ((a == 1) & (a == 2) & (b == 1), []),
        (a.is_in([1, 2, 3]) & a.is_in([3, 2, 9]) & (b == 0), [(2, 0), (3, 0)]),
        (((a == 1) | (a == 2)) & (b == 3), [(1, 3), (2, 3)]),
        (((a == 1) & (b == 2)) | ((a == 3) & (b == 4)), [(1, 2), (1, 4), (3, 2), (3, 4)]),
        ((a == 1) | (b == 2), None),
        (a == 1, None),
        ((a == 1) & (b > 2), None),
        ((a == 1) & (b != 2), None),
        ((a == 1) & b.is_in(range(2000)), None),
        (a.is_in([]) & (b > 2), []),
        (Compare("a", Op.EQ, None), []),
        (Compare("a", Op.NE, None), []),
        (a.is_in([1, None]) & (b == 2), [(1, 2)]),
        (FALSE, []),
        (TRUE, None),
        ((a == 0.0) & (b == 1), None),
        ((a == math.nan) & (b == 1), None),
        ((a == 0.5) & (b == 1), [(0.5, 1)]),
    ],
)
def test_equalities_fix_the_values_of_columns(pred: Predicate, expected: list[tuple[int, ...]] | None) -> None:
    assert equality_values(pred, ["a", "b"]) == expected


def test_equality_values_stop_at_the_limit() -> None:
    pred = a.is_in(range(40)) & b.is_in(range(25))
    assert len(equality_values(pred, ["a", "b"]) or ()) == 1000
    assert equality_values(pred, ["a", "b"], limit=999) is None
    assert equality_values(pred, []) is None
