"""Stage `commit`: publish what was written, at most once.

A batch that lost a conflict is planned again by whoever runs the stages (`lakeidx.batch.upsert`), from the newest snapshot; this
stage only says so.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from lakeidx.batch.artifacts import BucketAssignmentReport, CommitReport, IndexWriteReport, IngestReport
from lakeidx.batch.commit_priority import EVERY_PARTITION, CommitPriority
from lakeidx.batch.context import BatchContext
from lakeidx.batch.schema_drift import drift_reason, stage_again, staged_schema
from lakeidx.errors import CommitConflictError, CommitUnknownError, UnavailableError
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.storage.overlay import OverlayStore
from lakeidx.table.commit.changes import CommitRequest, Overwrite, decode_changes
from lakeidx.table.commit.commit_changes import commit_changes
from lakeidx.table.commit.earlier_commit import missing_files, was_committed
from lakeidx.tasks.logs import stage_logs

if TYPE_CHECKING:
    from lakeidx.batch.index_hooks import IndexHooks

#: Assigns and writes a batch again as this attempt, or a later one; gives its number.
PlanAgain = Callable[[BatchContext, int], int]
#: Returns the attempt that may be committed: this one, or one it was planned again as. Raises BatchHeldError.
Gate = Callable[[BatchContext, int], int]

#: Files that were written so long ago are looked for before they are committed.
STALE_WRITE_MS = 3_600_000
#: How often a batch is planned again before the conflict is given to the caller.
_MAX_REPLANS = 20
log = logging.getLogger(__name__)

_NAMESPACE = UUID("5f0f1c5e-8c53-5d0e-9a53-6c616b656964")


def commit_user(paths: TablePaths, batch_id: str, run: int = 1) -> str:
    """Make the commit user of a batch: the same for every try, different for every batch, table and branch."""
    again = "" if run == 1 else f"#{run}"
    return f"lakeidx-{uuid5(_NAMESPACE, f'{paths.branch_root}#{batch_id}{again}')}"


def build_request(
    context: BatchContext,
    assign: BucketAssignmentReport,
    write: IndexWriteReport,
    first_base: int | None,
    *,
    tried_before: bool = True,
    files_since_ms: int | None = None,
) -> CommitRequest:
    """Make the commit request of a written batch.

    first_base       snapshot the first attempt was planned on: an earlier try is looked for from there on
    tried_before     an earlier try of this attempt may have committed it
    files_since_ms   none of its files is older (epoch ms); None when they were written just now
    """
    changes = decode_changes(context.files.store.get(write.changes_path), write.changes_path)
    overwrite = None
    if context.overwrite == "table":
        overwrite = Overwrite(partitions=None)
    elif context.overwrite == "partitions":
        from lakeidx.batch.stages.overwrite import replaced_partitions

        overwrite = Overwrite(partitions=replaced_partitions(context, assign))
    assigned_on = None
    if assign.assigned_on is not None and overwrite is None:
        assigned_on = {bytes.fromhex(p): buckets for p, buckets in assign.assigned_on.items()}
    return CommitRequest(
        commit_user=commit_user(context.paths, context.files.batch_id, context.files.run),
        changes=changes,
        base_snapshot_id=first_base,
        assigned_on=assigned_on,
        by_partition=assign.by_partition,
        alone_since=_alone_since(context, assign) if overwrite is None else None,
        overwrite=overwrite,
        tried_before=tried_before,
        files_since_ms=files_since_ms,
        operation=context.files.require(IngestReport).operation,
    )


def _alone_since(context: BatchContext, assign: BucketAssignmentReport) -> int | None:
    """Return the snapshot after which nobody else may have written rows; None: anybody may."""
    completed_on = context.files.require(IngestReport).completed_on
    if completed_on is not None:
        return completed_on
    return (assign.base_snapshot_id or 0) if assign.global_index else None


@stage_logs("commit")
def run_commit(
    context: BatchContext,
    plan_again: PlanAgain,
    gate: Gate,
    *,
    staged: bool = True,
    sleep: Callable[[float], None] = time.sleep,
) -> CommitReport:
    """Commit a batch at most once.

    A conflict (another batch changed the hash index or the touched buckets) asks for a new attempt; a batch that loses again and
    again is let go first (`lakeidx.batch.commit_priority`). Tags that are due then are made before the report is written, so that a
    batch that dies in between makes them when it comes again.
    plan_again   assigns and writes the batch again: called with the number of the attempt, gives the one it ended with
    gate     asked before each attempt is committed
    staged   later stages, perhaps of other processes, read the report: where it cannot be put the stage fails, and finds its
             snapshot when it comes again
    returns      the report; `already` when the batch had been committed before
    errors   BatchHeldError; CommitUnknownError, UnavailableError; CommitConflictError after MAX_REPLANS, or when the run does not
             count any more
    """
    done = context.files.read(CommitReport)
    _check_run(context, done)
    if done is not None:
        return done.model_copy(update={"already": True})
    priority = CommitPriority(context.store, context.paths, context.files.batch_id, sleep=sleep)
    try:
        report = _commit_or_replan(context, priority, plan_again, gate, sleep)
        closed = report
        # The snapshot stands. What a store in trouble leaves undone is done when the batch comes again, or by the next one.
        missing = _committed_all_the_same(context, "its tags or its report are missing")
        with contextlib.nullcontext() if staged else missing:
            schema = context.metadata.seen_schema()
            if schema.table_options.makes_tags:
                from lakeidx.table.expiration.automatic_tags import make_automatic_tags, make_batch_tag

                make_automatic_tags(context.metadata, schema)
                make_batch_tag(context.metadata, schema)
            closed = context.files.close(report)
        # Another process may have found our commit, and closed first.
        return closed.model_copy(update={"already": report.already})
    finally:
        with _committed_all_the_same(context, "its request for priority is left"):
            priority.done()


@contextlib.contextmanager
def _committed_all_the_same(context: BatchContext, what: str) -> Iterator[None]:
    """Log that the store did not answer: after the commit that is no failure of the batch."""
    try:
        yield
    except (CommitUnknownError, UnavailableError) as error:
        log.warning("batch %s ended, but %s: %s", context.files.batch_id, what, error)


def _check_run(context: BatchContext, done: CommitReport | None) -> None:
    """Refuse a run that stopped counting while this program was between two of its stages.

    Another program may have committed it, and a rollback taken that away, or begun the batch anew.
    """
    files, reason = context.files, None
    if done is not None:
        from lakeidx.batch.stages.rerun import why_superseded

        reason = why_superseded(context.metadata, files, None)
    if reason is None and not files.is_current():
        reason = "the batch was begun anew"
    if reason is not None:
        raise CommitConflictError(
            f"the staged batch {files.batch_id!r} cannot be committed, since {reason}: run it again", path=files.root
        )


def _commit_or_replan(
    context: BatchContext,
    priority: CommitPriority,
    plan_again: PlanAgain,
    gate: Gate,
    sleep: Callable[[float], None],
) -> CommitReport:
    started = time.monotonic()
    attempt = context.files.latest_attempt()
    if attempt > 1 and context.files.read(IndexWriteReport, attempt=attempt) is None:
        # A process that planned the batch again has died since, or is still at it.
        attempt = plan_again(context, attempt)
    lost: set[int] = set()
    first_base = context.files.require(BucketAssignmentReport).base_snapshot_id
    while True:
        done = context.files.read(CommitReport) if attempt > 1 else None
        if done is not None:
            return _by_another(context, done)
        attempt = _committed_attempt(context, attempt, first_base, lost)
        attempt = _passed(context, gate, attempt)
        assign = context.files.require(BucketAssignmentReport, attempt=attempt)
        write = context.files.require(IndexWriteReport, attempt=attempt)
        partitions = _partitions_in_turn(assign)
        priority.wait(partitions)
        tried_before = not context.files.begin_commit(attempt)
        since_ms = context.files.closed_ms(BucketAssignmentReport, attempt=attempt) if tried_before else None
        request = build_request(context, assign, write, first_base, tried_before=tried_before, files_since_ms=since_ms)
        newest = newest_schema(context, request)
        hooks = _index_hooks(context, assign, request)
        try:
            _check_files(context, attempt, request)
            if hooks is not None:
                hooks.prepare()
            result = commit_changes(context.metadata, request, schema=newest, sleep=sleep)
            break
        except CommitConflictError as error:
            done = context.files.read(CommitReport)
            if done is not None:
                return _by_another(context, done)
            if hooks is not None:
                hooks.on_abort()
            _refuse_completed(context, error)
            lost.add(attempt)
            if len(lost) > _MAX_REPLANS:
                raise
            log.info("batch %s lost attempt %d: planned again: %s", context.files.batch_id, attempt, error.message)
            priority.request(partitions, len(lost), assign.seconds + write.seconds)
            priority.wait(partitions)
            attempt = plan_again(context, attempt + 1)
    if hooks is not None:
        hooks.committed(result.snapshot_ids)
    return CommitReport(
        batch_id=context.files.batch_id,
        attempt=attempt,
        snapshot_ids=result.snapshot_ids,
        already=result.already,
        replans=len(lost),
        seconds=time.monotonic() - started,
        commit_user=request.commit_user,
    )


def _index_hooks(context: BatchContext, assign: BucketAssignmentReport, request: CommitRequest) -> IndexHooks | None:
    """Return what tells an index with state outside the table of a commit; None when no key was placed by one."""
    if not assign.located_paths or isinstance(context.store, OverlayStore):
        # What is committed in memory is in no table that an index outside it answers for.
        return None
    from lakeidx.batch.index_hooks import IndexHooks

    return IndexHooks(context, assign, request)


def _passed(context: BatchContext, gate: Gate, attempt: int) -> int:
    """Return the attempt that the gate lets pass; a batch that has to be completed anew before it can be judged is."""
    try:
        return gate(context, attempt)
    except CommitConflictError as error:
        if context.files.is_current():
            _refuse_completed(context, error)
        raise


def _partitions_in_turn(assign: BucketAssignmentReport) -> tuple[str, ...]:
    partitions = tuple(sorted({t.partition for t in assign.targets}))
    # Batches with a global index must not overtake any other batch.
    return (EVERY_PARTITION, *partitions) if assign.global_index else partitions


def _refuse_completed(context: BatchContext, error: CommitConflictError) -> None:
    """Raise CommitConflictError for a batch whose rows were completed from rows that others have changed; its run ends."""
    files = context.files
    if files.require(IngestReport).completed_on is None:
        return
    files.supersede(f"its rows were completed from rows that have changed: {error.message}")
    raise CommitConflictError(
        f"rows of batch {files.batch_id!r} were completed from the table, which others have written since ({error.message}): "
        "run it again, which completes them anew",
        path=files.root,
    ) from error


def _by_another(context: BatchContext, done: CommitReport) -> CommitReport:
    """Return the report of another process that runs the batch, too, and planned it again before we did."""
    _check_run(context, done)
    return done.model_copy(update={"already": True})


def _committed_attempt(context: BatchContext, attempt: int, first_base: int | None, lost: Collection[int]) -> int:
    """Return the attempt that is, or was, in the table; else the newest one, which is to be committed.

    A batch is planned again without a conflict, too, when a state that it was planned on expires while it is written: another
    process may have committed what this one could not write to its end.
    lost     attempts that this process has seen lose
    """
    files = context.files
    for earlier in range(1, attempt):
        if earlier in lost or not files.was_committing(earlier):
            continue
        write = files.read(IndexWriteReport, attempt=earlier)
        if write is None:
            continue
        assign = files.require(BucketAssignmentReport, attempt=earlier)
        since_ms = files.closed_ms(BucketAssignmentReport, attempt=earlier)
        if was_committed(context.metadata, build_request(context, assign, write, first_base, files_since_ms=since_ms)):
            return earlier
    return attempt


def _check_files(context: BatchContext, attempt: int, request: CommitRequest) -> None:
    """Raise CommitConflictError when files of a batch that was written long ago were removed by someone who does not know it."""
    if request.tried_before and was_committed(context.metadata, request):
        return
    written_ms = context.files.closed_ms(IndexWriteReport, attempt=attempt)
    if time.time() * 1000 - written_ms < STALE_WRITE_MS:
        return
    missing = missing_files(context.metadata, request.changes)
    if missing:
        raise CommitConflictError(
            f"{len(missing)} files of the batch were removed before it was committed", path=missing[0]
        )


def newest_schema(context: BatchContext, request: CommitRequest) -> TableSchema:
    """Read the newest schema; refuse a batch whose rows do not fit it, unless an earlier try has committed them."""
    now = context.metadata.latest_schema()
    reason = drift_reason(staged_schema(context.metadata, context.files), now)
    if not reason or was_committed(context.metadata, request):
        return now
    raise stage_again(context.files, f"{reason} (schema {now.id})")
