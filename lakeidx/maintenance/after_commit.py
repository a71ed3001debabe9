"""Work that a table's options require after the commit of a batch: partitions marked done (``partition.end-input-to-done``), and
compactions (``commit.force-compact``, ``full-compaction.delta-commits``, ``lookup-wait``).

Java compacts in the writer, before the commit; here the batch is committed first and a COMPACT snapshot follows. When the process
dies between the two, the batch is in the table, and the same batch run again compacts. ``write-only`` tables are left to the
compaction's own job.

``lookup-wait`` counts when it is set to true: rows of tables whose level 0 readers pass over are seen, and their changelog is
there, when the batch returns. With ``lookup-compact`` = gentle a bucket waits until its level 0 has
``lookup-compact.max-interval`` runs, or universal compaction takes it.

source   org.apache.paimon.CoreOptions COMMIT_FORCE_COMPACT, FULL_COMPACTION_DELTA_COMMITS, WRITE_ONLY, LOOKUP_WAIT,
         LOOKUP_COMPACT, release 1.4.2
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeidx.batch.artifacts import BucketAssignmentReport
from lakeidx.errors import NotFoundError
from lakeidx.format.snapshot import CommitKind
from lakeidx.table.metadata import TableMetadata
from lakeidx.tasks.runner import Runner

if TYPE_CHECKING:
    from lakeidx.batch.context import BatchContext
    from lakeidx.maintenance.compaction import CompactionReport


def compact_after_commit(
    metadata: TableMetadata, runner: Runner, assign: BucketAssignmentReport | None = None
) -> CompactionReport | None:
    """Compact, and mark partitions done, when the table's options request it after a batch; again it does nothing more.

    assign   of the batch, whose partitions are done with it where option ``partition.end-input-to-done`` says so
    returns  None when nothing was due
    errors   those of `run_compaction`; the batch stays committed
    """
    schema = metadata.seen_schema()
    options = schema.table_options
    if options.partition_end_input_to_done and assign is not None and schema.partition_keys:
        from lakeidx.maintenance.partitions.done import mark_batch_done

        mark_batch_done(metadata, assign)
    every = options.full_compaction_delta_commits
    waits = options.lookup_wait is True and options.needs_lookup
    if options.write_only or not (options.commit_force_compact or every is not None or waits):
        return None
    # Most batches end here: what merges files is imported by those that go on.
    from lakeidx.maintenance.compaction import FULL_COMPACT_USER, run_compaction

    if every is not None and _commits_since_full_compaction(metadata, every, FULL_COMPACT_USER) >= every:
        return run_compaction(metadata, runner, full=True)
    if options.commit_force_compact or waits:
        return run_compaction(metadata, runner, gentle=not options.commit_force_compact)
    return None


def table_with(context: BatchContext) -> BatchContext:
    """Return a batch as it would be in its table, in memory, with the compaction that would follow; see `commit_in_memory`."""
    from lakeidx.batch.held.trial import commit_in_memory
    from lakeidx.batch.upsert import write_attempt

    trial = commit_in_memory(context, write_attempt)
    compact_after_commit(trial.metadata, trial.runner)
    return trial


def _commits_since_full_compaction(metadata: TableMetadata, enough: int, full_user: str) -> int:
    """Count snapshots that added rows since the last full compaction of lakeidx (`full_user`), counted up to `enough`.

    When the history has expired before one is found, there have been enough: the next one is found again.
    """
    count, snapshot_id = 0, metadata.latest_snapshot_id() or 0
    while snapshot_id > 0 and count < enough:
        try:
            snapshot = metadata.load_snapshot(snapshot_id)
        except NotFoundError:
            return enough
        if snapshot.commit_kind is CommitKind.COMPACT:
            if snapshot.commit_user.startswith(full_user):
                break
        elif snapshot.commit_kind is not CommitKind.ANALYZE:
            count += 1
        snapshot_id -= 1
    return count
