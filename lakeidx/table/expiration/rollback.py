"""Going back to a snapshot or tag: later snapshots, tags and the files that only they used go.

source   org.apache.paimon.table.{AbstractFileStoreTable#rollbackTo, RollbackHelper}, release 1.4.2; what differs is said in
         `lakeidx.table.expiration.rollback_plan`
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from lakeidx.errors import CommitConflictError, InvalidInputError, LakeIdxError, NotFoundError
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.table.expiration.apply import DeletedFile, apply_plan, measure_files
from lakeidx.table.expiration.files_to_delete import DataFileKey, ExpirePlan, data_file_key
from lakeidx.table.expiration.orphans import names_in_branches
from lakeidx.table.expiration.read import (
    read_all_metadata,
    read_entries,
    read_live,
    read_metadata,
    read_snapshots_to_drop,
    read_tags,
    used_files,
)
from lakeidx.table.expiration.rollback_plan import RollbackInputs, plan_rollback
from lakeidx.table.history import changelog_ids, load_tag, past_snapshot, tag_names
from lakeidx.table.metadata import TableMetadata, is_same
from lakeidx.table.stream.consumer import StreamConsumer
from lakeidx.table.stream.position import Position
from lakeidx.table.times import iso_utc

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackReport:
    """Report of a rollback, or in a dry run its plan.

    snapshot_id   the newest snapshot now
    snapshots     ids that went, newest first
    tags          names that went
    restored      the snapshot had expired and came back from its tag
    notes         files that were left as orphans, and why
    """

    dry_run: bool
    snapshot_id: int
    snapshots: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    restored: bool = False
    files: tuple[DeletedFile, ...] = ()
    notes: tuple[str, ...] = ()


def roll_back(
    metadata: TableMetadata,
    schema: TableSchema,
    *,
    snapshot_id: int | None = None,
    tag: str | None = None,
    dry_run: bool = False,
) -> RollbackReport:
    """Make a snapshot, or the one a tag names, the newest again; files of branches stay. No writer may be at work in the meantime.

    An expiry may be: a consumer of its own keeps what the rollback goes back to.
    errors   InvalidInputError unless exactly one is named; NotFoundError for one that does not exist; CommitConflictError for one
             that is being expired, and when another rollback goes further back; CorruptFileError
    """
    if (snapshot_id is None) == (tag is None):
        raise InvalidInputError("name either a snapshot or a tag to roll back to")
    target = past_snapshot(metadata, snapshot_id) if snapshot_id is not None else load_tag(metadata, tag or "")
    if dry_run:
        return _roll_back(metadata, schema, target, dry_run=True)
    with StreamConsumer(metadata) as kept:
        kept.record(Position(target.id - 1))
        _check_stays(metadata, target, tagged=tag is not None)
        return _roll_back(metadata, schema, target, dry_run=False)


def _check_stays(metadata: TableMetadata, target: Snapshot, *, tagged: bool) -> None:
    """Refuse a snapshot that an expiry which started before the read lease deletes, or had started to delete when it died.

    An expiry says in its hint what goes, and looks at consumers then (`lakeidx.table.expiration.plan`). The snapshot of a tag
    comes back when the expiry has taken it away, not before, and not while something else lies under its name.
    """
    there = metadata.has_snapshot(target.id)
    if tagged and not there:
        return
    # The newest one may be damaged, and be what the rollback is to take away.
    earliest, newest = metadata.earliest_hint() or 0, max(metadata.snapshot_ids(), default=0)
    # A hint beyond the newest snapshot is of a history that a fast-forwarded branch has replaced.
    if target.id < earliest <= newest or not there or target.id in metadata.stray_snapshot_ids():
        other = f"roll back to snapshot {max(earliest, target.id + 1)} or a newer one, or to a tag"
        raise CommitConflictError(
            f"snapshot {target.id} is being expired, or its expiry was interrupted: "
            f"{'run the expiry again, then roll back' if tagged else other}",
            path=metadata.paths.snapshot_path(target.id),
            snapshot_id=target.id,
        )


def _roll_back(metadata: TableMetadata, schema: TableSchema, target: Snapshot, *, dry_run: bool) -> RollbackReport:
    snapshots, damaged = read_snapshots_to_drop(metadata, target.id)
    tags = {n: t.snapshot for n, t in read_tags(metadata).items()}
    dropped_tags = {n: s for n, s in tags.items() if s.id > target.id}
    plan = _plan(metadata, target, snapshots, damaged, tags, dropped_tags).sparing(names_in_branches(metadata))
    gone = measure_files(plan, metadata, schema)
    late: list[str] = []
    if not dry_run:
        _drop_strays(metadata)
        apply_plan(plan, metadata, schema)
        _drop_late_snapshots(metadata, target)
        late = _drop_late_tags(metadata, target)
        if not metadata.has_snapshot(target.id):
            raise CommitConflictError(
                f"another rollback, to an older snapshot than {target.id}, was made at the same time",
                path=metadata.paths.root,
                snapshot_id=target.id,
            )
        newest = metadata.latest_schema()
        if newest.table_options.writes_iceberg:
            from lakeidx.table.iceberg.publish import publish_iceberg

            publish_iceberg(metadata, newest, target.id)
    return RollbackReport(
        dry_run=dry_run,
        snapshot_id=target.id,
        snapshots=plan.snapshots_gone,
        tags=(*dropped_tags, *late),
        restored=plan.restore_snapshot is not None,
        files=tuple(gone),
        notes=plan.notes,
    )


def _drop_strays(metadata: TableMetadata) -> None:
    """Delete snapshots before a gap: one above the tag would be the newest after the rollback.

    errors   CommitConflictError while the gap may be that of a branch which is being put in the place of snapshots
    """
    strays = metadata.stray_snapshot_ids()
    if strays and metadata.latest_hint() is None:
        raise CommitConflictError(
            f"snapshots after {strays[-1]} and the LATEST hint are missing, as during the fast-forward of a branch: roll back "
            "when it has ended, and commit other batches after that",
            path=metadata.paths.snapshot_path(strays[-1]),
            snapshot_id=strays[-1],
        )
    metadata.store.delete_many([metadata.paths.snapshot_path(i) for i in strays])


def _drop_late_tags(metadata: TableMetadata, target: Snapshot) -> list[str]:
    """Delete tags that were put on dropped snapshots during the rollback; return their names.

    One that is put later finds its snapshot gone (`lakeidx.table.expiration.tags.put_tag`).
    """
    late = [
        n for n, t in read_tags(metadata).items() if t.snapshot.id > target.id and not is_same(metadata, t.snapshot)
    ]
    for name in late:
        log.warning("tag %r was put on a snapshot that was just rolled back; deleting it, too", name)
    metadata.store.delete_many([metadata.paths.tag_path(name) for name in late])
    return late


def _drop_late_snapshots(metadata: TableMetadata, target: Snapshot) -> None:
    """Delete snapshots that a writer committed on top of the dropped ones during the rollback; their files become orphans.

    A writer that built on the target itself, after the last dropped one was gone, is no late one.
    """
    later = [i for i in metadata.listed_snapshot_ids() if i > target.id]
    first_missing = next(
        (i for i in range(target.id + 1, (later[-1] if later else target.id) + 1) if i not in later), None
    )
    for snapshot_id in reversed(later):
        if first_missing is not None and snapshot_id > first_missing:
            log.warning(
                "snapshot %d was written on a snapshot that was just rolled back; deleting it, too", snapshot_id
            )
            metadata.store.delete(metadata.paths.snapshot_path(snapshot_id))


def _why_files_are_missing(metadata: TableMetadata, target: Snapshot, tags: Sequence[str]) -> LakeIdxError:
    """Return the error of a rollback that cannot tell which files stay in use.

    tags   that stay
    """
    there = tag_names(metadata)
    gone = [n for n in tags if n not in there]
    if gone:
        return CommitConflictError(
            f"tag {gone[0]!r} was deleted while the rollback to snapshot {target.id} was planned: roll back again",
            path=metadata.paths.root,
        )
    ids = metadata.snapshot_ids()
    if target.id not in ids and all(load_tag(metadata, n).identity != target.identity for n in there):
        have = f"to one of snapshots {ids[0]} to {ids[-1]}, or to a tag" if ids else "to a tag"
        return NotFoundError(
            f"snapshot {target.id} of {iso_utc(target.time_millis)} expired while the rollback was planned; nothing was "
            f"changed: roll back {have}",
            path=metadata.paths.root,
            snapshot_id=target.id,
        )
    named = ", ".join(map(repr, tags))
    return InvalidInputError(
        f"cannot roll back to snapshot {target.id}: manifests of it{f' or of tags {named}' if named else ''} are missing, so "
        f"the files that stay in use are not known: run lakeidx verify, {'delete a damaged tag, ' if named else ''}or roll "
        "back to another snapshot",
        path=metadata.paths.root,
    )


def _plan(
    metadata: TableMetadata,
    target: Snapshot,
    snapshots: dict[int, Snapshot],
    damaged: list[int],
    tags: dict[str, Snapshot],
    dropped_tags: dict[str, Snapshot],
) -> ExpirePlan:
    own = read_metadata(metadata, target)
    dropped = read_all_metadata(metadata, [s for i, s in snapshots.items() if i > target.id])
    retained = read_all_metadata(metadata, [s for i, s in snapshots.items() if i <= target.id])
    tag_metadata = {n: read_metadata(metadata, s) for n, s in dropped_tags.items()}
    kept = read_all_metadata(metadata, [s for n, s in tags.items() if n not in dropped_tags])
    used = used_files(metadata, [own, *kept])
    if used is None:
        raise _why_files_are_missing(metadata, target, [n for n in tags if n not in dropped_tags])
    keys: set[DataFileKey] = set(used)
    for state in retained:
        keys |= {data_file_key(e) for e in read_entries(metadata, state.delta) or ()}
    entries: list[ManifestEntry] = []
    for state in dropped:
        entries += read_entries(metadata, state.delta) or ()
    if target.id not in snapshots and dropped:
        # What lay between the tag and the oldest snapshot was added by deltas that have expired.
        entries += read_live(metadata, dropped[0]) or ()
    for state in tag_metadata.values():
        entries += read_live(metadata, state) or ()
    changelog = [e for state in dropped for e in read_entries(metadata, state.changelog) or ()]
    return plan_rollback(
        RollbackInputs(
            target=own,
            target_exists=target.id in snapshots,
            dropped=dropped,
            damaged=damaged,
            dropped_tags=tag_metadata,
            changelogs=changelog_ids(metadata),
            entries=entries,
            changelog_entries=changelog,
            used=keys,
            kept=kept,
        )
    )
