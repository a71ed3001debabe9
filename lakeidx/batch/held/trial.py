"""A batch committed where readers do not see it: in a copy of the table's newest state that is in memory.

The table as it would be has the batch's own data files, and snapshot and manifests of its own (`lakeidx.storage.overlay`), so
everything that reads a table reads it: scans, checks, lookups. Others go on beside it, and each trial is of the newest state.
"""

from __future__ import annotations

from dataclasses import replace

from lakeidx.batch.artifacts import BatchFiles, BucketAssignmentReport, CommitReport, IndexWriteReport, IngestReport
from lakeidx.batch.context import BatchContext
from lakeidx.batch.stages.commit import PlanAgain, build_request, newest_schema
from lakeidx.errors import CommitConflictError
from lakeidx.storage.overlay import OverlayStore
from lakeidx.table.commit.commit_changes import commit_changes
from lakeidx.table.metadata import TableMetadata
from lakeidx.tasks.limits import available_cores
from lakeidx.tasks.runner import LocalRunner


def try_commit(context: BatchContext) -> BatchContext | None:
    """Commit the newest attempt of a batch in a copy of its table.

    returns  the batch there, with all of its reports; `metadata` is the table as it would be. None: it lost a conflict, and has to
             be planned again
    errors   CommitConflictError when its rows were made of rows that have changed since
    """
    trial = _in_memory(context)
    return trial if _committed(trial, trial.files.latest_attempt()) else None


def commit_in_memory(context: BatchContext, plan_again: PlanAgain) -> BatchContext:
    """Commit a batch in a copy of its table, as `try_commit`; one that lost a conflict is planned again there, in memory."""
    trial = _in_memory(context)
    attempt = trial.files.latest_attempt()
    while not _committed(trial, attempt):
        attempt = plan_again(trial, attempt + 1)
    return trial


def _in_memory(context: BatchContext) -> BatchContext:
    store = OverlayStore(context.store)
    files = BatchFiles(store, context.paths, context.files.batch_id)
    metadata = TableMetadata(store, context.paths)
    return replace(context, metadata=metadata, files=files, runner=LocalRunner(available_cores()), limits=None)


def _committed(trial: BatchContext, attempt: int) -> bool:
    """Commit an attempt and close its report; False when it lost a conflict."""
    files = trial.files
    assign, write = (
        files.require(BucketAssignmentReport, attempt=attempt),
        files.require(IndexWriteReport, attempt=attempt),
    )
    request = build_request(trial, assign, write, assign.base_snapshot_id, tried_before=False)
    schema = newest_schema(trial, request)
    try:
        result = commit_changes(trial.metadata, request, schema=schema)
    except CommitConflictError:
        if files.require(IngestReport).completed_on is not None:
            raise
        return False
    report = CommitReport(
        batch_id=files.batch_id, attempt=attempt, snapshot_ids=result.snapshot_ids, already=False, replans=0, seconds=0,
        commit_user=request.commit_user,
    )  # fmt: skip
    files.close(report)
    return True
