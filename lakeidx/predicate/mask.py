"""The rows a predicate selects, as a mask over Arrow columns: one function per kind of leaf.

Pruning of one file: whether it can contain a row that a predicate selects, by min, max and null count of its columns.

What statistics must promise: every non-null value lies between min and max, both included. They need not occur in the
file, so truncated strings are fine. A FLOAT or DOUBLE column that holds a NaN must have no min and max, or a NaN as its
max (Java's Parquet writer leaves them out; Arrow's does not, so its NaN-blind statistics need ``nan_blind``).

source   org.apache.paimon.predicate.LeafPredicate.test(rowCount, min, max, nullCount), release 1.4.2
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.errors import InvalidInputError
from lakeidx.predicate.bind import unknown_column
from lakeidx.predicate.like import match_may_match
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

_Column: TypeAlias = Any  # pa.Array or pa.ChunkedArray; Arrow has no common type for them

_COMPARE = {
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GE: pc.greater_equal,
}
_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def evaluate(pred: Predicate, table: pa.Table | pa.RecordBatch) -> pa.ChunkedArray:
    """Evaluate which rows of a table the predicate selects.

    pred     bound (`parse_where`, `bind`): literals are internal values
    table    must hold every column of `columns(pred)`, in the Arrow type of its Paimon type; dictionary-encoded columns
             are tested once per distinct value
    returns  bool[num_rows] without nulls: SQL's NULL is false
    errors   InvalidInputError when a column is missing or a literal does not fit its type
    """
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    mask = _evaluate(pred, table)
    if mask is None:
        return pa.chunked_array([pa.repeat(pa.scalar(True), table.num_rows)], pa.bool_())
    return mask.fill_null(False) if mask.null_count else mask


def filter_table(pred: Predicate, table: pa.Table) -> pa.Table:
    """Select the rows of a table that match the predicate, in order."""
    if isinstance(pred, Constant):
        return table if pred.value else table.slice(0, 0)
    return table.filter(evaluate(pred, table))


def _evaluate(pred: Predicate, table: pa.Table) -> pa.ChunkedArray | None:
    """Return the mask, nulls allowed; None stands for every row."""
    if isinstance(pred, Constant):
        return None if pred.value else pa.chunked_array([pa.repeat(pa.scalar(False), table.num_rows)], pa.bool_())
    if isinstance(pred, (And, Or)):
        join = pc.and_kleene if isinstance(pred, And) else pc.or_kleene
        masks = [m for m in (_evaluate(c, table) for c in pred.children) if m is not None]
        return reduce(join, masks) if masks else None
    assert isinstance(pred, Leaf)
    if pred.source not in table.column_names:
        raise InvalidInputError(unknown_column(pred.source, table.column_names))
    column = table.column(pred.source)
    if pred.map_key is not None:
        column = pc.map_lookup(column, pred.map_key, "first")
    if not pa.types.is_dictionary(column.type):
        return _leaf_mask(pred, column)
    if isinstance(pred, IsNull):
        return column.is_valid() if pred.negated else column.is_null()
    chunks = []
    for chunk in column.chunks:
        by_value = _leaf_mask(pred, chunk.dictionary)
        chunks.append(by_value.take(chunk.indices))
    return pa.chunked_array(chunks, pa.bool_())


def _leaf_mask(leaf: Leaf, column: _Column) -> _Column:
    """Test a column by a leaf; null where the column is (IS NULL: never null)."""
    if isinstance(leaf, IsNull):
        return pc.is_valid(column) if leaf.negated else pc.is_null(column)
    if isinstance(leaf, Compare):
        return _compare(leaf.op, leaf.value, column)
    if isinstance(leaf, In):
        return _in(leaf, column)
    assert isinstance(leaf, Match)
    mask = _MATCH[leaf.kind](column, leaf.text)
    return pc.invert(mask) if leaf.negated else mask


_MATCH: dict[MatchKind, Callable[[_Column, str], _Column]] = {
    MatchKind.PREFIX: pc.starts_with,
    MatchKind.SUFFIX: pc.ends_with,
    MatchKind.CONTAINS: pc.match_substring,
    MatchKind.LIKE: pc.match_like,
}


def _compare(op: Op, value: Any, column: _Column) -> _Column:
    if value is None:
        return _never(column)
    if pa.types.is_floating(column.type):
        return _compare_float(op, float(value), column)
    return _COMPARE[op](column, _to_scalar(value, column.type))


def _compare_float(op: Op, value: float, column: _Column) -> _Column:
    """Compare floats with NaN equal to NaN and greater than every number (Arrow follows IEEE 754)."""
    if not math.isnan(value):
        mask = _COMPARE[op](column, pa.scalar(value, column.type))
        return pc.or_kleene(mask, pc.is_nan(column)) if op in (Op.GT, Op.GE) else mask
    if op in (Op.EQ, Op.GE):
        return pc.is_nan(column)
    if op in (Op.NE, Op.LT):
        return pc.invert(pc.is_nan(column))
    return pc.is_valid(column) if op is Op.LE else _never(column)


def _in(leaf: In, column: _Column) -> _Column:
    values = Values.of(leaf.values)
    if leaf.negated and values.has_null:
        return _never(column)  # NOT IN (…, NULL) is never true
    if not values.keys:
        return pc.is_valid(column) if leaf.negated else _never(column)
    t = column.type
    wanted = values.kept(("array", t), lambda v: _value_set(v, t))
    mask = pc.is_in(column, value_set=wanted)
    if values.has_nan:
        mask = pc.or_kleene(mask, pc.is_nan(column))
    # is_in is false, not null, for a null column
    return pc.and_kleene(pc.invert(mask), pc.is_valid(column)) if leaf.negated else mask


def _value_set(values: Values, t: pa.DataType) -> pa.Array:
    """Return the values that Arrow's set look-up finds as predicates do; NaN, which it does not, is left out."""
    listed = list(values[: len(values.keys) - values.has_nan])
    if pa.types.is_floating(t) and 0.0 in listed:
        listed += [0.0, -0.0]  # Arrow's set look-up tells the two zeros apart
    return _to_array(listed, t)


def _never(column: _Column) -> _Column:
    valid = pc.is_valid(column)
    return pc.and_kleene(valid, pc.invert(valid))


def _to_scalar(value: Any, t: pa.DataType) -> pa.Scalar:
    """Convert an internal value to an Arrow scalar of its column's Arrow type; InvalidInputError when it does not fit."""
    try:
        return pa.scalar(_ticks(value, t), t)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        hint = "bind the predicate to the table's columns first"
        raise InvalidInputError(f"{value!r} is not a value of type {t} ({error}); {hint}") from None


def _to_array(values: Sequence[Any], t: pa.DataType) -> pa.Array:
    """Convert internal values to an Arrow array; errors as `_to_scalar`."""
    try:
        return pa.array([_ticks(v, t) for v in values], t)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return pa.array([_to_scalar(v, t) for v in values], t)


def _ticks(value: Any, t: pa.DataType) -> Any:
    if not isinstance(value, tuple) or not pa.types.is_timestamp(t):
        return value
    ticks, rest = divmod(value[0] * 1_000_000 + value[1], _NANOS[t.unit])
    if rest:
        raise InvalidInputError(f"{value!r} has more digits than {t}; bind the predicate to the table's columns first")
    return ticks


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Statistics of one column of one file.

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
    return match_may_match(leaf, stats.min, stats.max)


def _range_may_match(op: Op, x: Any, low: Any, high: Any) -> bool:
    if op is Op.NE:
        return low is None or not low == high == x
    above_low = low is None or (low < x if op is Op.LT else low <= x)
    below_high = high is None or (high > x if op is Op.GT else high >= x)
    return (above_low or op in (Op.GT, Op.GE)) and (below_high or op in (Op.LT, Op.LE))


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
