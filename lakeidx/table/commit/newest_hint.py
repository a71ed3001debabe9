"""The hint LATEST: what names an expired snapshot there makes a stray one the newest for everybody.

Readers take the snapshot that the hint names for the newest one unless the next id is there. Where the named one has expired they
list, until a writer that was overtaken puts a snapshot on that id and dies before it looked (`lakeidx.table.commit.chain`): that
one is read, and committed upon, and what others had acknowledged is lost. So who puts the hint looks afterwards whether the
snapshot is there, and an expiry looks at the hint after it has deleted: one of the two sees the other.
"""

from __future__ import annotations

from lakeidx.format.consumer import encode_hint
from lakeidx.table.metadata import TableMetadata

_TRIES = 5


def put_newest_hint(metadata: TableMetadata, newest: int) -> None:
    """Name a snapshot in the hint; the newest one there is when that one has expired before the hint was there.

    cost   two requests
    """
    for _ in range(_TRIES):
        # One that a power cut took, or emptied, is passed over by readers: the listing tells.
        metadata.store.put(metadata.paths.latest, encode_hint(newest))
        if metadata.has_snapshot(newest):
            return
        newest = max(metadata.listed_snapshot_ids(), default=newest)


def renew_passed_hint(metadata: TableMetadata, oldest: int) -> None:
    """Name the newest snapshot in a hint that names one of those that have just expired.

    oldest   the first snapshot that has not expired
    cost     one request; three more where the hint was late
    """
    hint = metadata.latest_hint()
    # None: a branch is being put in the place of snapshots.
    if hint is not None and hint < oldest:
        put_newest_hint(metadata, max(metadata.listed_snapshot_ids(), default=oldest))
