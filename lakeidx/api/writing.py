"""Writing to a table: upsert, overwrite, landing files, delete."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Literal, overload

import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.api.arrow_input import Rows, absent_columns, as_table
from lakeidx.api.looking import LookingMixin
from lakeidx.api.reports import DeletePlan
from lakeidx.api.runners import RunnerLike, make_runner
from lakeidx.arguments import PathLike, paths
from lakeidx.batch.context import BatchContext
from lakeidx.batch.stages.memory_staging import fits_memory, memory_staging
from lakeidx.batch.upsert import BatchResult, OnStage, finish_batch, make_context, new_batch_id, replacing
from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.landing.cast_rows import AS_STORED
from lakeidx.landing.kind_rules import REMOVING_OPTION, OnDelete
from lakeidx.landing.new_columns import merge_policy
from lakeidx.landing.read import LandingOptions
from lakeidx.landing.reject_limit import RejectLimit
from lakeidx.landing.row_kinds import KIND_COLUMN
from lakeidx.maintenance.after_commit import compact_after_commit
from lakeidx.maintenance.landed_columns import ingest_given, ingest_landing
from lakeidx.predicate import Predicate
from lakeidx.table.expiration.overtaken import on_newest
from lakeidx.table.handle import scan_committed
from lakeidx.table.scan.layout import ROW_KIND
from lakeidx.table.stream.follow import StreamStep

log = logging.getLogger(__name__)


class WritingMixin(LookingMixin):
    """The verbs of a table that write rows."""

    def upsert(
        self,
        rows: Rows,
        *,
        batch_id: str | None = None,
        missing: str = "refuse",
        on_delete: OnDelete = "apply",
        merge_schema: bool | str = False,
        runner: RunnerLike = None,
        on_stage: OnStage | None = None,
    ) -> BatchResult:
        """Insert new keys, update known ones; row kinds (+I -U +U -D) in column ``_kind`` when present.

        rows       the table's columns in any order
        batch_id   name of the batch: a batch of the same name that was committed changes nothing
        missing    columns that `rows`, or single dictionaries, do not have: ``refuse``; ``null`` sets them to null (or their
                   default), also in rows that are there. Merge engines partial-update and aggregation keep the old values, so
                   there columns may always be missing
        on_delete  what becomes of rows of kind -D and -U: ``apply``, where the table's merge engine and options take them;
                   ``reject``; ``ignore``: left out, and counted; ``remove``: a -D removes the row, which the table's options
                   must say (`partial-update.remove-record-on-delete`). Or one for each kind, ``{"-D": "remove", "-U": "ignore"}``
        merge_schema  columns that the table does not have: refused; ``add`` adds them, nullable and at the end; True or
                   ``widen`` also widens columns to the types that `rows` have (lists of dictionaries have none). Keys and
                   partition columns stay as they are. The schema changes with the batch: not when that is refused, or was
                   ingested before
        runner     where stages run; default this process, two threads
        on_stage   called with the name of each stage as it begins
        errors     InvalidInputError naming row and column, CommitUnknownError, UnavailableError
        """
        context = self._context(batch_id, runner)
        own = batch_id is None and runner is None
        return self._write(context, rows, missing, merge_schema, on_stage, on_delete=on_delete, own=own)

    def upsert_changes(
        self,
        step: StreamStep,
        *,
        missing: str = "refuse",
        on_delete: OnDelete = "apply",
        merge_schema: bool | str = False,
        runner: RunnerLike = None,
    ) -> BatchResult | None:
        """Upsert what a step of another table's stream brings (`follow`), as one batch; None when it has no row.

        The batch is named after the step: when the step comes again, because a run ended before it was recorded, it changes
        nothing.
        errors   as for `upsert`
        memory   the rows of the step
        """
        rows = step.changes.to_arrow()
        if not rows.num_rows:
            return None
        rows = rows.rename_columns([KIND_COLUMN if n == ROW_KIND else n for n in rows.column_names])
        named = self.schema.table_options.rowkind_field
        if named in rows.column_names:
            # The column of a deleted row has the kind with which that came into the other table.
            retracts = pc.is_in(rows.column(KIND_COLUMN), pa.array(["-U", "-D"]))
            kinds = pc.if_else(retracts, None, rows.column(named))
            rows = rows.set_column(rows.column_names.index(named), named, kinds)
        return self.upsert(
            rows,
            batch_id=step.batch_id,
            missing=missing,
            on_delete=on_delete,
            merge_schema=merge_schema,
            runner=runner,
        )

    def overwrite(
        self,
        rows: Rows,
        *,
        whole_table: bool = False,
        where: str | Predicate | None = None,
        batch_id: str | None = None,
        merge_schema: bool | str = False,
        runner: RunnerLike = None,
        on_stage: OnStage | None = None,
    ) -> BatchResult:
        """Replace the partitions that `rows` touch, or the whole table, by `rows`; columns they do not have are null.

        where    replace all partitions it holds for, also those that `rows` do not touch, and no others: a condition over
                 partition columns
        merge_schema  as for `upsert`
        errors   InvalidInputError also for a row that `where` does not hold for, before anything is visible
        """
        mode = "table" if whole_table else "partitions"
        if whole_table and where is not None:
            raise InvalidInputError("overwrite the whole table, or the partitions of a condition (where), not both")
        context = self._context(batch_id, runner, mode)
        context = replacing(context, where)
        return self._write(context, rows, "null", merge_schema, on_stage)

    def upsert_files(
        self,
        files: Sequence[PathLike],
        options: LandingOptions | None = None,
        *,
        batch_id: str | None = None,
        strict: bool = False,
        max_rejected: str | int | None = None,
        overwrite: str | None = None,
        runner: RunnerLike = None,
        on_stage: OnStage | None = None,
    ) -> BatchResult:
        """Upsert landing files (Parquet, CSV, JSON lines, changes of a database) as one batch; bad rows are split off with
        their reasons.

        strict        refuse the batch when a row is rejected (RejectedRowsError)
        max_rejected  refuse it when more rows are: ``100``, ``5%`` or ``100,5%``
        overwrite     None, ``partitions`` (those the files have rows for) or ``table``
        """
        found = paths(files, name="files")
        context = self._context(batch_id, runner, overwrite)
        limit = None if max_rejected is None else RejectLimit.parse(max_rejected)
        tell = on_stage or (lambda stage: None)
        tell("ingest")
        ingest_landing(context, found, options, strict=strict, max_rejected=limit)
        return self._finished(finish_batch(context, tell), context)

    @overload
    def delete(
        self,
        keys: Rows | None = None,
        *,
        where: str | Predicate | None = None,
        batch_id: str | None = None,
        dry_run: Literal[False] = False,
        runner: RunnerLike = None,
        on_stage: OnStage | None = None,
    ) -> BatchResult | None: ...

    @overload
    def delete(
        self, keys: Rows | None = None, *, where: str | Predicate | None = None, dry_run: Literal[True]
    ) -> DeletePlan: ...

    def delete(
        self,
        keys: Rows | None = None,
        *,
        where: str | Predicate | None = None,
        batch_id: str | None = None,
        dry_run: bool = False,
        runner: RunnerLike = None,
        on_stage: OnStage | None = None,
    ) -> BatchResult | DeletePlan | None:
        """Delete rows by key, or all rows that match a condition, as one batch.

        Rows are looked for in the newest snapshot, also those that readers see only after a compaction (deletion vectors). One
        that another batch updates before this one commits is deleted, too, unless
        `sequence.field` orders it later.

        keys      the primary key's columns; keys that are not there are skipped
        where     as for `scan`
        dry_run   only count the rows
        returns   None when no row was found: then nothing is written
        errors    InvalidInputError without exactly one of the two, or a table without primary key; UnsupportedError for a
                  merge engine whose readers skip deletes
        memory    the rows to delete (of a deduplicate table only keys and what decides their order)
        """
        if (keys is None) == (where is None):
            raise InvalidInputError("delete takes keys, or a condition (where)")
        _check_deletable(self.schema)
        if dry_run:
            return DeletePlan(rows=self._count_of(keys, where))
        rows = self._rows_of(as_table(keys)) if keys is not None else self._rows_where(where)
        if rows.num_rows == 0:
            log.info("%s: no row to delete", self.uri)
            return None
        rows = rows.append_column(KIND_COLUMN, pa.array(["-D"] * rows.num_rows, pa.string()))
        rows = rows.replace_schema_metadata(AS_STORED)
        return self.upsert(rows, batch_id=batch_id, missing="null", runner=runner, on_stage=on_stage)

    def _write(
        self,
        context: BatchContext,
        rows: Rows,
        missing: str,
        merge_schema: bool | str,
        on_stage: OnStage | None,
        *,
        on_delete: OnDelete = "apply",
        own: bool = False,
    ) -> BatchResult:
        """Run rows in memory through all stages; `own`: nobody else knows the batch's id, and it runs in this process."""
        policy = merge_policy(merge_schema)
        tell = on_stage or (lambda stage: None)
        tell("ingest")
        # Types of dictionaries are those of Python, which nobody chose.
        policy = "add" if policy == "widen" and isinstance(rows, list) else policy
        given = as_table(rows, context.schema.fields)
        with memory_staging(context) if own and fits_memory(context, given) else nullcontext(context) as running:
            absent = absent_columns(rows)
            ingest_given(running, given, missing=missing, absent=absent, on_delete=on_delete, merge_schema=policy)
            result = finish_batch(running, tell)
        return self._finished(result, context)

    def _context(self, batch_id: str | None, runner: RunnerLike, overwrite: str | None = None) -> BatchContext:
        """Make a batch's context; an id is drawn for None only: an empty one would be another with each try."""
        name = new_batch_id() if batch_id is None else batch_id
        return make_context(self.metadata, name, runner=make_runner(runner), overwrite=overwrite)

    def _finished(self, result: BatchResult, context: BatchContext) -> BatchResult:
        """Log a committed batch, and compact when the table's options request it."""
        log.info("%s: %r", self.uri, result)
        compact_after_commit(self.metadata, context.runner)
        return result

    def _rows_of(self, keys: pa.Table) -> pa.Table:
        answer = self._look_up(keys, unseen=True)
        return answer.filter(answer.column("_FOUND")).select(list(_columns_of_deletes(self.schema)))

    def _count_of(self, keys: Rows | None, where: str | Predicate | None) -> int:
        if keys is not None:
            # A key may be given twice.
            found = self._rows_of(as_table(keys)).select(list(self.schema.primary_keys))
            return int(found.group_by(found.column_names).aggregate([]).num_rows)
        scan = partial(scan_committed, self, where=where, columns=self.schema.primary_keys)
        return on_newest(self.metadata, lambda _: int(sum(t.num_rows for t in scan().batches())))

    def _rows_where(self, where: str | Predicate | None) -> pa.Table:
        wanted = _columns_of_deletes(self.schema)
        return on_newest(self.metadata, lambda _: scan_committed(self, where=where, columns=wanted).to_arrow())


def _columns_of_deletes(schema: TableSchema) -> tuple[str, ...]:
    """Return what a -D row must carry: its key, what orders it after the row it deletes, and what may not be null."""
    options = schema.table_options
    if options.merge_engine != "deduplicate" or options.changelog_producer != "none":
        return schema.field_names
    needed = {*schema.primary_keys, *schema.partition_keys, *options.sequence_field}
    return tuple(f.name for f in schema.fields if f.name in needed or not f.type.nullable)


def _check_deletable(schema: TableSchema) -> None:
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
