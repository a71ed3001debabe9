"""Expectations of users, judged by Great Expectations over real rows, piece by piece.

Of each piece only the columns that are named are read. An expectation about single rows is judged on every piece, its counts are
added up; one about a whole column (unique, mean, quantiles, ...) needs the column in memory, up to `_MOST_ROWS` rows of it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from great_expectations.exceptions import ExpectationNotFoundError
from great_expectations.expectations.expectation import (
    ColumnMapExpectation,
    ColumnPairMapExpectation,
    MulticolumnMapExpectation,
)
from great_expectations.expectations.registry import get_expectation_impl, list_registered_expectation_implementations

from lakeidx.dagster.expectations.library import row_batch
from lakeidx.errors import InvalidInputError, did_you_mean
from lakeidx.pipeline_file.expectations import FLOAT_DIGITS, cast_arguments
from lakeidx.pipeline_file.sections import ExpectationConfig
from lakeidx.types import from_arrow

#: Rows of a column that an expectation about the whole column is judged on.
_MOST_ROWS = 5_000_000
_SAMPLE = 10
#: The library keeps the frame that it looks at in one place for all threads, and a process reads several landing files at once.
_ONE_AT_A_TIME = threading.Lock()
_BY_ROW = (ColumnMapExpectation, ColumnPairMapExpectation, MulticolumnMapExpectation)
#: Expectations of single values that look at the others.
_OF_ALL_ROWS = ("unique", "increasing", "decreasing", "z_score", "outliers")
# Whole numbers stay whole beside nulls.
_PANDAS = {
    pa.int8(): pd.Int8Dtype(), pa.int16(): pd.Int16Dtype(), pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype(),
}  # fmt: skip


@dataclass(slots=True)
class Outcome:
    """Outcome of one expectation.

    kind         Arrow type of the column
    rows         that were judged
    unexpected   of these; None for expectations about the whole
    observed     what was seen of the whole
    sample       some unexpected values
    complete     all rows were judged
    result       the library's own, of the last piece
    """

    expected: ExpectationConfig
    kind: pa.DataType | None = None
    rows: int = 0
    unexpected: int | None = None
    judged: int = 0
    observed: Any = None
    sample: tuple[Any, ...] = ()
    passed: bool = True
    complete: bool = True
    result: Any = None


def judge_rows(expected: Sequence[ExpectationConfig], pieces: Iterable[pa.Table]) -> list[Outcome]:
    """Judge rows.

    pieces   tables that have the columns of all expectations
    returns  an outcome each, in order
    errors   InvalidInputError for a type or arguments that Great Expectations does not have, or cannot apply to the rows
    memory   a piece, and up to `_MOST_ROWS` rows of the columns that must be looked at as a whole
    """
    pieces = iter(pieces)
    first = next(pieces, None)
    if first is None:
        return [Outcome(e) for e in expected]
    made = [_made(e, first.schema) for e in expected]
    kinds = {f.name: f.type for f in first.schema}
    outcomes = [Outcome(e, kinds.get(str(e.args.get("column")))) for e in expected]
    by_row = [_is_by_row(m) for m in made]
    # Expectations without a column are about all of them.
    whole = (
        None
        if any(not e.reads and not r for e, r in zip(expected, by_row, strict=True))
        else sorted({c for e, r in zip(expected, by_row, strict=True) if not r for c in e.reads})
    )
    kept: list[pa.Table] = []
    rows = 0
    for piece in chain([first], pieces):
        left = _MOST_ROWS - rows
        rows += piece.num_rows
        if not all(by_row) and left > 0:
            kept.append((piece if whole is None else piece.select(whole)).slice(0, left))
        if piece.num_rows and any(by_row):
            batch = row_batch(_frame(piece))
            for outcome, expectation in ((o, m) for o, m, r in zip(outcomes, made, by_row, strict=True) if r):
                _add(outcome, batch.validate(expectation, result_format="BASIC"))
    if kept:
        table = pa.concat_tables(kept)
        batch = row_batch(_frame(table))
        for outcome, expectation in ((o, m) for o, m, r in zip(outcomes, made, by_row, strict=True) if not r):
            if outcome.expected.reads and not table.num_rows:
                # Of no values there is no mean.
                continue
            result = batch.validate(expectation, result_format="BASIC")
            _add(outcome, result)
            outcome.rows, outcome.complete = table.num_rows, rows <= _MOST_ROWS
            outcome.passed = bool(result.success)
    for outcome, is_by_row in zip(outcomes, by_row, strict=True):
        if is_by_row and outcome.judged:
            share = 1 - (outcome.unexpected or 0) / outcome.judged
            outcome.passed = share >= float(outcome.expected.args.get("mostly", 1.0))
    return outcomes


def failing_rows(expected: ExpectationConfig, rows: pa.Table) -> list[int]:
    """Return the rows that do not meet an expectation about single rows, from 0.

    errors   as `judge_rows`, and InvalidInputError for an expectation about the whole
    """
    made = _made(expected, rows.schema)
    if not _is_by_row(made):
        raise InvalidInputError(f"{expected.type}: set_aside is for expectations about single rows")
    if not rows.num_rows:
        return []
    frame = _frame(rows.select(sorted(set(expected.columns))))
    with _ONE_AT_A_TIME:
        result = row_batch(frame).validate(made, result_format="COMPLETE")
    _refuse_unjudged(expected, result)
    return [int(row) for row in result.result["unexpected_index_list"] or ()]


def _made(expected: ExpectationConfig, schema: pa.Schema) -> Any:
    types = {f.name: from_arrow(f.type) for f in schema if f.name in expected.columns}
    try:
        return get_expectation_impl(expected.type)(**cast_arguments(expected, types))
    except ExpectationNotFoundError:
        near = did_you_mean(expected.type, sorted(list_registered_expectation_implementations()))
        raise InvalidInputError(f"Great Expectations has no {expected.type}; {near}") from None
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{expected.type}: {' '.join(str(error).split())}") from error


def _is_by_row(expectation: Any) -> bool:
    kind = type(expectation).__name__.lower()
    return isinstance(expectation, _BY_ROW) and not any(word.replace("_", "") in kind for word in _OF_ALL_ROWS)


def _frame(rows: pa.Table) -> pd.DataFrame:
    """Return rows in the form that the library compares: numbers, times of one kind, texts (as `cast_arguments` makes values)."""
    for n, f in enumerate(rows.schema):
        if pa.types.is_decimal(f.type) and f.type.precision <= FLOAT_DIGITS:
            rows = rows.set_column(n, f.name, rows.column(n).cast(pa.float64()))
        elif pa.types.is_time(f.type):
            rows = rows.set_column(n, f.name, rows.column(n).cast(pa.int32()).cast(pa.int64()).cast(pa.timestamp("ms")))
    try:
        return rows.to_pandas(types_mapper=_PANDAS.get, date_as_object=False)
    except ValueError as error:
        names = ", ".join(rows.column_names)
        raise InvalidInputError(
            f"Great Expectations cannot judge {names}: pandas has no such values ({error})"
        ) from error


def _add(outcome: Outcome, result: Any) -> None:
    """Add the result of a piece; errors as `_refuse_unjudged`."""
    _refuse_unjudged(outcome.expected, result)
    found, outcome.result = result.result, result
    outcome.rows += int(found.get("element_count") or 0)
    if "unexpected_count" not in found or "element_count" not in found:
        # What is said of the column as a whole, also of a type of each value.
        outcome.passed = outcome.passed and bool(result.success)
    else:
        outcome.unexpected = (outcome.unexpected or 0) + int(found["unexpected_count"])
        outcome.judged += int(found["element_count"]) - int(found.get("missing_count") or 0)
        values = tuple(_shown(v, outcome.kind) for v in found.get("partial_unexpected_list") or ())
        outcome.sample = (*outcome.sample, *values)[:_SAMPLE]
    if "observed_value" in found:
        seen = found["observed_value"]
        outcome.observed = _shown(seen, outcome.kind) if isinstance(seen, pd.Timestamp) else seen


def _shown(value: Any, kind: pa.DataType | None) -> str:
    """Return a value of a frame as text, a date or time as such."""
    if isinstance(value, pd.Timestamp) and kind is not None and pa.types.is_date(kind):
        return str(value.date())
    if isinstance(value, pd.Timestamp) and kind is not None and pa.types.is_time(kind):
        return str(value.time())
    return str(value)


def _refuse_unjudged(expected: ExpectationConfig, result: Any) -> None:
    """Raise InvalidInputError when the expectation could not be applied to the rows."""
    info = result.exception_info or {}
    each = [info] if "raised_exception" in info else [i for i in info.values() if isinstance(i, dict)]
    raised = next((i for i in each if i.get("raised_exception")), None)
    if raised is not None:
        raise InvalidInputError(f"{expected.type}: {raised.get('exception_message')}")


def whole_result(outcome: Outcome) -> Any:
    """Return the library's result of the last piece with the counts of all; None when nothing was judged."""
    result = outcome.result
    if result is None:
        return None
    result.success = outcome.passed
    found = {k: v.item() if isinstance(v, np.generic) else v for k, v in result.result.items()}
    if outcome.unexpected is not None:
        judged, rows = outcome.judged, outcome.rows
        found |= {
            "element_count": rows,
            "unexpected_count": outcome.unexpected,
            "missing_count": rows - judged,
            "missing_percent": 100 * (rows - judged) / rows if rows else 0.0,
            "unexpected_percent": 100 * outcome.unexpected / judged if judged else 0.0,
            "unexpected_percent_total": 100 * outcome.unexpected / rows if rows else 0.0,
            "unexpected_percent_nonmissing": 100 * outcome.unexpected / judged if judged else 0.0,
            "partial_unexpected_list": list(outcome.sample),
        }
        # Counts of single values are those of the last piece only.
        found.pop("partial_unexpected_counts", None)
    result.result = found
    return result
