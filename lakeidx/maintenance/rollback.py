"""Rolling a table back together with what its index keeps outside the table."""

from __future__ import annotations

from lakeidx.batch.artifacts import BatchFiles
from lakeidx.batch.index_types import index_folder
from lakeidx.batch.stages.rerun import supersede_lost
from lakeidx.batch.staging_walk import batch_ids
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.key_index.table_view import forget_commits
from lakeidx.table.expiration.rollback import RollbackReport, roll_back
from lakeidx.table.metadata import TableMetadata
from lakeidx.tasks.in_parallel import in_parallel


def roll_back_table(
    metadata: TableMetadata,
    schema: TableSchema,
    *,
    snapshot_id: int | None = None,
    tag: str | None = None,
    dry_run: bool = False,
) -> RollbackReport:
    """Roll the table back, and the locations an index recorded for the deleted snapshots.

    The key state needs nothing: it is of a snapshot, and one that is gone makes it rebuild itself. Batches whose snapshots go
    may be run again under their ids.
    errors   see `roll_back`
    """
    planned = roll_back(metadata, schema, snapshot_id=snapshot_id, tag=tag, dry_run=True)
    if dry_run:
        return planned
    forget_commits(metadata.store, index_folder(metadata.paths), after=planned.snapshot_id)
    report = roll_back(metadata, schema, snapshot_id=snapshot_id, tag=tag)
    _supersede_batches(metadata)
    return report


def _supersede_batches(metadata: TableMetadata) -> list[str]:
    """Mark batches whose rows are no longer in the table as superseded; returns their ids.

    A batch that comes again finds that out itself, as long as its snapshot id tells; after that only this note does.
    cost   two small requests per batch that has staging
    """

    def supersede(batch_id: str) -> bool:
        files = BatchFiles(metadata.store, metadata.paths, batch_id)
        return supersede_lost(metadata, files, None) is not None

    ids = batch_ids(metadata.store, metadata.paths)
    return [i for i, gone in zip(ids, in_parallel(supersede, ids), strict=True) if gone]
