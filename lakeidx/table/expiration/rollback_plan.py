"""Plans of deleting a tag and of rolling back: decisions as data, no I/O.

source   org.apache.paimon.utils.TagManager, org.apache.paimon.operation.TagDeletion, org.apache.paimon.table.RollbackHelper,
         release 1.4.2. Here a rollback also takes the files that only the dropped snapshots used; Java leaves them as
         orphans.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from lakeidx.errors import InvalidInputError
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.snapshot import Snapshot
from lakeidx.table.expiration.files_to_delete import (
    DataFileKey,
    ExpirePlan,
    FileToDelete,
    Role,
    SnapshotMetadata,
    children_first,
    data_file_key,
    data_files_to_delete,
    metadata_to_delete,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TagInputs:
    """Metadata that is read to delete the only tag of a snapshot that has expired.

    tag         the tag's metadata; `entries` its live data files
    neighbours  metadata of the tag before, and of the tag or snapshot after, whichever exist (`tag_neighbours`)
    used        live data files of the neighbours; None when unreadable
    """

    tag: SnapshotMetadata
    entries: Sequence[ManifestEntry] | None
    neighbours: Sequence[SnapshotMetadata] = ()
    used: AbstractSet[DataFileKey] | None = frozenset()


def tag_neighbours(tag_id: int, tag_ids: Iterable[int], earliest: int | None) -> tuple[int | None, int | None]:
    """Read what may share files with a tag whose snapshot has expired.

    tag_id     snapshot id of the tag
    tag_ids    snapshot ids of all tags
    earliest   oldest snapshot
    returns    (snapshot id of the tag before or None, snapshot id of the nearest tag or snapshot after or None)
    """
    others = set(tag_ids) - {tag_id}
    left = max((t for t in others if t < tag_id), default=None)
    after = [t for t in others if t > tag_id] + ([earliest] if earliest is not None and earliest > tag_id else [])
    return left, min(after, default=None)


def plan_delete_tag(name: str, inputs: TagInputs | None) -> ExpirePlan:
    """Plan the deletions of a tag.

    inputs   None when another tag names the snapshot, or it has not expired: then only the tag file goes
    order    the tag file first: from then on no one can come upon a tag with missing files
    """
    tag_file = (FileToDelete(Role.TAG, name),)
    if inputs is None:
        return ExpirePlan(phases=(tag_file,))
    notes: list[str] = []
    data: list[FileToDelete] = []
    if inputs.entries is None or inputs.used is None:
        notes.append(f"data files of tag {name}: its manifests or those of its neighbours cannot be read")
    else:
        data = [f for e in inputs.entries if data_file_key(e) not in inputs.used for f in data_files_to_delete(e)]
    metadata: list[FileToDelete] = []
    names = [m.names() for m in inputs.neighbours]
    if any(n is None for n in names):
        notes.append(f"metadata files of tag {name}: those of a neighbour cannot be read")
    else:
        # Changelogs are not a tag's: they went, or go, with their snapshot.
        metadata = metadata_to_delete(inputs.tag, {x for n in names for x in n or ()}, changelog=False)
    return ExpirePlan(phases=(tag_file, tuple(data), *children_first(metadata)), notes=tuple(notes))


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackInputs:
    """Metadata that is read to go back to a snapshot.

    target        metadata of the snapshot (or tag) to go back to; `target_exists`: its snapshot file is there
    dropped       metadata of the snapshots after it, ascending
    damaged       ids of those after it that cannot be read: which files they have is not known
    dropped_tags  tag name -> metadata, of the tags of later snapshots
    changelogs    ids of all long-lived changelogs
    entries       all entries of the deltas of `dropped` and of their changelogs, and live entries of the oldest dropped
                  snapshot (when the target has expired) and of `dropped_tags`
    used          live data files of the target, of every tag that stays, and names in the deltas of the snapshots that stay
    kept          metadata of the tags that stay
    earliest      oldest snapshot before the rollback
    """

    target: SnapshotMetadata
    target_exists: bool
    dropped: Sequence[SnapshotMetadata]
    damaged: Sequence[int] = ()
    dropped_tags: Mapping[str, SnapshotMetadata] = field(default_factory=dict)
    changelogs: Sequence[int] = ()
    entries: Sequence[ManifestEntry] = ()
    changelog_entries: Sequence[ManifestEntry] = ()
    used: AbstractSet[DataFileKey] = frozenset()
    kept: Sequence[SnapshotMetadata] = ()


def plan_rollback(inputs: RollbackInputs) -> ExpirePlan:
    """Plan the steps that go back to a snapshot.

    order    restore the snapshot file from its tag if it is missing; LATEST; later snapshots, newest first, one by one;
             later long-lived changelogs; later tags, newest first; then the files that only those used. Whoever reads a
             dropped snapshot in the meantime loses its files, as in Java
    errors   InvalidInputError when metadata of what stays cannot be read
    """
    target_id = inputs.target.snapshot.id
    names = [m.names() for m in (inputs.target, *inputs.kept)]
    if any(n is None for n in names):
        raise InvalidInputError(
            f"cannot roll back to snapshot {target_id}: its metadata or those of a tag cannot be read"
        )
    kept = {x for n in names for x in n or ()}
    unneeded: dict[DataFileKey, list[FileToDelete]] = {}
    for entry in inputs.entries:
        key = data_file_key(entry)
        if key not in inputs.used:
            unneeded[key] = data_files_to_delete(entry)
    for entry in inputs.changelog_entries:
        if entry.kind is FileKind.ADD:
            unneeded.setdefault(data_file_key(entry), data_files_to_delete(entry, Role.CHANGELOG))
    metadata: list[FileToDelete] = []
    for m in (*inputs.dropped, *inputs.dropped_tags.values()):
        metadata += metadata_to_delete(m, kept)
    later_changelogs = sorted((i for i in inputs.changelogs if i > target_id), reverse=True)
    earlier_changelogs = [i for i in inputs.changelogs if i <= target_id]
    changelog_hint = None
    if later_changelogs:
        changelog_hint = max(earlier_changelogs, default=-1)
    newest_first = sorted((*(m.snapshot.id for m in inputs.dropped), *inputs.damaged), reverse=True)
    tags = sorted(inputs.dropped_tags, key=lambda n: inputs.dropped_tags[n].snapshot.id, reverse=True)
    return ExpirePlan(
        snapshots_gone=tuple(newest_first),
        latest_hint=target_id,
        restore_snapshot=None if inputs.target_exists else _without_changelog(inputs.target.snapshot),
        changelog_hint=changelog_hint,
        phases=(
            *((FileToDelete(Role.SNAPSHOT, str(i)),) for i in newest_first),
            tuple(FileToDelete(Role.LONG_LIVED_CHANGELOG, str(i)) for i in later_changelogs),
            *((FileToDelete(Role.TAG, name),) for name in tags),
            tuple(f for files in unneeded.values() for f in files),
            *children_first(metadata),
        ),
        notes=tuple(
            f"files of damaged snapshot {i}: cleaning orphans finds those that nothing else has" for i in inputs.damaged
        ),
    )


def _without_changelog(snapshot: Snapshot) -> Snapshot:
    """Rebuild the snapshot of a tag without its changelog, which was deleted when the snapshot expired."""
    return replace(
        snapshot, changelog_manifest_list=None, changelog_manifest_list_size=None, changelog_record_count=None
    )
