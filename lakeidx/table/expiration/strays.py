"""Snapshots that were put on expired ids by writers that died before they looked (`lakeidx.table.commit.chain`): they go.

Nobody reads them, and no file goes with them: what they add nobody else names, so cleaning orphans finds it, and what they delete
may be in use.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakeidx.table.expiration.apply import DeletedFile
from lakeidx.table.expiration.files_to_delete import Role
from lakeidx.table.metadata import TableMetadata


def drop_strays(metadata: TableMetadata, strays: Sequence[int], *, dry_run: bool) -> list[DeletedFile]:
    """Delete snapshot files that do not belong to the history; return them.

    A writer that has not looked yet finds its snapshot gone, and commits once more. While a branch is put in the place of snapshots
    there is no hint of the newest one, and gaps may close: then nothing is done.
    cost   two requests for each
    """
    if not strays or metadata.latest_hint() is None:
        return []
    paths = [metadata.paths.snapshot(i) for i in strays]
    found = [info for path in paths if (info := metadata.store.info(path)) is not None]
    if not dry_run:
        metadata.store.delete_many(paths)
    return [DeletedFile(Role.SNAPSHOT, info.path, info.size) for info in found]
