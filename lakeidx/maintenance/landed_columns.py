"""Ingest of landing files that may have columns the table does not have yet: they are added, and the files read again."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from lakeidx.batch.artifacts import IngestReport
from lakeidx.batch.context import BatchContext
from lakeidx.batch.upsert import ingest_files
from lakeidx.format.schema.edits import SchemaEdits
from lakeidx.landing.cast_rows import RefuseRows
from lakeidx.landing.new_columns import NewColumnsError
from lakeidx.landing.reject_limit import RejectLimit
from lakeidx.landing.types import LandingOptions
from lakeidx.maintenance.alter import alter_table
from lakeidx.table.handle import TableHandle
from lakeidx.types import DataType, format_type, parse_type

log = logging.getLogger(__name__)

_TRIES = 5


def ingest_landing(
    context: BatchContext,
    landing: Sequence[str],
    options: LandingOptions | None = None,
    *,
    strict: bool = False,
    max_rejected: RejectLimit | None = None,
    judge: RefuseRows | None = None,
) -> IngestReport:
    """Ingest landing files; columns that the options let be added or widened are, before anything is staged.

    judge    finds rows to reject
    errors   as `lakeidx.batch.upsert.ingest_files`, and those of `lakeidx.maintenance.alter.alter_table`
    """
    table = TableHandle(context.store, context.paths)
    for _ in range(_TRIES):
        try:
            return ingest_files(context, landing, options, strict=strict, max_rejected=max_rejected, judge=judge)
        except NewColumnsError as error:
            log.info("%s: %s", table.uri, error.message)
            alter_table(table, _edits(table, error))
    return ingest_files(context, landing, options, strict=strict, max_rejected=max_rejected, judge=judge)


def _edits(table: TableHandle, error: NewColumnsError) -> SchemaEdits:
    have = table.schema.fields_by_name
    types = {name: parse_type(t) for name, t in error.columns.items()}
    return SchemaEdits(
        add={n: format_type(t) for n, t in types.items() if n not in have},
        types={n: format_type(_as_nullable(t, have[n].type)) for n, t in types.items() if n in have},
    )


def _as_nullable(t: DataType, old: DataType) -> DataType:
    return t.with_nullable(old.nullable)
