"""`may_match_stats` for many files at once, over Arrow columns of statistics.

One call tests 10,000 files in a few milliseconds; each rule is the vectorised form of the one in
`lakeidx.predicate.prune` and must give the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.predicate.mask import leaf_mask, to_array, to_scalar
from lakeidx.predicate.prune import is_impossible, known_prefix, passes_nan
from lakeidx.predicate.tree import And, Compare, Constant, In, IsNull, Leaf, Match, Op, Or, Predicate

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class StatsArrays:
    """Statistics of one column over n files.

    min, max     Arrow arrays[n] of the column's Arrow type; null = not known
    null_counts  int64[n] Arrow array; null = not known
    row_counts   int64[n] Arrow array; null = not known
    """

    min: pa.Array
    max: pa.Array
    null_counts: pa.Array
    row_counts: pa.Array


def may_match_many(pred: Predicate, stats: Mapping[str, StatsArrays], count: int, *, nan_blind: bool = False) -> Bools:
    """Test each of `count` files: False when surely no row of it is selected.

    pred, nan_blind  as `may_match_stats`
    stats            by the leaves' names, each of `count` files in the same order; a name that is missing is not known
    returns          bool[count]
    errors           InvalidInputError when a literal does not fit the type of its column's statistics
    """
    if isinstance(pred, Constant):
        return np.full(count, pred.value)
    if isinstance(pred, And):
        result = np.ones(count, bool)
        for child in pred.children:
            result &= may_match_many(child, stats, count, nan_blind=nan_blind)
        return result
    if isinstance(pred, Or):
        result = np.zeros(count, bool)
        for child in pred.children:
            result |= may_match_many(child, stats, count, nan_blind=nan_blind)
        return result
    assert isinstance(pred, Leaf)
    known = stats.get(pred.column)
    return np.ones(count, bool) if known is None else _leaf(pred, known, count, nan_blind)


def _leaf(leaf: Leaf, stats: StatsArrays, count: int, nan_blind: bool) -> Bools:
    has_rows = _known_or(pc.not_equal(stats.row_counts, 0), True)
    if isinstance(leaf, IsNull):
        if leaf.negated:
            return has_rows & _known_or(pc.less(stats.null_counts, stats.row_counts), True)
        return has_rows & _known_or(pc.greater(stats.null_counts, 0), True)
    if is_impossible(leaf):
        return np.zeros(count, bool)
    has_values = has_rows & _known_or(pc.not_equal(stats.null_counts, stats.row_counts), True)
    if isinstance(leaf, Match):
        return has_values & _match(leaf, stats)
    floating = pa.types.is_floating(stats.min.type)
    bounds = _float_bounds(stats) if floating else _Bounds(stats.min, stats.max)
    if floating and nan_blind and passes_nan(leaf):
        return has_values
    if isinstance(leaf, Compare):
        return has_values & bounds.may_match(leaf.op, leaf.value)
    assert isinstance(leaf, In)
    return has_values & (bounds.may_not_in(leaf.values) if leaf.negated else bounds.may_in(leaf.values))


def _known_or(mask: pa.Array, default: bool) -> Bools:
    return np.asarray(mask.fill_null(default))


class _Bounds:
    """Lower and upper bounds of each file; null = not known."""

    def __init__(self, low: pa.Array, high: pa.Array) -> None:
        self.low, self.high = low, high

    def literal(self, value: Any) -> pa.Scalar:
        return to_scalar(value, self.low.type)

    def may_match(self, op: Op, value: Any) -> Bools:
        x = self.literal(value)
        if op is Op.NE:
            return ~(_known_or(pc.equal(self.low, x), False) & _known_or(pc.equal(self.high, x), False))
        result = np.ones(len(self.low), bool)
        if op in (Op.LT, Op.LE, Op.EQ):
            test: Callable[..., pa.Array] = pc.less if op is Op.LT else pc.less_equal
            result &= _known_or(test(self.low, x), True)
        if op in (Op.GT, Op.GE, Op.EQ):
            test = pc.greater if op is Op.GT else pc.greater_equal
            result &= _known_or(test(self.high, x), True)
        return result

    def may_in(self, values: tuple[Any, ...]) -> Bools:
        """Return True where some value is inside the bounds: with the values sorted, the first one not below `low` is not above
        `high`.
        """
        wanted = to_array([v for v in values if v is not None], self.low.type)
        return self._any_inside(wanted.take(pc.array_sort_indices(wanted)))

    def _any_inside(self, wanted: pa.Array) -> Bools:
        if len(wanted) == 0:
            return np.zeros(len(self.low), bool)
        # Arrow has no search of one array in another for all types: rank both together instead.
        joined = pa.concat_arrays([wanted, self.low, self.high])
        rank = np.asarray(pc.rank(joined, sort_keys="ascending", tiebreaker="dense"), np.int64)
        n, files = len(wanted), len(self.low)
        low, high = rank[n : n + files], rank[n + files :]
        low = np.where(np.asarray(self.low.is_null()), 0, low)
        high = np.where(np.asarray(self.high.is_null()), np.iinfo(np.int64).max, high)
        first = np.searchsorted(rank[:n], low, side="left")
        inside = first < n
        inside[inside] = rank[:n][first[inside]] <= high[inside]
        return inside

    def may_not_in(self, values: tuple[Any, ...]) -> Bools:
        wanted = to_array(values, self.low.type)
        one_value = _known_or(pc.equal(self.low, self.high), False)
        named: Bools = np.asarray(pc.is_in(self.low, value_set=wanted))
        return ~(one_value & named)


def _float_bounds(stats: StatsArrays) -> _Bounds:
    """Return the bounds mapped to integers in the order of `lakeidx.predicate.tree`: -0.0 with 0.0, NaN above infinity."""
    low, high = np.asarray(stats.min.fill_null(0), np.float64), np.asarray(stats.max.fill_null(0), np.float64)
    no_low = np.asarray(stats.min.is_null()) | np.isnan(low)
    no_high = np.asarray(stats.max.is_null())
    return _FloatBounds(pa.array(_float_keys(low), mask=no_low), pa.array(_float_keys(high), mask=no_high))


class _FloatBounds(_Bounds):
    def literal(self, value: Any) -> pa.Scalar:
        return pa.scalar(int(_float_keys(np.array([value], np.float64))[0]), pa.int64())

    def may_in(self, values: tuple[Any, ...]) -> Bools:
        keys = _float_keys(np.array([v for v in values if v is not None], np.float64))
        return self._any_inside(pa.array(np.sort(keys)))

    def may_not_in(self, values: tuple[Any, ...]) -> Bools:
        return super().may_not_in(tuple(_float_keys(np.array(values, np.float64)).tolist()))


def _float_keys(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return int64 keys that order doubles as predicates do: the two zeros equal, all NaN equal and greatest."""
    bits = (values + 0.0).view(np.int64)  # -0.0 + 0.0 is 0.0
    keys = np.where(bits < 0, np.int64(-(2**63)) - bits, bits)
    keys[np.isnan(values)] = np.iinfo(np.int64).max
    return keys


def _match(leaf: Match, stats: StatsArrays) -> Bools:
    one_value = _known_or(pc.equal(stats.min, stats.max), False)
    exact = _known_or(leaf_mask(leaf, stats.min, stats.min.type, lambda s: s), True)
    return np.where(one_value, exact, _match_range(leaf, stats))


def _match_range(leaf: Match, stats: StatsArrays) -> Bools:
    prefix, whole = known_prefix(leaf)
    if leaf.negated:
        if not whole:
            return np.ones(len(stats.min), bool)
        inside: list[Bools] = [_known_or(pc.starts_with(bound, prefix), False) for bound in (stats.min, stats.max)]
        return ~(inside[0] & inside[1])
    length = len(prefix)
    low = pc.utf8_slice_codeunits(stats.min, 0, length)
    high = pc.utf8_slice_codeunits(stats.max, 0, length)
    return _known_or(pc.less_equal(low, prefix), True) & _known_or(pc.greater_equal(high, prefix), True)
