"""Pruning of one file: whether it can contain a row that a predicate selects, by min, max and null count of its columns.

What statistics must promise: every non-null value lies between min and max, both included. They need not occur in the
file, so truncated strings are fine. A FLOAT or DOUBLE column that holds a NaN must have no min and max, or a NaN as its
max (Java's Parquet writer leaves them out; Arrow's does not, so its NaN-blind statistics need ``nan_blind``).

source   org.apache.paimon.predicate.LeafPredicate.test(rowCount, min, max, nullCount), release 1.4.2
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakeidx.predicate.like import like_prefix
from lakeidx.predicate.tree import (
    And,
    Compare,
    Constant,
    In,
    IsNull,
    Leaf,
    Match,
    MatchKind,
    Op,
    Or,
    Predicate,
    Values,
    is_nan,
    order_key,
)


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """What is known of one column of one file.

    min, max    internal values that bound the non-null values; None = not known
    null_count  None = not known
    row_count   rows of the file; None = not known
    """

    min: Any = None
    max: Any = None
    null_count: int | None = None
    row_count: int | None = None


def all_null_stats(row_count: int) -> ColumnStats:
    """Return the statistics of a column that a file does not have (added to the table later): every row is null."""
    return ColumnStats(None, None, row_count, row_count)


def may_match_stats(pred: Predicate, stats: Mapping[str, ColumnStats], *, nan_blind: bool = False) -> bool:
    """Return False when surely no row of the file is selected.

    pred       bound: literals are internal values
    stats      by the leaves' names; a name that is missing is not known (a missing *column* must be given as
               `all_null_stats`)
    nan_blind  min and max of FLOAT and DOUBLE columns leave NaN out, so a max says nothing about NaN
    """
    if isinstance(pred, Constant):
        return pred.value
    if isinstance(pred, And):
        return all(may_match_stats(c, stats, nan_blind=nan_blind) for c in pred.children)
    if isinstance(pred, Or):
        return any(may_match_stats(c, stats, nan_blind=nan_blind) for c in pred.children)
    assert isinstance(pred, Leaf)
    known = stats.get(pred.column)
    return known is None or _leaf_may_match(pred, known, nan_blind)


def _leaf_may_match(leaf: Leaf, stats: ColumnStats, nan_blind: bool) -> bool:
    if stats.row_count == 0:
        return False
    if isinstance(leaf, IsNull):
        if leaf.negated:
            return stats.null_count is None or stats.row_count is None or stats.null_count < stats.row_count
        return stats.null_count is None or stats.null_count > 0
    if is_impossible(leaf):
        return False
    if stats.null_count is not None and stats.null_count == stats.row_count:
        return False
    if nan_blind and isinstance(stats.max, float) and _passes_nan(leaf):
        return True
    low, high = order_key(stats.min), order_key(stats.max)
    if is_nan(stats.min):
        low = None
    if isinstance(leaf, Compare):
        return _range_may_match(leaf.op, order_key(leaf.value), low, high)
    if isinstance(leaf, In):
        values = Values.of(leaf.values)
        if leaf.negated:
            return low is None or low != high or not values.any_between(low, high)
        return values.any_between(low, high)
    assert isinstance(leaf, Match)
    return _match_may_match(leaf, stats.min, stats.max)


def _range_may_match(op: Op, x: Any, low: Any, high: Any) -> bool:
    if op is Op.NE:
        return low is None or not low == high == x
    above_low = low is None or (low < x if op is Op.LT else low <= x)
    below_high = high is None or (high > x if op is Op.GT else high >= x)
    return (above_low or op in (Op.GT, Op.GE)) and (below_high or op in (Op.LT, Op.LE))


def _match_may_match(leaf: Match, low: str | None, high: str | None) -> bool:
    if low is not None and low == high:
        return matches(leaf, low)  # every value is this one
    prefix, whole = _known_prefix(leaf)
    if leaf.negated:
        # All values between two strings with the prefix have it, too.
        return not whole or low is None or high is None or not (low.startswith(prefix) and high.startswith(prefix))
    return (low is None or low[: len(prefix)] <= prefix) and (high is None or high[: len(prefix)] >= prefix)


def matches(leaf: Match, value: str) -> bool:
    """Return whether a string passes the leaf."""
    if leaf.kind is MatchKind.PREFIX:
        found = value.startswith(leaf.text)
    elif leaf.kind is MatchKind.SUFFIX:
        found = value.endswith(leaf.text)
    elif leaf.kind is MatchKind.CONTAINS:
        found = leaf.text in value
    else:
        found = _like_pattern(leaf.text).fullmatch(value) is not None
    return found != leaf.negated


@functools.lru_cache(maxsize=64)
def _like_pattern(text: str) -> re.Pattern[str]:
    wild = {"%": ".*", "_": "."}
    characters = iter(text)
    parts = [re.escape(next(characters)) if c == "\\" else wild.get(c) or re.escape(c) for c in characters]
    return re.compile("".join(parts), re.DOTALL)


def _known_prefix(leaf: Match) -> tuple[str, bool]:
    """Return the literal start of every matching string, and whether the match requires nothing else."""
    if leaf.kind is MatchKind.PREFIX:
        return leaf.text, True
    if leaf.kind is not MatchKind.LIKE:
        return "", leaf.text == ""
    return like_prefix(leaf.text)[0], False


def is_impossible(leaf: Leaf) -> bool:
    """Return True for a leaf that no value passes: a null literal, an empty IN, a NOT IN with a null."""
    if isinstance(leaf, Compare):
        return leaf.value is None
    if isinstance(leaf, In):
        values = Values.of(leaf.values)
        return values.has_null if leaf.negated else not values.keys
    return False


def _passes_nan(leaf: Leaf) -> bool:
    """Return whether a NaN in the column passes the leaf."""
    if isinstance(leaf, Compare):
        return leaf.op in ((Op.EQ, Op.GE, Op.LE) if is_nan(leaf.value) else (Op.GT, Op.GE, Op.NE))
    assert isinstance(leaf, In)
    return Values.of(leaf.values).has_nan != leaf.negated
