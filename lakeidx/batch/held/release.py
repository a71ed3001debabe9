"""Release of held batches: committed as any other, planned again where others were faster."""

from __future__ import annotations

from lakeidx.batch.artifacts import BatchFiles, HeldNote
from lakeidx.batch.committed_batch import BatchResult
from lakeidx.batch.context import BatchContext, make_context
from lakeidx.batch.held.hold import begin_release, require_held
from lakeidx.batch.landed_files import mark_committed
from lakeidx.batch.upsert import OnStage, finish_batch, write_attempt
from lakeidx.table.metadata import TableMetadata
from lakeidx.tasks.runner import Runner


def held_context(
    metadata: TableMetadata, batch_id: str, *, runner: Runner | None = None
) -> tuple[BatchContext, HeldNote]:
    """Return the context of a held batch as it was begun, without limits, and why it is held; NotFoundError."""
    note = require_held(BatchFiles(metadata.store, metadata.paths, batch_id), metadata.paths.root)
    made = make_context(metadata, batch_id, runner=runner, overwrite=note.overwrite, limits={}, where=note.replaces)
    return made, note


def release_batch(
    metadata: TableMetadata, batch_id: str, *, runner: Runner | None = None, on_stage: OnStage | None = None
) -> BatchResult:
    """Commit a batch that is held; what others have committed since is in the table it is placed in, and planned on again.

    errors   NotFoundError when it is not held; InvalidInputError when it was discarded; CommitConflictError when its rows were
             made from rows of the table that have changed since
    """
    context, note = held_context(metadata, batch_id, runner=runner)
    release_held(context, note)
    result = finish_batch(context, on_stage or (lambda stage: None))
    mark_committed(metadata.store, metadata.paths, result.ingest.sources, batch_id)
    return result


def release_held(context: BatchContext, note: HeldNote) -> None:
    """Decide that a held batch is committed, and plan it again where the snapshot it was planned on is no part of the history."""
    if begin_release(context, note):
        write_attempt(context, context.files.latest_attempt() + 1)
