"""Building trees: flattening, constants, negation."""

from __future__ import annotations

from lakeidx.predicate import FALSE, TRUE, And, Or, and_, col, or_

a, b, c = col("a") == 1, col("b") == 2, col("c") == 3


def test_joins_flatten_and_simplify() -> None:
    assert and_([a, and_([b, c])]) == And((a, b, c))
    assert or_([or_([a, b]), b, c]) == Or((a, b, c))
    assert and_([a, TRUE, a]) == a
    assert and_([]) == TRUE
    assert or_([]) == FALSE
    assert and_([a, FALSE]) == FALSE
    assert or_([a, TRUE]) == TRUE
    assert or_([FALSE, a]) == a
