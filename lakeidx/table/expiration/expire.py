"""Snapshot expiry of a table: first consumers and tags whose time is over, then snapshots, with exact lists of the deleted files.

source   org.apache.paimon.table.ExpireSnapshotsImpl, org.apache.paimon.tag.TagTimeExpire,
         org.apache.paimon.consumer.ConsumerManager, release 1.4.2; what differs is said in `lakeidx.table.expiration.plan`
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import Snapshot, encode_hint
from lakeidx.format.tag import Tag, now_local_ns
from lakeidx.table.commit.commit_changes import renew_passed_hint
from lakeidx.table.expiration.apply import DeletedFile, apply_plan, measure_files
from lakeidx.table.expiration.changelog import expire_changelogs
from lakeidx.table.expiration.files_to_delete import ExpirePlan, Role
from lakeidx.table.expiration.orphans import names_in_branches
from lakeidx.table.expiration.plan import (
    ExpireInputs,
    ExpireRange,
    Retention,
    announce,
    choose_range,
    plan_expire,
    retention_of,
    tags_around,
    tags_before,
)
from lakeidx.table.expiration.read import (
    read_all_metadata,
    read_changed_files,
    read_consumers,
    read_deltas,
    read_entries,
    read_metadata,
    read_snapshots,
    read_tags,
    used_files,
)
from lakeidx.table.expiration.tags import delete_tag
from lakeidx.table.history import tag_names
from lakeidx.table.iceberg.publish import publish_iceberg
from lakeidx.table.metadata import TableMetadata, is_same
from lakeidx.table.stream.consumer import LEASE_PREFIX, dead_leases

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireReport:
    """Report of an expiry, or in a dry run its plan.

    snapshots   ids that went, ascending; files that lay under ids that had expired before are among `files` only
    earliest    oldest snapshot that stays; None for a table without snapshots
    tags, consumers   names that went because their time was over
    changelogs  ids of long-lived changelogs that went, ascending
    files       every file that went, in the order of deletion
    notes       what was left out and why; cleaning orphans finds such files
    """

    dry_run: bool
    snapshots: tuple[int, ...] = ()
    earliest: int | None = None
    tags: tuple[str, ...] = ()
    consumers: tuple[str, ...] = ()
    changelogs: tuple[int, ...] = ()
    files: tuple[DeletedFile, ...] = ()
    notes: tuple[str, ...] = ()
    count_by_role: Mapping[str, int] = field(init=False)
    bytes: int = field(init=False)

    def __post_init__(self) -> None:
        counts: dict[str, int] = {}
        for f in self.files:
            counts[f.role.value] = counts.get(f.role.value, 0) + 1
        object.__setattr__(self, "count_by_role", counts)
        object.__setattr__(self, "bytes", sum(f.size for f in self.files))


def expire_table(
    metadata: TableMetadata,
    schema: TableSchema,
    *,
    now_ms: int,
    retention: Retention | None = None,
    dry_run: bool = False,
) -> ExpireReport:
    """Expire consumers, tags and snapshots; Iceberg metadata that is behind is written.

    now_ms      epoch ms
    retention   default: what the table's options say
    dry_run     delete nothing; the report lists exactly what a run at this moment would delete
    errors      InvalidInputError for options that contradict; CorruptFileError for a tag or consumer that cannot be read:
                nothing may expire while it is unknown what it keeps; UnavailableError, then running again finishes the job
    """
    consumers = read_consumers(metadata)
    old_consumers = _old_consumers(
        {c: modified for c, (_, modified) in consumers.items()},
        schema.table_options.consumer_expiration_time,
        now_ms,
    )
    if not dry_run:
        metadata.store.delete_many([metadata.paths.consumer_path(c) for c in old_consumers])
    tags = read_tags(metadata)
    old_tags, files, notes = _expire_tags(metadata, schema, tags, dry_run=dry_run)
    staying = {n: t for n, t in tags.items() if n not in old_tags}
    progress = [p for c, (p, _) in consumers.items() if c not in old_consumers]
    stray_ids, ids = metadata.split_snapshot_ids()
    snapshots = read_snapshots(metadata, ids)
    strays = _drop_strays(metadata, stray_ids, snapshots[min(snapshots)], dry_run=dry_run) if snapshots else []
    old_changelogs, of_changelogs, changelog_notes = expire_changelogs(
        metadata,
        schema,
        snapshots,
        now_ms=now_ms,
        consumers=progress,
        tagged={t.snapshot.id: t.snapshot for t in staying.values()},
        dry_run=dry_run,
    )
    report = _expire_snapshots(
        metadata,
        schema,
        retention=retention or retention_of(schema.table_options),
        now_ms=now_ms,
        consumers=progress,
        tags=staying,
        snapshots=snapshots,
        dry_run=dry_run,
    )
    if not dry_run:
        publish_iceberg(metadata, schema)
    return replace(
        report,
        tags=tuple(old_tags),
        consumers=tuple(old_consumers),
        changelogs=tuple(old_changelogs),
        files=(*files, *strays, *of_changelogs, *report.files),
        notes=(*notes, *changelog_notes, *report.notes),
    )


def _expire_tags(
    metadata: TableMetadata, schema: TableSchema, tags: Mapping[str, Tag], *, dry_run: bool
) -> tuple[list[str], list[DeletedFile], list[str]]:
    """Delete the tags whose time is over; return their names, and the files and notes of their deletion."""
    old = [n for n, t in tags.items() if t.is_expired(now_local_ns())]
    if not schema.table_options.tag_time_expire_enabled:
        old = []
    gone = [delete_tag(metadata, schema, n, dry_run=dry_run, gone_before=old[:i]) for i, n in enumerate(old)]
    return old, [f for g in gone for f in g.files], [n for g in gone for n in g.notes]


def _old_consumers(modified: Mapping[str, int], limit_ms: int | None, now_ms: int) -> list[str]:
    """Return the consumers past their time, and the leases of readers that died."""
    dead = set(dead_leases({c: m for c, m in modified.items() if c.startswith(LEASE_PREFIX)}, now_ms))
    return [c for c, m in modified.items() if c in dead or (limit_ms is not None and now_ms - m > limit_ms)]


def _expire_snapshots(
    metadata: TableMetadata,
    schema: TableSchema,
    *,
    retention: Retention,
    now_ms: int,
    consumers: Sequence[int],
    tags: Mapping[str, Tag],
    snapshots: Mapping[int, Snapshot],
    dry_run: bool,
) -> ExpireReport:
    """Expire snapshots only.

    consumers   next snapshot of every consumer
    tags        all tags that stay
    snapshots   all that exist, by id, ascending
    """
    times = {i: s.time_millis for i, s in snapshots.items()}
    chosen = choose_range(times, retention, now_ms=now_ms, consumers=consumers)
    if chosen is None:
        return ExpireReport(dry_run=dry_run)
    if chosen.is_empty:
        if not dry_run:
            _put_missing_hint(metadata, chosen.begin, newest=max(times))
        return ExpireReport(dry_run=dry_run, earliest=chosen.begin)
    branches = names_in_branches(metadata)
    plan = _plan(metadata, snapshots, chosen, tags, retention).sparing(branches)
    if not dry_run:
        fewer = announce(
            metadata,
            metadata.paths.earliest,
            chosen,
            lambda begun: choose_range(times, retention, now_ms=now_ms, consumers=[*consumers, *begun]),
        )
        if not is_same(metadata, snapshots[fewer.end]):
            return _give_up(metadata, fewer)
        if fewer.is_empty:
            return ExpireReport(dry_run=dry_run, earliest=fewer.begin)
        if fewer != chosen or set(tag_names(metadata)) - set(tags):
            chosen = fewer
            plan = _plan(metadata, snapshots, chosen, read_tags(metadata), retention).sparing(branches)
    gone = measure_files(plan, metadata, schema)
    if not dry_run:
        clean = schema.table_options.snapshot_clean_empty_directories
        apply_plan(plan, metadata, schema, clean_directories=clean)
        renew_passed_hint(metadata, chosen.end)
        log.info("expired snapshots %d to %d: %d files", chosen.begin, chosen.end - 1, len(gone))
    return ExpireReport(
        dry_run=dry_run,
        snapshots=plan.snapshots_gone,
        earliest=chosen.end,
        files=tuple(gone),
        notes=plan.notes,
    )


def _give_up(metadata: TableMetadata, chosen: ExpireRange) -> ExpireReport:
    """Leave everything: the snapshot that was to be the oldest was rolled back, and the newest may be among those that were to go.

    A rollback that begins now sees the hint, or its consumer was seen (`lakeidx.table.expiration.rollback`).
    """
    ids = metadata.snapshot_ids()
    if ids:
        metadata.store.put(metadata.paths.earliest, encode_hint(ids[0]))
    note = f"snapshot {chosen.end} was rolled back while the expiry was planned: nothing expired; expire again"
    log.warning("%s: %s", metadata.paths.root, note)
    return ExpireReport(dry_run=False, earliest=ids[0] if ids else None, notes=(note,))


def _put_missing_hint(metadata: TableMetadata, earliest: int, *, newest: int) -> None:
    hint = metadata.earliest_hint()
    # One beyond the newest snapshot is of a history that a fast-forwarded branch has replaced.
    if hint is None or hint > newest:
        metadata.store.put(metadata.paths.earliest, encode_hint(earliest))


def _plan(
    metadata: TableMetadata,
    snapshots: Mapping[int, Snapshot],
    chosen: ExpireRange,
    tags: Mapping[str, Tag],
    retention: Retention,
) -> ExpirePlan:
    """Read what the range needs and plan it."""
    tagged = {t.snapshot.id: t.snapshot for t in tags.values()}
    *expiring, end = read_all_metadata(metadata, [s for i, s in snapshots.items() if i <= chosen.end])
    around = {t: read_metadata(metadata, tagged[t]) for t in tags_around(list(tagged), chosen)}
    before = {t: around.get(t) or read_metadata(metadata, tagged[t]) for t in tags_before(list(tagged), chosen)}
    inputs = ExpireInputs(
        range=chosen,
        expiring=expiring,
        end=end,
        deltas=read_deltas(metadata, [*expiring[1:], end]),
        later=read_changed_files(metadata, [s for i, s in snapshots.items() if i > chosen.end]),
        changelogs={
            m.snapshot.id: read_entries(metadata, m.changelog)
            for m in expiring
            if m.snapshot.changelog_manifest_list is not None
        },
        tags=list(around.values()),
        tag_files={t: used_files(metadata, [m]) for t, m in before.items()},
    )
    return plan_expire(inputs, retention=retention, tag_ids=sorted(tagged))


def _drop_strays(
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
    return min(held, default=oldest.id) > strays[-1] and is_same(metadata, oldest)
