"""Plan of an expiry: which snapshots go, and which files with them. Decisions as data, no I/O and no clock.

Order is part of a plan. Files of a later phase are what a reader finds the files of an earlier phase by, so a crash
between any two deletions leaves every remaining snapshot and tag readable, and the next run finishes the job:

=====================  ================================================================================================
phase                  content (expiry of snapshots [begin, end))
=====================  ================================================================================================
1 data files           deleted by the deltas of (begin, end], not added again, not used by the nearest tag before
2 changelog files      added by the changelogs of [begin, end), unless those live longer
3 metadata             manifests before their lists, index files before their manifests, statistics: of [begin, end),
                       used neither by snapshot `end` nor by tags around the range
4 snapshot files       ascending; then the hint EARLIEST = end
=====================  ================================================================================================

A data file's life is one stretch of snapshots (an upgrade deletes and adds the same name in one delta), so what snapshot
`id` deletes is used by a tag only if the nearest tag before `id` uses it. Later deltas that add a deleted file again (a
newer release of Paimon can roll back by a new snapshot) protect it here, which Java does not check.

source   org.apache.paimon.table.ExpireSnapshotsImpl, org.apache.paimon.operation.{FileDeletionBase, SnapshotDeletion},
         release 1.4.2. One departure: a snapshot expires by age only when its successor is old enough, too (later
         releases; 1.4.2 looks at the snapshot's own time).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from lakeidx.errors import InvalidInputError
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.snapshot import encode_hint
from lakeidx.options.table_options import TableOptions, check_retained
from lakeidx.table.expiration.files_to_delete import (
    DataFileKey,
    ExpirePlan,
    FileToDelete,
    Role,
    SnapshotMetadata,
    children_first,
    data_file_key,
    data_files_to_delete,
    live_keys,
    metadata_to_delete,
)
from lakeidx.table.expiration.read import read_consumers
from lakeidx.table.metadata import TableMetadata

INT_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Retention of snapshots: how many stay, and for how long; times in ms.

    num_min, num_max, time_ms, limit    snapshot.num-retained.min / .max, snapshot.time-retained, snapshot.expire.limit
    changelogs_live_longer              a changelog.* retention is larger than the snapshot one
    has_changelog_producer              changelog-producer is not none
    consumers_keep_changelog_only       consumer.changelog-only, which needs changelogs that live longer
    """

    num_min: int = 10
    num_max: int = INT_MAX
    time_ms: int = 3_600_000
    limit: int = 50
    changelogs_live_longer: bool = False
    has_changelog_producer: bool = False
    consumers_keep_changelog_only: bool = False


def retention_of(options: TableOptions) -> Retention:
    """Parse the retention a table's options request.

    errors   InvalidInputError when the least number is above the most
    """
    check_retained(options, "snapshot", options.snapshot_num_retained_min, options.snapshot_num_retained_max)
    pairs = (
        (options.changelog_num_retained_max, options.snapshot_num_retained_max),
        (options.changelog_num_retained_min, options.snapshot_num_retained_min),
        (options.changelog_time_retained, options.snapshot_time_retained),
    )
    longer = any(changelog is not None and changelog > snapshot for changelog, snapshot in pairs)
    return Retention(
        num_min=options.snapshot_num_retained_min,
        num_max=options.snapshot_num_retained_max,
        time_ms=options.snapshot_time_retained,
        limit=options.snapshot_expire_limit,
        changelogs_live_longer=longer,
        has_changelog_producer=options.changelog_producer != "none",
        consumers_keep_changelog_only=options.consumer_changelog_only and longer,
    )


@dataclass(frozen=True, slots=True)
class ExpireRange:
    """Snapshots [begin, end) go; `end` is the oldest that stays."""

    begin: int
    end: int

    @property
    def is_empty(self) -> bool:
        """True when nothing expires."""
        return self.end <= self.begin


def choose_range(
    times: Mapping[int, int], retention: Retention, *, now_ms: int, consumers: Iterable[int] = ()
) -> ExpireRange | None:
    """Choose which snapshots expire; None for a table without snapshots.

    times       snapshot id -> commit time (epoch ms) of the snapshots that exist
    consumers   next snapshot of every consumer
    rules       the newest `num_min` stay; those beyond the newest `num_max` go whatever their age; of the others one goes
                when its successor is older than `time_ms`; snapshots that consumers have not read stay; at most `limit`
                ids from the oldest one on
    errors      InvalidInputError when num_min is above num_max or below 1
    """
    if not times:
        return None
    if not 1 <= retention.num_min <= retention.num_max:
        raise InvalidInputError(
            f"snapshots to keep: at least {retention.num_min} and at most {retention.num_max} is no range"
        )
    earliest, latest = min(times), max(times)
    least = max(latest - retention.num_max + 1, earliest)
    end = latest - retention.num_min + 1
    if not retention.consumers_keep_changelog_only:
        end = min([end, *consumers])
    end = min(end, earliest + retention.limit)
    for snapshot_id in range(least, end):
        successor = times.get(snapshot_id + 1)
        if successor is not None and now_ms - retention.time_ms <= successor:
            end = snapshot_id
            break
    # Ids may be missing where an earlier run was cut off.
    while end > earliest and end not in times:
        end -= 1
    return ExpireRange(earliest, max(end, earliest))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireInputs:
    """Metadata that is read for an expiry of `range`.

    expiring     metadata of the snapshots in [begin, end) that exist, ascending
    end          metadata of snapshot `end`
    deltas       snapshot id -> delta entries, for (begin, end]; None when they cannot be read any more
    later        entries of the deltas after `end`; they protect what they add
    changelogs   snapshot id -> changelog entries, for [begin, end) with a changelog; None when unreadable
    tags         metadata of the tags that `tags_around` names
    tag_files    snapshot id of a tag -> its live data files, for the tags that `tags_before` names; None when unreadable
    """

    range: ExpireRange
    expiring: Sequence[SnapshotMetadata]
    end: SnapshotMetadata
    deltas: Mapping[int, Sequence[ManifestEntry] | None]
    later: Iterable[ManifestEntry] = ()
    changelogs: Mapping[int, Sequence[ManifestEntry] | None] = field(default_factory=dict)
    tags: Sequence[SnapshotMetadata] = ()
    tag_files: Mapping[int, AbstractSet[DataFileKey] | None] = field(default_factory=dict)


def _tag_before(tag_ids: Sequence[int], snapshot_id: int) -> int | None:
    """Find the nearest tagged snapshot before a snapshot: the only tag that can use what the snapshot deletes.

    tag_ids   snapshot ids of all tags
    """
    return max((t for t in tag_ids if t < snapshot_id), default=None)


def tags_before(tag_ids: Sequence[int], expired: ExpireRange) -> set[int]:
    """Return the tagged snapshots whose data files an expiry has to know."""
    found = (_tag_before(tag_ids, i) for i in range(expired.begin + 1, expired.end + 1))
    return {t for t in found if t is not None}


def tags_around(tag_ids: Sequence[int], expired: ExpireRange) -> set[int]:
    """Return the tagged snapshots whose metadata files an expiry has to know: those in [begin, end) and the one before."""
    left = max((t for t in tag_ids if t <= expired.begin), default=None)
    return {t for t in tag_ids if expired.begin <= t < expired.end} | (set() if left is None else {left})


def plan_expire(inputs: ExpireInputs, *, retention: Retention, tag_ids: Sequence[int] = ()) -> ExpirePlan:
    """Plan the deletions that expire [begin, end).

    tag_ids   snapshot ids of all tags
    returns   a plan; its `notes` say what was left out because something could not be read. Left-out files are no
              longer referred to once the snapshots are gone, so cleaning orphans finds them
    """
    notes: list[str] = []
    data = _expired_data(inputs, retention, tag_ids, notes)
    changelog: list[FileToDelete] = []
    if not retention.changelogs_live_longer:
        for snapshot_id, entries in sorted(inputs.changelogs.items()):
            if entries is None:
                notes.append(f"changelog files of snapshot {snapshot_id}: its changelog manifests cannot be read")
            for entry in entries or ():
                if entry.kind is FileKind.ADD:
                    changelog += data_files_to_delete(entry, Role.CHANGELOG)
    protected = [m.names() for m in (*inputs.tags, inputs.end)]
    metadata: list[FileToDelete] = []
    if any(names is None for names in protected):
        notes.append("metadata files: those of a snapshot or tag that stays cannot be read")
    else:
        kept = {name for names in protected for name in names or ()}
        for m in inputs.expiring:
            metadata += metadata_to_delete(
                m,
                kept,
                lists=not retention.changelogs_live_longer or retention.has_changelog_producer,
                changelog=not retention.changelogs_live_longer,
            )
    ids = [m.snapshot.id for m in inputs.expiring]
    return ExpirePlan(
        snapshots_gone=tuple(ids),
        keep_as_changelog=tuple(m.snapshot for m in inputs.expiring) if retention.changelogs_live_longer else (),
        phases=(
            tuple(data),
            tuple(changelog),
            *children_first(metadata),
            *((FileToDelete(Role.SNAPSHOT, str(i)),) for i in ids),
        ),
        earliest_hint=inputs.range.end,
        notes=tuple(notes),
    )


def _expired_data(
    inputs: ExpireInputs, retention: Retention, tag_ids: Sequence[int], notes: list[str]
) -> list[FileToDelete]:
    unneeded: dict[DataFileKey, ManifestEntry] = {}
    added_again = live_keys(e for e in inputs.later if e.kind is FileKind.ADD)
    for snapshot_id in range(inputs.range.begin + 1, inputs.range.end + 1):
        entries = inputs.deltas.get(snapshot_id, ())
        if entries is None:
            notes.append(f"data files deleted by snapshot {snapshot_id}: its delta cannot be read")
            continue
        tag = _tag_before(tag_ids, snapshot_id)
        used = inputs.tag_files.get(tag, None) if tag is not None else frozenset()
        if used is None:
            notes.append(f"data files deleted by snapshot {snapshot_id}: the tag of snapshot {tag} cannot be read")
            # Files added again must still be taken off the list.
        for entry in entries:
            key = data_file_key(entry)
            if entry.kind is FileKind.ADD:
                unneeded.pop(key, None)
        re_added = live_keys(e for e in entries if e.kind is FileKind.ADD)
        for entry in entries:
            key = data_file_key(entry)
            if entry.kind is not FileKind.DELETE or key in re_added or used is None or key in used:
                continue
            if retention.changelogs_live_longer and not retention.has_changelog_producer and not entry.file.file_source:
                # Without a producer the flushed files are the changelog, which lives longer.
                continue
            unneeded[key] = entry
    return [f for key, entry in unneeded.items() if key not in added_again for f in data_files_to_delete(entry)]


def announce(
    metadata: TableMetadata, hint: str, chosen: ExpireRange, choose: Callable[[Sequence[int]], ExpireRange | None]
) -> ExpireRange:
    """Write what is about to be deleted into a hint, so that nobody starts to read or tag it; return what may be deleted.

    hint      path of the hint that says which id is the oldest
    choose    chooses again, given the next snapshot of every consumer there is now
    returns   what goes: not more than was chosen
    """
    metadata.store.put(hint, encode_hint(chosen.end))
    fewer = choose([first for first, _ in read_consumers(metadata).values()]) or chosen
    if fewer.end < chosen.end:
        metadata.store.put(hint, encode_hint(fewer.end))
    return fewer
