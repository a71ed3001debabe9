"""All stages of a batch, one after another, in one call: what the command line and `Table.upsert` use."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeidx.batch.artifacts import (
    BucketAssignmentReport,
    CommitReport,
    IngestReport,
)
from lakeidx.batch.context import BatchContext
from lakeidx.batch.held.hold import check_limits, hold_batch, refuse_held
from lakeidx.batch.schema_drift import drift_reason, staged_schema
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.stages.commit import run_commit
from lakeidx.batch.stages.given_rows import Absent, Publish, stage_table
from lakeidx.batch.stages.index_write import run_index_write
from lakeidx.errors import NotFoundError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.landing.cast_rows import RefuseRows
from lakeidx.landing.kind_rules import ON_DELETE_DEFAULT, OnDelete
from lakeidx.landing.types import MISSING_DEFAULT, LandingOptions
from lakeidx.tasks.logs import logged

if TYPE_CHECKING:
    from lakeidx.batch.committed_batch import BatchResult
    from lakeidx.landing.reject_limit import RejectLimit

log = logging.getLogger(__name__)

#: Called with the name of the stage that starts.
OnStage = Callable[[str], None]
#: Says what is wrong with the table as it would be with a batch (`try_commit`); nothing: the batch may be published.
Judge = Callable[[BatchContext], Sequence[str]]

_EXPIRED_TRIES = 10


def ingest_files(
    context: BatchContext,
    landing: Sequence[str],
    options: LandingOptions | None = None,
    *,
    strict: bool = False,
    max_rejected: RejectLimit | None = None,
    judge: RefuseRows | None = None,
    schema: TableSchema | None = None,
    publish: Publish | None = None,
) -> IngestReport:
    """Run the stage `ingest` over landing files; again when the rows of an earlier run are not in the table any more.

    judge    finds rows to reject
    schema   what rows become; default the table's newest
    publish  puts the schema, when it is one that the table does not have yet
    errors   InvalidInputError when the batch was ingested with other content; RejectedRowsError; see `run_ingest`
    """
    from lakeidx.batch.stages.ingest import run_ingest

    metadata = context.metadata
    _begin(context)
    return run_ingest(
        context.files,
        schema or metadata.latest_schema(),
        landing,
        options or LandingOptions(),
        context.runner,
        strict=strict,
        limit=max_rejected,
        overwrite=context.overwrite is not None,
        new=_new_columns(context, schema),
        table_id=metadata.table_id,
        table=metadata,
        judge=judge,
        publish=publish,
    )


def ingest_rows(
    context: BatchContext,
    rows: pa.Table | pa.RecordBatchReader,
    *,
    missing: str = MISSING_DEFAULT,
    absent: Absent | None = None,
    on_delete: OnDelete = ON_DELETE_DEFAULT,
    merge_schema: str = "refuse",
    schema: TableSchema | None = None,
    publish: Publish | None = None,
) -> IngestReport:
    """Run the stage `ingest` over rows of a caller; `schema` and `publish` as for `ingest_files`, the others and the errors as for
    `stage_table`.
    """
    metadata = context.metadata
    if _begin(context) is not None:
        schema = staged_schema(metadata, context.files)
    return stage_table(
        context.files,
        schema or metadata.latest_schema(),
        rows,
        table_id=metadata.table_id,
        missing=missing,
        absent=absent,
        on_delete=on_delete,
        new=_new_columns(context, schema),
        merge_schema=merge_schema,
        publish=publish,
        read_on=context.read_on,
        operation=context.operation,
    )


def _begin(context: BatchContext) -> IngestReport | None:
    """Begin a run of a batch, and return the report of an earlier one that goes on; a batch whose id is new has no past.

    errors   as `lakeidx.batch.stages.rerun.begin_run`
    """
    files = context.files
    if files.run == 1 and files.read(IngestReport) is None:
        return None
    from lakeidx.batch.stages.rerun import begin_run

    begin_run(context.metadata, files)
    return files.read(IngestReport)


def _new_columns(context: BatchContext, schema: TableSchema | None) -> set[str]:
    """Return the columns that the table gets with a batch, or from others since it began."""
    return set() if schema is None else schema.fields_by_name.keys() - context.schema.fields_by_name


def finish_batch(context: BatchContext, tell: OnStage) -> BatchResult:
    """Run the stages after ingest."""
    from lakeidx.batch.committed_batch import read_reports

    attempt = context.files.latest_attempt()
    tell("bucket_assignment")
    run_bucket_assignment(context, attempt)
    tell("index_write")
    write_attempt(context, attempt)
    tell("commit")
    commit = commit_batch(context, staged=False)
    result = read_reports(context.files, commit)
    snapshot = max(commit.snapshot_ids, default=None)
    with logged(table=context.paths.root, batch=context.files.batch_id, stage="commit", snapshot=snapshot):
        log.info("%s: %r", context.paths.root, result)
    return result


def commit_batch(
    context: BatchContext,
    *,
    staged: bool = True,
    judge: Judge | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> CommitReport:
    """Run the stage `commit`; a batch that lost a conflict is assigned and written again, here. See `run_commit`.

    judge    asked of each attempt before it is committed, unless the batch was released
    errors   BatchHeldError beyond a limit, or when `judge` finds something
    """
    if staged:
        refuse_held(context.files, context.paths.root)
    return run_commit(context, write_attempt, partial(_gate, judge), staged=staged, sleep=sleep)


def _gate(judge: Judge | None, context: BatchContext, attempt: int) -> int:
    """Return the attempt that may be committed.

    What is judged is the table as it would be with the attempt. One that could not be committed any more is planned again first.
    """
    if context.limits:
        check_limits(context, attempt)
    files = context.files
    if judge is None or files.was_committing(attempt) or files.decided() == "release":
        return attempt
    from lakeidx.batch.held.trial import try_commit

    if drift_reason(staged_schema(context.metadata, files), context.metadata.latest_schema()):
        # The commit refuses it.
        return attempt
    while (trial := try_commit(context)) is None:
        attempt = write_attempt(context, attempt + 1)
        check_limits(context, attempt)
    reasons = judge(trial)
    if reasons:
        hold_batch(context, attempt, reasons)
    return attempt


def write_attempt(context: BatchContext, attempt: int) -> int:
    """Assign and write a batch; once more when a file of the state it was planned on expired in the meantime.

    returns  the attempt that was written
    errors   NotFoundError for a landing file, or when the state expired again and again
    """
    for left in reversed(range(_EXPIRED_TRIES + 1)):
        try:
            run_bucket_assignment(context, attempt)
            run_index_write(context, attempt)
            return attempt
        except NotFoundError as error:
            if not left or not context.is_of_table(error):
                raise
            log.info("attempt %d of batch %s is planned again: %s", attempt, context.files.batch_id, error)
            attempt += context.files.read(BucketAssignmentReport, attempt=attempt) is not None
    raise AssertionError("unreachable")
