"""Stage `bucket_assignment`: every staged row gets its (partition, bucket); only key columns are read.

One body for all tables: locate the batch's keys, then place those that are nowhere. What finds keys is the table's index type
(`lakeidx.key_index`), the bucket function in tables of fixed buckets. Which state all this was decided on is part of the report,
and the commit refuses to publish when it is not the state of the table any more.

source   org.apache.paimon.index.HashBucketAssigner, org.apache.paimon.crosspartition.GlobalIndexAssigner,
         org.apache.paimon.bucket, release 1.4.2; org.apache.hudi.index.HoodieIndex, release 1.0.2
"""

from __future__ import annotations

import logging
import time

from lakeidx.batch.artifacts import UPSERT, BucketAssignmentReport, IngestReport
from lakeidx.batch.assignment.placing import check_buckets_fit, place_batch
from lakeidx.batch.assignment.targets import BatchTargets, check_indexed, describe_targets
from lakeidx.batch.context import BatchContext
from lakeidx.batch.index_types import TableIndex, check_index_type
from lakeidx.batch.schema_drift import staged_schema
from lakeidx.batch.target_files import write_numbers
from lakeidx.errors import CommitConflictError, InvalidInputError, NotFoundError
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.table.view import SnapshotView, load_view
from lakeidx.tasks.logs import stage_logs

log = logging.getLogger(__name__)

_TRIES = 10


@stage_logs("bucket_assignment")
def run_bucket_assignment(context: BatchContext, attempt: int = 1) -> BucketAssignmentReport:
    """Assign all rows of a batch; return the report, of an earlier run if the stage has finished.

    attempt   1, or a higher number to assign again after a commit conflict
    errors    InvalidInputError when the batch was assigned in another mode (upsert, overwrite); CorruptFileError when a bucket's
              HASH index is not there; InvalidInputError for a batch that this process has no memory for
    """
    done = context.files.read(BucketAssignmentReport, attempt=attempt)
    if done is not None:
        _check_mode(done, context.overwrite)
        return done
    started = time.monotonic()
    ingest = context.files.require(IngestReport)
    schema = staged_schema(context.metadata, context.files)
    check_index_type(schema)
    placed, latest, view, directory = _place(context, ingest, schema)
    check_buckets_fit(schema, len(placed.places))
    targets, new_buckets = describe_targets(schema, view, placed, fresh=context.overwrite is not None)
    for task, numbers in placed.numbers.items():
        write_numbers(context.files.store, directory, task, numbers)
    counts = placed.counts
    report = BucketAssignmentReport(
        batch_id=context.files.batch_id,
        attempt=attempt,
        base_snapshot_id=None if latest is None else latest.id,
        targets=tuple(targets),
        targets_paths=placed.paths,
        placing_tasks=placed.tasks,
        in_tasks=placed.in_tasks,
        assigned_on=_assigned_on(schema, view, {partition for partition, _ in placed.places}),
        rows=counts.rows,
        inserts=counts.inserts,
        updates=counts.updates,
        deletes=counts.deletes,
        upserts=counts.upserts,
        new_buckets=new_buckets,
        index_type=TableIndex.of(schema).name,
        index_metrics=dict(placed.metrics),
        moves_path=directory if placed.moves else None,
        moved=placed.moved,
        dropped=placed.dropped,
        global_index=placed.is_global,
        by_partition=placed.by_partition,
        overwrite=context.overwrite or UPSERT,
        located_paths=placed.located,
        seconds=time.monotonic() - started,
    )
    return context.files.close(report, attempt=attempt)


def _place(
    context: BatchContext, ingest: IngestReport, schema: TableSchema
) -> tuple[BatchTargets, Snapshot | None, SnapshotView, str]:
    """Place the batch on the newest snapshot; on a newer one when that expires, or the index type's own state is newer.

    returns   also the snapshot, the state of the partitions that get rows, and the folder of the targets' files
    """
    for left in reversed(range(_TRIES)):
        latest, directory = context.metadata.latest_snapshot(), context.files.new_dir("bucket_assignment")
        try:
            placed = place_batch(context, ingest, schema, latest, directory)
            view = load_view(context.metadata, latest, partitions={partition for partition, _ in placed.places})
            if (
                placed.new_hashes is not None
                and context.overwrite is None
                and schema.bucket_mode is BucketMode.HASH_DYNAMIC
            ):
                check_indexed(context.paths, view)
            return placed, latest, view, directory
        except CommitConflictError:
            if not left:
                raise
        except NotFoundError as error:
            if not left or not context.is_of_table(error):
                raise
            log.info("batch %s is assigned again: %s", context.files.batch_id, error)
    raise AssertionError("unreachable")


def _assigned_on(schema: TableSchema, view: SnapshotView, touched: set[bytes]) -> dict[str, dict[int, str]] | None:
    if schema.bucket_mode is not BucketMode.HASH_DYNAMIC:
        return None
    index = view.hash_index()
    return {p.hex(): {b: e.file_name for b, e in index.get(p, {}).items()} for p in sorted(touched)}


def _check_mode(done: BucketAssignmentReport, overwrite: str | None) -> None:
    """Raise InvalidInputError when a batch that was assigned as an upsert comes again as an overwrite, or the other way round."""
    now = overwrite or UPSERT
    if done.overwrite and done.overwrite != now:
        raise InvalidInputError(
            f"batch {done.batch_id!r} ran in mode {done.overwrite}, and is run again in mode {now}: "
            "use a new batch id for this run"
        )
