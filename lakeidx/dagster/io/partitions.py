"""The rows of an asset's partitions as a condition over the table's columns.

A partition by time is the values of a DATE or TIMESTAMP column from its start to its end; of a column of another type, and for all
other partitions, it is the rows that have its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dagster as dg

from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.predicate import Predicate, and_, col, or_
from lakeidx.types import TIMESTAMP_ROOTS, Root


def partition_condition(
    found: Any, keys: Sequence[str], expression: str | Mapping[str, str], schema: TableSchema
) -> Predicate:
    """Return the condition that selects the rows of some partitions.

    found        their PartitionsDefinition
    expression   the column, or the columns by dimension
    errors       InvalidInputError for a column that the table does not have, or that cannot hold the partitions
    """
    if not isinstance(found, dg.MultiPartitionsDefinition):
        if not isinstance(expression, str):
            raise InvalidInputError("partition_expr: name one column, the asset has one dimension of partitions")
        return _of_dimension(found, keys, expression, schema)
    dimensions = {d.name: d.partitions_def for d in found.partitions_defs}
    if isinstance(expression, str) or set(expression) != set(dimensions):
        raise InvalidInputError(f"partition_expr: name a column for each dimension: {', '.join(sorted(dimensions))}")
    rows = []
    for key in keys:
        parts = found.get_partition_key_from_str(key).keys_by_dimension
        rows.append(and_([_of_dimension(dimensions[d], [k], expression[d], schema) for d, k in parts.items()]))
    return or_(rows)


def _of_dimension(found: Any, keys: Iterable[str], column: str, schema: TableSchema) -> Predicate:
    root = schema.field(column).type.root
    if not isinstance(found, dg.TimeWindowPartitionsDefinition) or root not in {Root.DATE, *TIMESTAMP_ROOTS}:
        return col(column).is_in(list(keys))
    return or_([_in_window(found.time_window_for_partition_key(key), column, root) for key in keys])


def _in_window(window: dg.TimeWindow, column: str, root: Root) -> Predicate:
    start: Any = window.start
    end: Any = window.end
    if root is Root.DATE:
        start, end = start.date(), end.date()
        if start == end:
            raise InvalidInputError(
                f"partition_expr: partitions of less than a day need more than the DATE in {column}"
            )
    elif root is Root.TIMESTAMP:
        # The wall clock of the partitions' time zone, as such columns have it.
        start, end = start.replace(tzinfo=None), end.replace(tzinfo=None)
    return and_([col(column) >= start, col(column) < end])
