"""Expectations that can be judged, and their arguments as values of the columns they are about."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from lakeidx.errors import InvalidInputError, did_you_mean
from lakeidx.pipeline_file.sections import ExpectationConfig
from lakeidx.predicate import cast_literal
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root

_SETS = ("column_distinct_values_to_be_in_set", "column_distinct_values_to_contain_set", "column_distinct_values_to_equal_set",
         "column_most_common_value_to_be_in_set", "column_values_to_be_in_set", "column_values_to_not_be_in_set")  # fmt: skip
_BOUNDS = (
    "column_max_to_be_between",
    "column_median_to_be_between",
    "column_min_to_be_between",
    "column_values_to_be_between",
)
#: Types of Great Expectations that it can judge over rows in memory.
EXPECTATION_TYPES = frozenset(f"expect_{name}" for name in (
    *_SETS, *_BOUNDS, "column_kl_divergence_to_be_less_than", "column_mean_to_be_between",
    "column_pair_values_a_to_be_greater_than_b", "column_pair_values_to_be_equal", "column_pair_values_to_be_in_set",
    "column_proportion_of_non_null_values_to_be_between", "column_proportion_of_unique_values_to_be_between",
    "column_quantile_values_to_be_between", "column_stdev_to_be_between", "column_sum_to_be_between", "column_to_exist",
    "column_type_to_be", "column_unique_value_count_to_be_between", "column_value_lengths_to_be_between",
    "column_value_lengths_to_equal", "column_value_z_scores_to_be_less_than", "column_values_to_be_dateutil_parseable",
    "column_values_to_be_decreasing", "column_values_to_be_in_type_list", "column_values_to_be_increasing",
    "column_values_to_be_json_parseable", "column_values_to_be_null", "column_values_to_be_of_type", "column_values_to_be_unique",
    "column_values_to_match_json_schema", "column_values_to_match_regex", "column_values_to_match_regex_list",
    "column_values_to_match_strftime_format", "column_values_to_not_be_null", "column_values_to_not_be_outliers",
    "column_values_to_not_match_regex", "column_values_to_not_match_regex_list", "compound_columns_to_be_unique",
    "multicolumn_sum_to_equal", "multicolumn_values_to_be_equal", "select_column_values_to_be_unique_within_record",
    "table_column_count_to_be_between", "table_column_count_to_equal", "table_columns_to_match_ordered_list",
    "table_columns_to_match_set", "table_row_count_to_be_between", "table_row_count_to_equal",
))  # fmt: skip
#: Digits of a DECIMAL that a float keeps.
FLOAT_DIGITS = 15
_EPOCH = dt.datetime(1970, 1, 1)
_INSTANT = DataType(Root.TIMESTAMP, precision=6)


def check_type(expected: ExpectationConfig) -> None:
    """Raise InvalidInputError for a type that does not exist, or that Great Expectations judges in databases only."""
    if expected.type in EXPECTATION_TYPES:
        return
    if "_like_pattern" in expected.type:
        other = expected.type.replace("like_pattern", "regex")
        raise InvalidInputError(f"{expected.type} is for databases: use {other}")
    if "_query_" in expected.type or expected.type.endswith("_other_table"):
        raise InvalidInputError(f"{expected.type} is for databases: rows are judged in memory, without others")
    near = did_you_mean(expected.type, sorted(EXPECTATION_TYPES))
    raise InvalidInputError(f"Great Expectations has no {expected.type}; {near}")


def cast_arguments(expected: ExpectationConfig, types: Mapping[str, DataType]) -> dict[str, Any]:
    """Return the arguments with values of a column in the form that its values have in frames (see `frame_values`).

    types    of the columns, by name
    errors   InvalidInputError for a value that the column cannot have, or that cannot be compared with it
    """
    args, name = dict(expected.args), expected.type.removeprefix("expect_")
    t = types.get(str(args.get("column")))
    if t is not None and name in _SETS and isinstance(args.get("value_set"), (list, tuple)):
        args["value_set"] = [_member(v, t, expected) for v in args["value_set"]]
    if t is not None and name in _BOUNDS:
        for end in {"min_value", "max_value"} & args.keys():
            args[end] = _bound(args[end], t, expected, end)
    ranges = args.get("quantile_ranges")
    if t is not None and name == "column_quantile_values_to_be_between" and isinstance(ranges, dict):
        pairs = [[_bound(v, t, expected, f"{w}_value") for v, w in zip(p, ("min", "max"), strict=True)]
                 for p in ranges.get("value_ranges", ())]  # fmt: skip
        args["quantile_ranges"] = {**ranges, "value_ranges": pairs}
    both = [types.get(str(args.get(c))) for c in ("column_A", "column_B")]
    if name == "column_pair_values_to_be_in_set" and isinstance(args.get("value_pairs_set"), (list, tuple)):
        args["value_pairs_set"] = [
            tuple(v if of is None else _member(v, of, expected) for v, of in zip(pair, both, strict=True))
            for pair in args["value_pairs_set"]
        ]
    return args


def _member(value: Any, t: DataType, expected: ExpectationConfig) -> Any:
    """Return a value that the column can have."""
    found = _cast(value, t, expected)
    if found is None or t.root not in (Root.DECIMAL, Root.DATE, Root.TIME, *TIMESTAMP_ROOTS):
        return found
    if not cast_literal(value, t, where=_where(expected)).exact:
        raise InvalidInputError(f"{_where(expected)}: {value!r} is no {t.with_nullable(True)}")
    return found


def _bound(value: Any, t: DataType, expected: ExpectationConfig, end: str) -> Any:
    if t.root in STRING_ROOTS or t.root in BYTES_ROOTS:
        raise InvalidInputError(
            f"{_where(expected)}: {end} is for numbers, dates and times, the column is {t.with_nullable(True)}"
        )
    found = _cast(value, t, expected)
    if not isinstance(found, Decimal):
        return found
    # Great Expectations makes a float of it: one on the side where the bound itself is inside.
    made = float(found)
    outward = made > found if end == "min_value" else made < found
    return math.nextafter(made, -math.inf if end == "min_value" else math.inf) if outward else made


def _cast(value: Any, t: DataType, expected: ExpectationConfig) -> Any:
    if value is None or isinstance(value, dict):
        return value
    if t.root is Root.FLOAT and isinstance(value, float):
        return float(np.float32(value))
    if t.root is Root.DECIMAL:
        cast_literal(value, t, where=_where(expected))
        return float(value) if t.precision <= FLOAT_DIGITS else Decimal(str(value))
    if t.root is Root.TIME:
        # An unquoted 08:00:00 is a number of seconds to YAML.
        text = value.isoformat() if isinstance(value, dt.time) else value
        if not isinstance(text, str):
            raise InvalidInputError(f"{_where(expected)}: write times in quotes: '08:00:00', not {value!r}")
        return _EPOCH + dt.timedelta(milliseconds=cast_literal(text, t, where=_where(expected)).value)
    if t.root is Root.DATE or t.root in TIMESTAMP_ROOTS:
        zoned = t.root is Root.TIMESTAMP_LTZ
        literal = cast_literal(value, DataType(t.root, precision=6) if zoned else _INSTANT, where=_where(expected))
        if literal.beyond:
            raise InvalidInputError(f"{_where(expected)}: {value!r} is no {t.with_nullable(True)}")
        found = _EPOCH + dt.timedelta(milliseconds=literal.value[0], microseconds=literal.value[1] // 1000)
        return found.replace(tzinfo=dt.UTC) if zoned else found
    return value


def _where(expected: ExpectationConfig) -> str:
    return f"{expected.type}, column {expected.args.get('column', '')!r}"
