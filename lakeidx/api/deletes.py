"""Deletes: the rows that go, by key or by a condition, as -D rows of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.landing.kind_rules import REMOVING_OPTION
from lakeidx.predicate import Predicate
from lakeidx.results import Result
from lakeidx.table.handle import TableHandle
from lakeidx.table.scan.table_scan import scan_committed
from lakeidx.table.view import on_newest


@dataclass(frozen=True, slots=True, repr=False)
class DeletePlan(Result):
    """Plan of a delete.

    rows   keys it would delete
    """

    rows: int
    dry_run: bool = True


def rows_found(schema: TableSchema, answer: pa.Table) -> pa.Table:
    """Return the rows to delete of a lookup's answer."""
    return answer.filter(answer.column("_FOUND")).select(list(_columns_of_deletes(schema)))


def rows_where(table: TableHandle, where: str | Predicate | None) -> pa.Table:
    """Return the rows to delete by a condition."""
    scan = partial(scan_committed, table, where=where, columns=_columns_of_deletes(table.schema))
    return on_newest(table.metadata, lambda _: scan().to_arrow())


def count_keys(schema: TableSchema, rows: pa.Table) -> int:
    """Count the keys of rows; one may be there twice."""
    keys = list(schema.primary_keys)
    return int(rows.select(keys).group_by(keys).aggregate([]).num_rows)


def count_where(table: TableHandle, where: str | Predicate | None) -> int:
    """Count the rows to delete by a condition; memory for one batch of keys."""
    scan = partial(scan_committed, table, where=where, columns=table.schema.primary_keys)
    return on_newest(table.metadata, lambda _: int(sum(t.num_rows for t in scan().batches())))


def _columns_of_deletes(schema: TableSchema) -> tuple[str, ...]:
    """Return what a -D row must carry: its key, what orders it after the row it deletes, and what may not be null."""
    options = schema.table_options
    if options.merge_engine != "deduplicate" or options.changelog_producer != "none":
        return schema.field_names
    needed = {*schema.primary_keys, *schema.partition_keys, *options.sequence_field}
    return tuple(f.name for f in schema.fields if f.name in needed or not f.type.nullable)


def check_deletable(schema: TableSchema) -> None:
    """Raise InvalidInputError or UnsupportedError for a table in which a delete would change nothing."""
    options = schema.table_options
    if not schema.primary_keys:
        raise InvalidInputError("rows can be deleted from tables with a primary key only")
    if options.ignore_delete:
        raise UnsupportedError("option 'ignore-delete' = true: a delete would change nothing")
    if options.merge_engine == "first-row":
        raise UnsupportedError("merge engine first-row does not support deletes")
    wanted = REMOVING_OPTION.get(options.merge_engine)
    if wanted is not None and schema.options.get(wanted, "false").lower() != "true":
        raise UnsupportedError(f"merge engine {options.merge_engine} deletes rows only with option '{wanted}' = true")
