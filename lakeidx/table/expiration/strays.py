"""Snapshots that were put on expired ids by writers that died before they looked (`lakeidx.table.commit.chain`): they go.

Nobody reads them, and no file goes with them: what they add nobody else names, so cleaning orphans finds it, and what they delete
may be in use.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakeidx.format.consumer import encode_hint
from lakeidx.format.snapshot import Snapshot
from lakeidx.table.expiration.apply import DeletedFile
from lakeidx.table.expiration.files_to_delete import Role
from lakeidx.table.expiration.read import is_there, read_consumers
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.stream.consumer import LEASE_PREFIX


def drop_strays(
    metadata: TableMetadata, strays: Sequence[int], oldest: Snapshot, *, dry_run: bool
) -> list[DeletedFile]:
    """Delete snapshot files that do not belong to the history; return them.

    A writer that has not looked yet finds its snapshot gone, and commits once more.
    strays   their ids, ascending
    oldest   the first snapshot of the history
    cost     two requests for each, and five
    """
    if not strays or (not dry_run and not _may_go(metadata, strays, oldest)):
        return []
    paths = [metadata.paths.snapshot_path(i) for i in strays]
    found = [info for path in paths if (info := metadata.store.info(path)) is not None]
    if not dry_run:
        metadata.store.delete_many(paths)
    return [DeletedFile(Role.SNAPSHOT, info.path, info.size) for info in found]


def _may_go(metadata: TableMetadata, strays: Sequence[int], oldest: Snapshot) -> bool:
    """Return False while one of them may be the snapshot that a rollback has brought back from its tag, or a gap may close.

    A rollback holds a lease first, and looks at the hint of the oldest snapshot then; here it is the other way round. While a
    branch is put in the place of snapshots there is no hint of the newest one.
    """
    if metadata.latest_hint() is None:
        return False
    if (metadata.earliest_hint() or 0) < oldest.id:
        metadata.store.put(metadata.paths.earliest, encode_hint(oldest.id))
    held = [first for name, (first, _) in read_consumers(metadata).items() if name.startswith(LEASE_PREFIX)]
    return min(held, default=oldest.id) > strays[-1] and is_there(metadata, oldest)
