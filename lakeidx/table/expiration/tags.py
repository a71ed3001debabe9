"""Tags: names that keep a snapshot's files after the snapshot has expired.

source   org.apache.paimon.utils.TagManager, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import uuid4

from lakeidx.errors import CommitUnknownError, InvalidInputError, NotFoundError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.format.tag import Tag, encode_tag, now_local_ns
from lakeidx.table.expiration.apply import DeletedFile, apply_plan, measure_files
from lakeidx.table.expiration.changelog import names_of_changelogs
from lakeidx.table.expiration.files_to_delete import SnapshotMetadata
from lakeidx.table.expiration.orphans import names_in_branches
from lakeidx.table.expiration.read import read_live, read_metadata, read_tags, used_files
from lakeidx.table.expiration.rollback_plan import TagInputs, plan_delete_tag, tag_neighbours
from lakeidx.table.expiration.success_files import mark_tag
from lakeidx.table.history import past_snapshot
from lakeidx.table.metadata import TableMetadata, is_same


@dataclass(frozen=True, slots=True, kw_only=True)
class TagReport:
    """Report of the deletion of a tag, or in a dry run its plan; see `lakeidx.table.expiration.expire.ExpireReport`."""

    name: str
    dry_run: bool
    files: tuple[DeletedFile, ...] = ()
    notes: tuple[str, ...] = ()


def create_tag(
    metadata: TableMetadata,
    name: str,
    *,
    snapshot_id: int | None = None,
    retained_ms: int | None = None,
    replace: bool = False,
) -> Tag:
    """Name a snapshot, by default the newest.

    replace       let a tag of that name name this snapshot from now on; the files that only it kept go
    retained_ms   delete the tag after that time; None: as option ``tag.default-time-retained`` says, else never
    errors        InvalidInputError when the name is taken, empty or a number (it could not be distinguished from a snapshot id);
                  NotFoundError when the snapshot does not exist, or expired while the tag was made
    """
    if name.strip().isdigit():
        raise InvalidInputError(f"a tag name must not be a number: {name!r}")
    if retained_ms is None:
        retained_ms = metadata.latest_schema().table_options.tag_default_time_retained
    snapshot = _snapshot(metadata, snapshot_id)
    tag = put_tag(metadata, name, snapshot, retained_ms)
    if tag is None and replace:
        return _replace_tag(metadata, name, snapshot, retained_ms)
    if tag is None:
        raise InvalidInputError(f"tag {name!r} exists already", path=metadata.paths.tag_path(name))
    return tag


def _replace_tag(metadata: TableMetadata, name: str, snapshot: Snapshot, retained_ms: int | None) -> Tag:
    """Let a tag name another snapshot: the old one keeps its files under a name of its own until the new one is there."""
    path, old = metadata.paths.tag_path(name), f"{name}-replaced-{uuid4()}"
    kept = metadata.store.get(path)
    metadata.store.put_if_absent(metadata.paths.tag_path(old), kept)
    new = _tag(snapshot, retained_ms)
    metadata.store.put(path, encode_tag(new))
    if _went(metadata, snapshot):
        metadata.store.put(path, kept)
        metadata.store.delete(metadata.paths.tag_path(old))
        raise _expired(snapshot, path)
    mark_tag(metadata, name)
    delete_tag(metadata, metadata.latest_schema(), old)
    return new


def rename_tag(metadata: TableMetadata, name: str, to: str) -> Tag:
    """Give a tag another name; at each moment one of the two is there.

    errors   NotFoundError naming the tags; InvalidInputError for a name that is taken or a number
    """
    if to.strip().isdigit():
        raise InvalidInputError(f"a tag name must not be a number: {to!r}")
    tags = read_tags(metadata)
    if name not in tags:
        have = ", ".join(tags) or "none"
        raise NotFoundError(f"tag {name!r} does not exist; tags: {have}", path=metadata.paths.tag_path(name))
    data = metadata.store.get(metadata.paths.tag_path(name))
    if not metadata.store.put_if_absent(metadata.paths.tag_path(to), data):
        raise InvalidInputError(f"tag {to!r} exists already", path=metadata.paths.tag_path(to))
    metadata.store.delete(metadata.paths.tag_path(name))
    mark_tag(metadata, to)
    mark_tag(metadata, name, there=False)
    return tags[name]


def put_tag(metadata: TableMetadata, name: str, snapshot: Snapshot, retained_ms: int | None) -> Tag | None:
    """Write a tag file; None when a tag of that name exists.

    errors   NotFoundError when the snapshot expired, or was rolled back, while the tag was made
    """
    tag = _tag(snapshot, retained_ms)
    path = metadata.paths.tag_path(name)
    data = encode_tag(tag)
    try:
        created = metadata.store.put_if_absent(path, data)
    except CommitUnknownError:
        # The store did not say who put the file: what is in it does.
        if not metadata.store.exists(path):
            raise
        created = metadata.store.get(path) == data
    if not created:
        return None
    if _went(metadata, snapshot):
        metadata.store.delete(path)
        raise _expired(snapshot, path)
    mark_tag(metadata, name)
    return tag


def _tag(snapshot: Snapshot, retained_ms: int | None) -> Tag:
    retained = None if retained_ms is None else retained_ms * 1_000_000
    made = None if retained is None else now_local_ns()
    return Tag(snapshot=snapshot, create_time_ns=made, time_retained_ns=retained)


def _went(metadata: TableMetadata, snapshot: Snapshot) -> bool:
    """Return True when a snapshot expired, or was rolled back, while it was tagged.

    An expiry that began before the tag was put does not know of it; it names what goes in EARLIEST before it begins, and looks for
    new tags after that. A hint that names no snapshot is of a history that a fast-forwarded branch has replaced.
    """
    earliest = metadata.earliest_hint() or 0
    expiring = earliest > snapshot.id and metadata.has_snapshot(earliest)
    # After a rollback another snapshot may have the id.
    return expiring or not is_same(metadata, snapshot)


def _expired(snapshot: Snapshot, path: str) -> NotFoundError:
    return NotFoundError(
        f"snapshot {snapshot.id} expired, or was rolled back, while it was tagged; tag a newer one", path=path
    )


def _snapshot(metadata: TableMetadata, snapshot_id: int | None) -> Snapshot:
    if snapshot_id is not None:
        return past_snapshot(metadata, snapshot_id)
    latest = metadata.latest_snapshot()
    if latest is None:
        raise NotFoundError("the table has no snapshot to tag", path=metadata.paths.root)
    return latest


def delete_tag(
    metadata: TableMetadata,
    schema: TableSchema,
    name: str,
    *,
    dry_run: bool = False,
    gone_before: Collection[str] = (),
) -> TagReport:
    """Delete a tag, and the files that only it kept.

    gone_before   tags to take as deleted already (several tags in a dry run)
    errors        NotFoundError naming the tags there are
    """
    tags = {n: t for n, t in read_tags(metadata).items() if n not in gone_before}
    if name not in tags:
        have = ", ".join(tags) or "none"
        raise NotFoundError(f"tag {name!r} does not exist; tags: {have}", path=metadata.paths.tag_path(name))
    tag_id = tags[name].snapshot.id
    shared = any(t.snapshot.id == tag_id for n, t in tags.items() if n != name)
    kept = shared or metadata.has_snapshot(tag_id)
    inputs = None if kept else _inputs(metadata, tags[name].snapshot, [t.snapshot for t in tags.values()])
    plan = plan_delete_tag(name, inputs)
    if inputs is not None:
        plan = plan.sparing(names_in_branches(metadata) | names_of_changelogs(metadata))
    gone = measure_files(plan, metadata, schema)
    if not dry_run:
        clean = schema.table_options.snapshot_clean_empty_directories
        apply_plan(plan, metadata, schema, clean_directories=clean)
        mark_tag(metadata, name, there=False)
    return TagReport(name=name, dry_run=dry_run, files=tuple(gone), notes=plan.notes)


def _inputs(metadata: TableMetadata, snapshot: Snapshot, tagged: Sequence[Snapshot]) -> TagInputs:
    by_id = {s.id: s for s in tagged}
    left, right = tag_neighbours(snapshot.id, by_id, metadata.earliest_snapshot_id())
    neighbours: list[SnapshotMetadata] = []
    for neighbour in (left, right):
        if neighbour is not None:
            found = by_id[neighbour] if neighbour in by_id else metadata.load_snapshot(neighbour)
            neighbours.append(read_metadata(metadata, found))
    own = read_metadata(metadata, snapshot)
    return TagInputs(
        tag=own, entries=read_live(metadata, own), neighbours=neighbours, used=used_files(metadata, neighbours)
    )
