"""Stage `commit`: publish what was written; on a conflict assign and write again from the newest snapshot."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from lakeidx.errors import CommitConflictError
from lakeidx.pipeline.artifacts import AssignReport, CommitReport, WriteReport
from lakeidx.pipeline.assign import run_assignment
from lakeidx.pipeline.context import BatchContext
from lakeidx.pipeline.index_hooks import IndexHooks
from lakeidx.pipeline.turns import EVERY_PARTITION, Turn
from lakeidx.pipeline.write import run_index_write
from lakeidx.table.changes import CommitRequest, Overwrite, decode_changes
from lakeidx.table.commit import commit_changes

#: How often a batch is planned again before the conflict is given to the caller.
MAX_REPLANS = 20
_NAMESPACE = uuid.UUID("5f0f1c5e-8c53-5d0e-9a53-6c616b656964")


def commit_user(table_uri: str, batch_id: str) -> str:
    """The commit user of a batch: the same for every try, different for every batch and table."""
    return f"lakeidx-{uuid.uuid5(_NAMESPACE, f'{table_uri}#{batch_id}')}"


def build_request(
    context: BatchContext, assign: AssignReport, write: WriteReport, first_base: int | None
) -> CommitRequest:
    """The commit request of a written batch.

    first_base   snapshot the first attempt was planned on: an earlier try is looked for from there on
    """
    changes = decode_changes(context.store.get(write.changes_path), write.changes_path)
    overwrite = None
    if context.overwrite == "table":
        overwrite = Overwrite(partitions=None)
    elif context.overwrite == "partitions":
        overwrite = Overwrite(partitions=frozenset(bytes.fromhex(t.partition) for t in assign.targets))
    assigned_on = None
    if assign.assigned_on is not None and overwrite is None:
        assigned_on = {bytes.fromhex(p): buckets for p, buckets in assign.assigned_on.items()}
    return CommitRequest(
        commit_user=commit_user(context.paths.root, context.files.batch_id),
        changes=changes,
        base_snapshot_id=first_base,
        assigned_on=assigned_on,
        alone_since=(assign.base_snapshot_id or 0) if assign.global_index and overwrite is None else None,
        overwrite=overwrite,
    )


def run_commit(context: BatchContext, *, sleep: Callable[[float], None] = time.sleep) -> CommitReport:
    """Commit a batch at most once.

    A conflict (another batch changed the hash index or the touched buckets) starts a new attempt of assignment and write; a
    batch that loses again and again is let go first (`lakeidx.pipeline.turns`).
    errors   CommitConflictError after MAX_REPLANS, CommitUnknownError, UnavailableError
    """
    done = context.files.read(CommitReport)
    if done is not None:
        return done
    turn = Turn(context.store, context.paths, context.files.batch_id, sleep=sleep)
    try:
        return context.files.close(_commit_or_replan(context, turn, sleep))
    finally:
        turn.done()


def _commit_or_replan(context: BatchContext, turn: Turn, sleep: Callable[[float], None]) -> CommitReport:
    started = time.monotonic()
    attempt = context.files.latest_attempt()
    first = attempt
    first_base = context.files.require(AssignReport).base_snapshot_id
    while True:
        assign = context.files.require(AssignReport, attempt=attempt)
        write = context.files.require(WriteReport, attempt=attempt)
        partitions = tuple(sorted({t.partition for t in assign.targets}))
        if assign.global_index:
            # Such batches pass no other one, whatever partitions it touches.
            partitions = (EVERY_PARTITION, *partitions)
        turn.wait(partitions)
        request = build_request(context, assign, write, first_base)
        hooks = IndexHooks(context, assign, request)
        hooks.prepare()
        try:
            result = commit_changes(context.metadata, request, sleep=sleep)
            break
        except CommitConflictError:
            hooks.given_up()
            if attempt - first >= MAX_REPLANS:
                raise
            attempt += 1
            turn.ask(partitions, attempt - first, assign.seconds + write.seconds)
            turn.wait(partitions)
            run_assignment(context, attempt)
            run_index_write(context, attempt)
    hooks.committed(result.snapshot_ids)
    return CommitReport(
        batch_id=context.files.batch_id,
        attempt=attempt,
        snapshot_ids=result.snapshot_ids,
        already=result.already,
        replans=attempt - first,
        seconds=time.monotonic() - started,
    )
