"""Rolling a table back together with what its index keeps outside the table."""

from __future__ import annotations

from lakeidx.format.schema import TableSchema
from lakeidx.pipeline.index_types import index_folder
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.rollback import RollbackReport, roll_back
from lakeidx.tagging.table_view import forget_commits


def roll_back_table(
    metadata: TableMetadata,
    schema: TableSchema,
    *,
    snapshot_id: int | None = None,
    tag: str | None = None,
    dry_run: bool = False,
) -> RollbackReport:
    """`lakeidx.table.rollback.roll_back`; locations that an index got from the snapshots that go are not believed any more.

    The key state needs nothing: it is of a snapshot, and one that is gone makes it build itself anew.
    errors   see `roll_back`
    """
    planned = roll_back(metadata, schema, snapshot_id=snapshot_id, tag=tag, dry_run=True)
    if dry_run:
        return planned
    forget_commits(metadata.store, index_folder(metadata.paths), after=planned.snapshot_id)
    return roll_back(metadata, schema, snapshot_id=snapshot_id, tag=tag)
