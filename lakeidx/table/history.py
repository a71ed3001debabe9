"""A table's past: snapshots by id and by time, commits, tags and branches, and what became of a snapshot."""

from __future__ import annotations

from bisect import bisect_right

from lakeidx.errors import NotFoundError
from lakeidx.format.snapshot import Snapshot, decode_snapshot
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import TRIES
from lakeidx.table.times import iso_utc


def past_snapshot(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    """Read a snapshot that someone names by its id: one of the history only.

    cost     a listing besides
    errors   NotFoundError also for what a writer put on an id that had expired
    """
    snapshot, ids = metadata.load_snapshot(snapshot_id), metadata.snapshot_ids()
    if ids and snapshot_id < ids[0]:
        raise NotFoundError(
            f"snapshot {snapshot_id} has expired; the file of that name was written later by a writer that had lost "
            f"the race for the id, and is not part of the table; snapshots {ids[0]} to {ids[-1]} exist",
            path=metadata.paths.snapshot_path(snapshot_id),
        )
    return snapshot


def load_commit(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    """Read what a commit changed: the snapshot, or the changelog that outlives it.

    errors   NotFoundError when both have expired
    """
    try:
        return metadata.load_snapshot(snapshot_id)
    except NotFoundError as error:
        path = metadata.paths.changelog_path(snapshot_id)
        try:
            return decode_snapshot(metadata.store.get(path), path)
        except NotFoundError:
            raise error from None


def earliest_commit_id(metadata: TableMetadata) -> int | None:
    """Return the id of the oldest commit whose changes are there: of a snapshot, or of a changelog that outlives it."""
    changelogs = changelog_ids(metadata)
    hint = earliest_changelog_hint(metadata) if changelogs else None
    if hint in changelogs:
        # Those before it are being deleted.
        return hint
    return changelogs[0] if changelogs else metadata.earliest_snapshot_id()


def earliest_changelog_hint(metadata: TableMetadata) -> int | None:
    """Read the id that the hint EARLIEST of long-lived changelogs names; those before it are being deleted, or are deleted."""
    return metadata.read_hint(metadata.paths.changelog_earliest)


def _snapshot_at(metadata: TableMetadata, timestamp_ms: int) -> Snapshot:
    """Find the newest snapshot whose time is at or before `timestamp_ms` (epoch ms)."""
    metadata.latest_snapshot()
    ids = metadata.snapshot_ids()
    # Commit times do not decrease with the id, so a binary search reads few of a long history.
    after = bisect_right(ids, timestamp_ms, key=lambda i: metadata.earlier_snapshot(i).time_millis)
    if not after:
        oldest = f"; the oldest is of {iso_utc(metadata.earlier_snapshot(ids[0]).time_millis)}" if ids else ""
        raise NotFoundError(f"no snapshot at or before {iso_utc(timestamp_ms)}{oldest}", path=metadata.paths.root)
    return metadata.earlier_snapshot(ids[after - 1])


def changelog_ids(metadata: TableMetadata) -> list[int]:
    """Return the ids of the snapshots that have expired and left their changelog, ascending."""
    return metadata.ids_in(metadata.paths.changelog_dir, "changelog-")


def load_tag(metadata: TableMetadata, name: str) -> Snapshot:
    """Read the snapshot a tag keeps; NotFoundError names the tags that exist."""
    path = metadata.paths.tag_path(name)
    try:
        data = metadata.store.get(path)
    except NotFoundError:
        have = ", ".join(tag_names(metadata)) or "none"
        raise NotFoundError(f"tag {name!r} does not exist; tags: {have}", path=path) from None
    return decode_snapshot(data, path)


def tag_names(metadata: TableMetadata) -> list[str]:
    """List the names of all tags, sorted."""
    prefix = "tag-"
    found = (f for f in metadata.store.list(metadata.paths.tag_dir) if f.name.startswith(prefix) and not f.is_dir)
    return sorted(f.name[len(prefix) :] for f in found)


def branch_names(metadata: TableMetadata) -> list[str]:
    """List the names of the table's branches, sorted; also of one whose creation was interrupted."""
    prefix = "branch-"
    found = (f for f in metadata.store.list(metadata.paths.branch_dir) if f.is_dir and f.name.startswith(prefix))
    return sorted(f.name.removeprefix(prefix) for f in found)


def snapshot_at(metadata: TableMetadata, time_ms: int) -> Snapshot:
    """Find the newest snapshot of a time (epoch ms) or before it; again when one that was looked at has expired meanwhile.

    errors   NotFoundError when all are newer; it says of which time the oldest is
    """
    for _ in range(TRIES - 1):
        try:
            return _snapshot_at(metadata, time_ms)
        except NotFoundError as error:
            if error.path == metadata.paths.root:
                raise
    return _snapshot_at(metadata, time_ms)


def what_exists(metadata: TableMetadata) -> str:
    """Say which snapshots can be read, and of which time the oldest is."""
    for snapshot in metadata.snapshots():
        newest = metadata.latest_snapshot_id()
        return f"snapshots {snapshot.id} to {newest} exist, the oldest of {iso_utc(snapshot.time_millis)}"
    return "the table has no snapshot"


def how_gone(metadata: TableMetadata, snapshot: Snapshot) -> str | None:
    """Say what became of a snapshot that neither the history nor a tag keeps; None when one of them does.

    An expiry deletes the snapshot last, after it has moved EARLIEST.
    """
    if any(load_tag(metadata, name).identity == snapshot.identity for name in tag_names(metadata)):
        return None
    if snapshot.id > (metadata.latest_snapshot_id() or 0):
        return "was rolled back"
    if snapshot.id < (metadata.earliest_snapshot_id() or 0):
        return "expired"
    try:
        return None if metadata.load_snapshot(snapshot.id).identity == snapshot.identity else "was rolled back"
    except NotFoundError:
        return "expired"
