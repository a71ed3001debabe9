"""Place the rows of a batch: in this process if they fit its budget, else in tasks."""

from __future__ import annotations

from dataclasses import replace

from lakeidx.batch.artifacts import IngestReport
from lakeidx.batch.assignment.keyed_batch import read_batch, sourced_parts
from lakeidx.batch.assignment.part_keys import read_keys
from lakeidx.batch.assignment.place_work import PlaceWork
from lakeidx.batch.assignment.placed import Placed
from lakeidx.batch.assignment.room import check_rows_fit, fits_driver
from lakeidx.batch.assignment.shares import place_parts
from lakeidx.batch.assignment.targets import BatchFigures, join_shares, write_share
from lakeidx.batch.context import BatchContext
from lakeidx.batch.index_types import TableIndex
from lakeidx.errors import UnsupportedError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.key_index.port import ExternalState


def place_batch(
    context: BatchContext, ingest: IngestReport, schema: TableSchema, snapshot: Snapshot | None, directory: str
) -> BatchFigures:
    """Place all rows of a batch on a snapshot, and write their targets.

    directory   gets the target files
    errors      UnsupportedError for an overwrite that the index type cannot follow; CommitConflictError when what an index type
                keeps is of a later snapshot; InvalidInputError for a batch that this process has no memory for
    """
    index = TableIndex.of(schema)
    _check_overwrite(context, index)
    holds_keys = index.type is not None and index.type.stays_in_process
    held_keys = snapshot.total_record_count or 0 if holds_keys and snapshot else 0
    parts = len(ingest.parts)
    if not fits_driver(schema, ingest.rows_staged, held_keys, context.driver_bytes):
        # The shuffle to placing tasks, and what they bring home: batches that fit here need none of it.
        from lakeidx.batch.assignment.in_tasks import place_in_tasks

        index.forget(context.paths)
        work = PlaceWork.of(context, schema, snapshot, directory, context.runner.parallelism)
        figures = join_shares(directory, place_in_tasks(context, ingest, work), parts)
        return replace(figures, metrics={**figures.metrics, "placing_tasks": float(work.plan.num_channels)})
    check_rows_fit(schema, ingest.rows_staged)
    work = PlaceWork.of(context, schema, snapshot, directory, 1)
    if index.locator is not None:
        placed = _by_keys(work, ingest)
    else:
        placed = place_parts(work, read_keys(work.staging, ingest, schema), None)
    share = write_share(work.staging, directory, placed, None)
    return join_shares(directory, [share], parts)


def _by_keys(work: PlaceWork, ingest: IngestReport) -> Placed:
    from lakeidx.batch.assignment.by_key_index import place_by_key_index

    with work.index.open(work.metadata.paths) as locator:
        return place_by_key_index(work, read_batch(work.staging, sourced_parts(ingest), work.schema), locator, None)


def _check_overwrite(context: BatchContext, index: TableIndex) -> None:
    if context.overwrite == "partitions" and index.is_global:
        raise UnsupportedError(
            "partitions cannot be overwritten in a table whose keys are unique across partitions: a key may exist in another "
            "partition; overwrite the whole table",
            path=context.paths.root,
        )
    why_not = index.locator.why_no_overwrite if isinstance(index.locator, ExternalState) else ""
    if context.overwrite is not None and why_not:
        raise UnsupportedError(why_not, path=context.paths.root)
