"""The rules of min/max pruning, one by one."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lakeidx.predicate import FALSE, TRUE, ColumnStats, Predicate, all_null_stats, col, may_match_stats, negate
from lakeidx.predicate.tree import Compare, Op

INTS = ColumnStats(10, 20, 1, 5)
ONE = ColumnStats(7, 7, 0, 5)
WORDS = ColumnStats("abx", "acd", 0, 5)
NULLS = all_null_stats(5)
UNKNOWN = ColumnStats(None, None, None, 5)
a = col("a")


@pytest.mark.parametrize(
    ("pred", "stats", "expected"),
    [
        (a == 9, INTS, False),
        (a == 10, INTS, True),
        (a == 20, INTS, True),
        (a == 21, INTS, False),
        (a != 15, INTS, True),
        (a != 7, ONE, False),
        (a != 8, ONE, True),
        (a < 10, INTS, False),
        (a <= 10, INTS, True),
        (a > 20, INTS, False),
        (a >= 20, INTS, True),
        (a.is_in([1, 2, 30]), INTS, False),
        (a.is_in([1, 15]), INTS, True),
        (a.is_in([None]), INTS, False),
        (a.is_in([]), INTS, False),
        (a.not_in([7, 9]), ONE, False),
        (a.not_in([9]), ONE, True),
        (a.not_in([9, None]), ONE, False),
        (a.not_in([]), NULLS, False),
        (a.is_null(), INTS, True),
        (a.is_null(), ONE, False),
        (a.is_null(), UNKNOWN, True),
        (a.is_not_null(), INTS, True),
        (a.is_not_null(), NULLS, False),
        (a == 5, NULLS, False),
        (a != 5, NULLS, False),
        (a.startswith("x"), NULLS, False),
        (a == 5, UNKNOWN, True),
        (a == 5, ColumnStats(None, 4, 0, 5), False),
        (a == 5, ColumnStats(None, 6, 0, 5), True),
        (Compare("a", Op.EQ, None), INTS, False),
        (Compare("a", Op.NE, None), INTS, False),
        (a.startswith("ab"), WORDS, True),
        (a.startswith("abz"), WORDS, True),
        (a.startswith("abw"), WORDS, False),
        (a.startswith("ace"), WORDS, False),
        (a.startswith("acda"), WORDS, False),
        (a.startswith(""), WORDS, True),
        (~a.startswith("a"), WORDS, False),
        (~a.startswith("ab"), WORDS, True),
        (a.like("ab_%"), WORDS, True),
        (a.like("ad_%"), WORDS, False),
        (a.like("a\\%_%"), WORDS, False),
        (a.endswith("zz"), WORDS, True),
        (a.endswith("zz"), ColumnStats("fizz", "fizz", 0, 5), True),
        (a.endswith("b"), ColumnStats("fizz", "fizz", 0, 5), False),
        (~a.endswith("zz"), ColumnStats("fizz", "fizz", 0, 5), False),
        (a.contains("iz"), ColumnStats("fizz", "fizz", 0, 5), True),
        (a.contains("x"), ColumnStats("fizz", "fizz", 0, 5), False),
        (a.like("f_zz"), ColumnStats("fizz", "fizz", 0, 5), True),
        (a.like("f_z"), ColumnStats("fizz", "fizz", 0, 5), False),
        (a.like("f\\__%z"), ColumnStats("f_\nz", "f_\nz", 0, 5), True),
        (~a.like("%i%z%"), ColumnStats("fizz", "fizz", 0, 5), False),
        (~a.contains("a"), WORDS, True),
        (a == math.nan, ColumnStats(1.0, 2.0, 0, 5), False),
        (a > 5.0, ColumnStats(1.0, 2.0, 0, 5), False),
        (a > 5.0, ColumnStats(1.0, math.nan, 0, 5), True),
        (a == 0.0, ColumnStats(-0.0, -0.0, 0, 5), True),
        (a < 5.0, ColumnStats(math.nan, math.nan, 0, 5), True),
        (a == 5, ColumnStats(1, 9, None, 0), False),
        (a.is_null(), ColumnStats(None, None, None, 0), False),
        (TRUE, INTS, True),
        (FALSE, INTS, False),
    ],
)
def test_statistics_of_a_column_exclude_files(pred: Predicate, stats: ColumnStats, expected: bool) -> None:
    assert may_match_stats(pred, {"a": stats}) is expected


@pytest.mark.parametrize(
    ("pred", "expected"),
    [
        (a > 5.0, True),
        (a >= 5.0, True),
        (a != 5.0, True),
        (a == math.nan, True),
        (a >= math.nan, True),
        (a > math.nan, False),
        (a == 5.0, False),
        (a.is_in([5.0, math.nan]), True),
        (a.not_in([5.0]), True),
        (a.not_in([1.0, math.nan]), False),
        (a < 1.0, False),
    ],
)
def test_bounds_that_leave_nan_out(pred: Predicate, expected: bool) -> None:
    assert may_match_stats(pred, {"a": ColumnStats(1.0, 1.0, 0, 5)}, nan_blind=True) is expected


def test_joins_and_unknown_columns() -> None:
    stats: dict[str, Any] = {"a": INTS, "b": ONE}
    no, yes = col("a") == 1, col("b") == 7
    assert not may_match_stats(no & yes, stats)
    assert may_match_stats(no | yes, stats)
    assert may_match_stats(no | (col("elsewhere") == 1), stats)
    assert may_match_stats(negate(no), stats)


def test_an_entry_of_a_map_is_not_its_column() -> None:
    assert may_match_stats(col("a")["k"] == 99, {"a": INTS})
