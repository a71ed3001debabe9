"""Rolling a table back together with what its index keeps outside the table.

Rollback that keeps the history: a commit that makes an older state the newest one again.

Files that are live in both states stay as they are. What only the older one has is copied under new names: a file that comes back
under its own name would be deleted when the snapshots expire that had removed it (Java 2.1 leaves a tag on the older snapshot for
that, and loses the files when somebody deletes the tag).

source   org.apache.paimon.operation.FileStoreCommitImpl#rollbackToAsLatest, commit 5dacde516b (2.1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from lakeidx.batch.artifacts import BatchFiles
from lakeidx.batch.index_types import TableIndex, index_folder
from lakeidx.batch.stages.rerun import supersede_lost
from lakeidx.batch.staging_walk import batch_ids
from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.file_index.write import INDEX_SUFFIX
from lakeidx.format.file_names import NewFileNames, checksum_in
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.key_index.port import ExternalState
from lakeidx.key_index.table_view import forget_commits
from lakeidx.storage.files import copy_file, parent_of
from lakeidx.table.commit.changes import CommitRequest, TableChanges
from lakeidx.table.commit.commit_changes import commit_changes
from lakeidx.table.expiration.rollback import RollbackReport, roll_back
from lakeidx.table.history import load_tag, past_snapshot
from lakeidx.table.index_files import index_file_path
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.stream.consumer import StreamConsumer
from lakeidx.table.stream.position import Position
from lakeidx.table.view import data_file_path, load_view
from lakeidx.tasks.in_parallel import in_parallel


def roll_back_table(
    metadata: TableMetadata,
    schema: TableSchema,
    *,
    snapshot_id: int | None = None,
    tag: str | None = None,
    dry_run: bool = False,
) -> RollbackReport:
    """Roll the table back, and the locations an index recorded for the deleted snapshots.

    The key state needs nothing: it is of a snapshot, and one that is gone makes it rebuild itself. Batches whose snapshots go
    may be run again under their ids.
    errors   see `roll_back`
    """
    planned = roll_back(metadata, schema, snapshot_id=snapshot_id, tag=tag, dry_run=True)
    if dry_run:
        return planned
    forget_commits(metadata.store, index_folder(metadata.paths), after=planned.snapshot_id)
    report = roll_back(metadata, schema, snapshot_id=snapshot_id, tag=tag)
    _supersede_batches(metadata)
    return report


def _supersede_batches(metadata: TableMetadata) -> None:
    """Mark batches whose rows are no longer in the table as superseded.

    A batch that comes again finds that out itself, as long as its snapshot id tells; after that only this note does.
    cost   two small requests per batch that has staging
    """

    def supersede(batch_id: str) -> None:
        supersede_lost(metadata, BatchFiles(metadata.store, metadata.paths, batch_id), None)

    in_parallel(supersede, batch_ids(metadata.store, metadata.paths))


E = TypeVar("E", ManifestEntry, IndexEntry)


def roll_back_as_latest(
    metadata: TableMetadata,
    schema: TableSchema,
    *,
    snapshot_id: int | None = None,
    tag: str | None = None,
    dry_run: bool = False,
) -> RollbackReport:
    """Commit the state of a snapshot or tag as the newest one; no snapshot, tag or batch goes, and others may read meanwhile.

    returns   the new snapshot, or the newest one where it has that state already
    errors    as `lakeidx.table.expiration.rollback.roll_back`; CommitConflictError when another writer commits meanwhile;
              UnsupportedError for an index type whose tables cannot be overwritten
    cost      copies the files that only the older state has; after a crash they are orphans
    """
    if (snapshot_id is None) == (tag is None):
        raise InvalidInputError("name either a snapshot or a tag to roll back to")
    locator = TableIndex.of(schema).locator
    if isinstance(locator, ExternalState) and locator.why_no_overwrite:
        raise UnsupportedError(locator.why_no_overwrite, path=metadata.paths.root)
    with StreamConsumer(metadata) as kept:
        # What it goes back to stays while it is copied.
        target = past_snapshot(metadata, snapshot_id) if snapshot_id is not None else load_tag(metadata, tag or "")
        if not dry_run:
            kept.record(Position(target.id - 1))
            target = past_snapshot(metadata, snapshot_id) if snapshot_id is not None else load_tag(metadata, tag or "")
        latest = metadata.latest_snapshot()
        then, now = load_view(metadata, target), load_view(metadata, latest)
        gone, back = _differences(now.entries, then.entries, lambda e: e.identifier)
        moved = {e.file.file_name for e in back}
        gone_index, back_index = _differences(now.index, then.index, lambda e: e)
        # Vectors of a file that gets another name.
        both = [e for e in then.index if e in now.index and any(v.data_file_name in moved for v in e.dv_ranges or ())]
        gone_index, back_index = gone_index + both, back_index + both
        report = RollbackReport(
            dry_run=dry_run, snapshot_id=latest.id if latest else 0, notes=(f"{len(back)} data files are copied",)
        )
        if dry_run or not (gone or back or gone_index or back_index):
            return report
        data, index = _copied(metadata, schema, back, back_index)
        request = CommitRequest(
            commit_user=f"rollback-to-as-latest-{NewFileNames().uuid}",
            changes=TableChanges(
                append=(*(replace(e, kind=FileKind.DELETE) for e in gone), *data),
                append_index=(*(replace(e, kind=FileKind.DELETE) for e in gone_index), *index),
            ),
            base_snapshot_id=None if latest is None else latest.id,
            alone_since=None if latest is None else latest.id,
            check_sequences=False,
            replaces=True,
            tried_before=False,
            watermark=target.watermark,
        )
        committed = commit_changes(metadata, request, schema=schema)
        return replace(report, snapshot_id=committed.snapshot_ids[-1])


def _differences(now: Iterable[E], then: Iterable[E], key: Callable[[E], object]) -> tuple[list[E], list[E]]:
    """Return what only one of two states has."""
    old, new = {key(e): e for e in now}, {key(e): e for e in then}
    return [e for k, e in old.items() if k not in new], [e for k, e in new.items() if k not in old]


def _copied(
    metadata: TableMetadata, schema: TableSchema, data: list[ManifestEntry], index: list[IndexEntry]
) -> tuple[list[ManifestEntry], list[IndexEntry]]:
    """Copy files under new names; return their entries."""
    names, copies = NewFileNames(), list[tuple[str, str]]()
    renamed: dict[str, str] = {}
    entries, index_entries = [], []
    for entry in data:
        file, path = entry.file, data_file_path(metadata, entry)
        name = renamed[file.file_name] = names.data_file(file.file_name.partition(".")[2])
        # Other files beside it are caches of Java's lookups.
        side = tuple(n for n in file.extra_files if n.endswith(INDEX_SUFFIX))
        beside = tuple(n.replace(file.file_name, name) for n in side)
        made = replace(entry, file=replace(file, file_name=name, extra_files=beside, external_path=None))
        target = data_file_path(metadata, made)
        copies.append((path, target))
        copies += [(f"{parent_of(path)}/{a}", f"{parent_of(target)}/{b}") for a, b in zip(side, beside, strict=True)]
        entries.append(made)
    for found in index:
        vectors = found.dv_ranges and tuple(
            replace(v, data_file_name=renamed.get(v.data_file_name, v.data_file_name)) for v in found.dv_ranges
        )
        new = replace(
            found, file_name=names.index_name(checksum_in(found.file_name)), dv_ranges=vectors, external_path=None
        )
        copies.append((index_file_path(metadata, schema, found), index_file_path(metadata, schema, new)))
        index_entries.append(new)
    in_parallel(lambda paths: copy_file(metadata.store, *paths), copies)
    return entries, index_entries
