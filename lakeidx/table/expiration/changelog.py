"""Expiry of long-lived changelogs: expired snapshots, kept as ``changelog/changelog-<id>`` for readers of changes.

They go by rules of the same kind as snapshots, with ``changelog.num-retained.min/.max`` and ``changelog.time-retained``; where
one of these is not set, the snapshots' counts. The newest one always stays: what it names protects shared files.

source   org.apache.paimon.table.ExpireChangelogImpl, org.apache.paimon.operation.ChangelogDeletion, release 1.4.2
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from lakeidx.errors import NotFoundError
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import CommitKind, Snapshot, decode_snapshot
from lakeidx.options.table_options import TableOptions, check_retained
from lakeidx.table.expiration.apply import DeletedFile, apply_plan, measure_files
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
from lakeidx.table.expiration.plan import ExpireRange, Retention, announce, tags_around
from lakeidx.table.expiration.read import read_all_metadata, read_entries, read_metadata, used_files
from lakeidx.table.metadata import TableMetadata

log = logging.getLogger(__name__)

_NAME = re.compile(r"^changelog-(\d+)$")


def changelog_retention_of(options: TableOptions) -> Retention:
    """Return how many changelogs are retained, counted from the newest snapshot.

    errors   InvalidInputError when the least number is above the most
    """
    num_min = options.changelog_num_retained_min or options.snapshot_num_retained_min
    num_max = options.changelog_num_retained_max or options.snapshot_num_retained_max
    time_ms = options.changelog_time_retained
    check_retained(options, "changelog", num_min, num_max)
    return Retention(
        num_min=num_min,
        num_max=num_max,
        time_ms=options.snapshot_time_retained if time_ms is None else time_ms,
        limit=options.snapshot_expire_limit,
    )


def choose_changelogs(
    times: Mapping[int, int], newest_snapshot: int, retention: Retention, *, now_ms: int, consumers: Iterable[int] = ()
) -> ExpireRange:
    """Choose which changelogs expire: [begin, end), empty when none does.

    times             changelog id -> commit time (epoch ms), at least one
    newest_snapshot   id; counts include the snapshots that exist
    rules             those beyond the newest `num_max` go whatever their age; of the others one goes when it is older than
                      `time_ms`; what consumers have not read stays, and so does the newest changelog
    """
    begin, newest = min(times), max(times)
    end = min([newest_snapshot - retention.num_min + 1, begin + retention.limit, newest, *consumers])
    for changelog_id in range(max(newest_snapshot - retention.num_max + 1, begin), end):
        if changelog_id in times and now_ms - retention.time_ms <= times[changelog_id]:
            end = changelog_id
            break
    # An earlier run may have been cut off, or a rollback left a hole: end at one that exists.
    while end > begin and end not in times:
        end -= 1
    return ExpireRange(begin, max(begin, end))


def read_changelogs(metadata: TableMetadata) -> dict[int, Snapshot]:
    """Read all long-lived changelogs, by id, ascending.

    errors   CorruptFileError
    """
    out: dict[int, Snapshot] = {}
    for file in metadata.store.list(metadata.paths.changelog_dir):
        matched = _NAME.match(file.name)
        if matched is None or file.is_dir:
            continue
        try:
            out[int(matched[1])] = decode_snapshot(metadata.store.get(file.path), file.path)
        except NotFoundError:
            continue
    return dict(sorted(out.items()))


def names_of_changelogs(metadata: TableMetadata) -> set[str]:
    """Return the names of files that tags may share with long-lived changelogs, which need them.

    Where nothing makes a changelog, the rows that a commit added are its changelog.
    """
    expired = [s for s in read_changelogs(metadata).values() if s.changelog_manifest_list is None]
    out: set[str] = set()
    for state in read_all_metadata(metadata, expired):
        delta = state.delta or ()
        out |= {state.snapshot.delta_manifest_list, *(m.file_name for m in delta)}
        if state.snapshot.commit_kind is CommitKind.APPEND:
            added = (e.file for e in read_entries(metadata, delta) or () if e.kind is FileKind.ADD)
            out |= {n for f in added for n in (f.file_name, *f.extra_files)}
    return out


def expire_changelogs(
    metadata: TableMetadata,
    schema: TableSchema,
    snapshots: Mapping[int, Snapshot],
    *,
    now_ms: int,
    consumers: Sequence[int] = (),
    tagged: Mapping[int, Snapshot],
    dry_run: bool = False,
) -> tuple[list[int], list[DeletedFile], Sequence[str]]:
    """Expire long-lived changelogs of a table.

    snapshots   those that exist
    consumers   next snapshot of every consumer
    tagged      snapshot id -> snapshot, of every tag
    returns     deleted ids, files in the order of deletion, and notes on what could not be read
    errors      UnavailableError, then running again finishes the job
    """
    changelogs = read_changelogs(metadata)
    if not changelogs or not snapshots:
        return [], [], ()
    times = {i: s.time_millis for i, s in changelogs.items()}
    retention = changelog_retention_of(schema.table_options)

    def choose(begun: Sequence[int]) -> ExpireRange:
        return choose_changelogs(times, max(snapshots), retention, now_ms=now_ms, consumers=[*consumers, *begun])

    chosen = choose(())
    if not chosen.is_empty and not dry_run:
        chosen = announce(metadata, metadata.paths.changelog_earliest, chosen, choose)
    if chosen.is_empty:
        return [], [], ()
    expiring = read_all_metadata(metadata, [s for i, s in changelogs.items() if i < chosen.end])
    plan = _plan(metadata, schema, expiring, changelogs[chosen.end], snapshots, tagged)
    gone = measure_files(plan, metadata, schema)
    if not dry_run:
        apply_plan(plan, metadata, schema, clean_directories=schema.table_options.snapshot_clean_empty_directories)
        log.info("expired changelogs %d to %d: %d files", chosen.begin, chosen.end - 1, len(gone))
    return [m.snapshot.id for m in expiring], gone, plan.notes


def _plan(
    metadata: TableMetadata,
    schema: TableSchema,
    expiring: Sequence[SnapshotMetadata],
    end: Snapshot,
    snapshots: Mapping[int, Snapshot],
    tagged: Mapping[int, Snapshot],
) -> ExpirePlan:
    notes: list[str] = []
    chosen = ExpireRange(expiring[0].snapshot.id, end.id)
    oldest = read_metadata(metadata, snapshots[min(snapshots)])
    around = [read_metadata(metadata, tagged[t]) for t in tags_around(list(tagged), chosen)]
    data: list[FileToDelete] = []
    changelog: list[FileToDelete] = []
    if schema.table_options.changelog_producer == "none":
        # The flushed files were the changelog: expiry of their snapshots left those that later commits deleted.
        later = read_all_metadata(metadata, [s for i, s in snapshots.items() if i != oldest.snapshot.id])
        used = used_files(metadata, [oldest, *(read_metadata(metadata, s) for s in tagged.values())])
        added = live_keys(e for m in later for e in read_entries(metadata, m.delta) or () if e.kind is FileKind.ADD)
        if used is None:
            notes.append("data files: those of a snapshot or tag that stays cannot be read")
        else:
            data = _flushed(metadata, expiring, used | added, notes)
    for m in expiring:
        entries = read_entries(metadata, m.changelog) if m.changelog is not None else None
        if entries is None:
            notes.append(f"changelog files of changelog {m.snapshot.id}: its manifests cannot be read")
        for entry in entries or ():
            if entry.kind is FileKind.ADD:
                changelog += data_files_to_delete(entry, Role.CHANGELOG)
    unneeded: list[FileToDelete] = []
    protected = [m.names() for m in (*around, oldest)]
    if any(names is None for names in protected):
        notes.append("metadata files: those of a snapshot or tag that stays cannot be read")
    else:
        kept = {name for names in protected for name in names or ()}
        # Of the newest changelog only what is still there protects: its index files went with its snapshot.
        at_end = read_metadata(metadata, end)
        kept |= {m.file_name for part in (at_end.base, at_end.delta, at_end.changelog) for m in part or ()}
        for m in expiring:
            unneeded += metadata_to_delete(m, kept)
    return ExpirePlan(
        phases=(
            tuple(data),
            tuple(changelog),
            *children_first(unneeded),
            *((FileToDelete(Role.LONG_LIVED_CHANGELOG, str(m.snapshot.id)),) for m in expiring),
        ),
        notes=tuple(notes),
    )


def _flushed(
    metadata: TableMetadata, expiring: Sequence[SnapshotMetadata], used: AbstractSet[DataFileKey], notes: list[str]
) -> list[FileToDelete]:
    """Return flushed files that a commit of the range deleted and nothing refers to."""
    out: dict[DataFileKey, ManifestEntry] = {}
    for m in expiring:
        entries = read_entries(metadata, m.delta) if m.delta is not None else None
        if entries is None:
            notes.append(f"data files deleted by snapshot {m.snapshot.id}: its delta cannot be read")
            continue
        again = live_keys(e for e in entries if e.kind is FileKind.ADD)
        for entry in entries:
            key = data_file_key(entry)
            if entry.kind is FileKind.ADD:
                out.pop(key, None)
            elif key not in again and key not in used and not entry.file.file_source:
                out[key] = entry
    return [f for entry in out.values() for f in data_files_to_delete(entry)]
