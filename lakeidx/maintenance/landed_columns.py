"""Ingest of rows that may have columns the table does not have yet: they become the table's with the batch that brings them.

Rows are staged under the schema that the table is to have, and the schema file is put right before the batch's report makes
them count. So a batch that is refused, or was ingested before, changes no column; and when another alteration is faster,
the batch is planned again upon it, and its rows are staged anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeidx.batch.artifacts import IngestReport
from lakeidx.batch.context import BatchContext
from lakeidx.batch.stages.given_rows import Absent
from lakeidx.batch.upsert import ingest_files, ingest_rows
from lakeidx.errors import CommitConflictError, InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.landing.cast_rows import RefuseRows
from lakeidx.landing.kind_rules import ON_DELETE_DEFAULT, OnDelete
from lakeidx.landing.new_columns import NewColumnsError, type_at
from lakeidx.landing.types import MISSING_DEFAULT, LandingOptions
from lakeidx.table.handle import TableHandle
from lakeidx.types import DataType

if TYPE_CHECKING:
    from lakeidx.landing.reject_limit import RejectLimit

log = logging.getLogger(__name__)

#: How often a batch is planned upon the alterations of others before it gives up.
MERGE_TRIES = 5


class _OtherSchemaError(Exception):
    """Another alteration has put the schema of this id."""


def ingest_landing(
    context: BatchContext,
    landing: Sequence[str],
    options: LandingOptions | None = None,
    *,
    strict: bool = False,
    max_rejected: RejectLimit | None = None,
    judge: RefuseRows | None = None,
) -> IngestReport:
    """Ingest landing files; columns that `merge_schema` of the options lets be added or widened are.

    judge    finds rows to reject
    errors   as `lakeidx.batch.upsert.ingest_files`, and those of `lakeidx.maintenance.alter.alter_table`
    """
    ingest = partial(ingest_files, context, landing, options, strict=strict, max_rejected=max_rejected, judge=judge)
    return _with_columns(context, ingest, context.metadata.latest_schema())


def ingest_given(
    context: BatchContext,
    rows: pa.Table | pa.RecordBatchReader,
    *,
    missing: str = MISSING_DEFAULT,
    absent: Absent | None = None,
    on_delete: OnDelete = ON_DELETE_DEFAULT,
    merge_schema: str = "refuse",
) -> IngestReport:
    """Ingest rows in memory; columns that `merge_schema` lets be added or widened are.

    missing, absent, on_delete   as for `lakeidx.batch.stages.given_rows.stage_table`
    errors   as `lakeidx.batch.upsert.ingest_rows`, and those of `lakeidx.maintenance.alter.alter_table`
    """
    ingest = partial(
        ingest_rows, context, rows, missing=missing, absent=absent, on_delete=on_delete, merge_schema=merge_schema
    )
    return _with_columns(context, ingest, context.schema)


def _with_columns(context: BatchContext, ingest: Callable[..., IngestReport], base: TableSchema) -> IngestReport:
    table = TableHandle(context.store, context.paths, context.metadata)
    for _ in range(MERGE_TRIES):
        try:
            return ingest(schema=base, publish=None)
        except NewColumnsError as error:
            wanted = plan_new_columns(table, base, error.columns)
        try:
            return ingest(schema=wanted, publish=partial(_publish, table, base, wanted))
        except _OtherSchemaError:
            base = table.schema
    raise others_were_faster(table)


def others_were_faster(table: TableHandle) -> CommitConflictError:
    """Return the error of a batch whose new columns were planned as often as `MERGE_TRIES`."""
    text = f"other changes of the schema were faster {MERGE_TRIES} times in a row; run the batch again"
    return CommitConflictError(text, path=table.uri)


def _publish(table: TableHandle, base: TableSchema, wanted: TableSchema) -> None:
    if not put_columns(table, base, wanted):
        raise _OtherSchemaError


def put_columns(table: TableHandle, base: TableSchema, wanted: TableSchema) -> bool:
    """Make a schema from `plan_new_columns` the table's newest; False when another alteration was faster."""
    from lakeidx.format.schema.edits import schema_differences
    from lakeidx.maintenance.alter import put_schema

    if not put_schema(table, wanted):
        log.info("%s: the schema was changed by another process, planning the new columns again", table.uri)
        return False
    shown = "; ".join(str(d) for d in schema_differences(base, wanted))
    log.info("%s: schema %d is now schema %d (%s)", table.uri, base.id, wanted.id, shown)
    return True


def plan_new_columns(table: TableHandle, base: TableSchema, columns: Mapping[str, DataType]) -> TableSchema:
    """Return the schema of the table with these columns added, or widened; nothing is written.

    columns  types by name, fields of a ROW by their path
    errors   InvalidInputError for a column that differs from one of the table only by upper and lower case; and those of
             `lakeidx.maintenance.alter.plan_alteration`
    """
    from lakeidx.format.schema.edits import SchemaEdits
    from lakeidx.maintenance.alter import plan_alteration

    here = {n: type_at(base.fields, n) for n in columns}
    folded = {n.casefold(): n for n in base.field_names}
    for name in columns:
        like = folded.get(name.casefold(), name)
        if like != name:
            raise InvalidInputError(
                f"the rows have a column {name!r} and the table {like!r}: Spark and others could not tell the two apart; "
                "rename the column of the rows",
                path=table.uri,
            )
        if here[name] is None and "." in name and type_at(base.fields, name.rpartition(".")[0]) is None:
            raise InvalidInputError(
                f"column {name!r}: the name of a new column must not contain a dot (ROW.field); rename it",
                path=table.uri,
            )
    edits = SchemaEdits(
        add={n: t.with_nullable(True) for n, t in columns.items() if here[n] is None},
        types={n: t for n, t in columns.items() if here[n] is not None},
    )
    return plan_alteration(table, base, edits)
