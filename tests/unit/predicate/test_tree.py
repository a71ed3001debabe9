"""Building trees: flattening, constants, negation."""

from __future__ import annotations

from lakeidx.predicate import FALSE, TRUE, And, Or, and_, col, negate, or_
from lakeidx.predicate.tree import Compare, In, IsNull, Match, MatchKind, Op

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


def test_every_leaf_has_its_opposite() -> None:
    pairs = [
        (Compare("a", Op.EQ, 1), Compare("a", Op.NE, 1)),
        (Compare("a", Op.LT, 1), Compare("a", Op.GE, 1)),
        (Compare("a", Op.LE, 1), Compare("a", Op.GT, 1)),
        (In("a", (1,)), In("a", (1,), negated=True)),
        (IsNull("a"), IsNull("a", negated=True)),
        (Match("a", MatchKind.PREFIX, "x"), Match("a", MatchKind.PREFIX, "x", negated=True)),
        (TRUE, FALSE),
    ]
    for left, right in pairs:
        assert negate(left) == right
        assert negate(right) == left
    assert negate(and_([a, or_([b, c])])) == or_([negate(a), and_([negate(b), negate(c)])])
