"""Decides which buckets of a table are compacted, and how: from the state of the table alone, no data file is read."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

import numpy as np

from lakeidx.compaction.bucket import BucketCompaction
from lakeidx.compaction.options import CompactionOptions, compaction_options
from lakeidx.compaction.pick import PickReason
from lakeidx.compaction.plan import CompactionTask, plan_append_compaction, plan_compaction
from lakeidx.compaction.record_expiry import RecordExpiry, record_expiry
from lakeidx.compaction.rewrite import check_can_compact
from lakeidx.errors import NotFoundError
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.schema.feature_gate import check_index_types
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.table.deletion_vectors import deletion_vectors
from lakeidx.table.entries import Entries
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import HASH_INDEX, SnapshotView, load_view
from lakeidx.tasks.in_parallel import in_parallel


def plan_buckets(
    metadata: TableMetadata,
    schema: TableSchema,
    view: SnapshotView,
    *,
    full: bool,
    only: Collection[tuple[bytes, int]] | None = None,
    shrink: bool = False,
    now_ms: int | None = None,
    gentle: bool = False,
) -> list[BucketCompaction]:
    """Plan the compactions a state of the table's options request, heaviest first.

    full     everything into the top level
    only     these buckets
    gentle   as `plan_compaction` takes it
    errors   UnsupportedError when an option or an index of the table makes a compaction go wrong
    """
    check_can_compact(schema)
    check_index_types(view.index, metadata.paths.root)
    vectors = deletion_vectors(view.index)
    keyed = bool(schema.primary_keys)
    hour = datetime.now().hour
    expiry = record_expiry(schema, now_ms if now_ms is not None else int(time.time() * 1000))
    out = []
    entries = view.entries if only is None else view.entries.of_places(only)
    if keyed and not (full or shrink or expiry):
        entries = due_buckets(entries, compaction_options(schema))
    places, total = _files_by_place(entries)
    indexes: dict[tuple[bytes, int], list[IndexEntry]] = {}
    for entry in view.index:
        indexes.setdefault((entry.partition, entry.bucket), []).append(entry)
    if shrink:
        # Buckets whose last row was compacted away have an index and no files.
        places |= {place: [] for place in indexes if place not in places and (only is None or place in only)}
    for place, files in places.items():
        if place[1] < 0:
            continue
        mine = {f.file_name: v for f in files if (v := vectors.get((*place, f.file_name))) is not None}
        index = tuple(indexes.get(place, ()))
        if keyed:
            # Only a full compaction takes deleted rows out of large files.
            must = {*(mine if full else ()), *_expired(metadata, expiry, files)}
            task = plan_compaction(files, schema, full=full, now_ms=now_ms, hour=hour, must_rewrite=must, gentle=gentle)
        else:
            task = plan_append_compaction(files, schema, full=full, must_rewrite=set(mine))
        if task is None and shrink and _has_dead_hashes(files, index):
            top = max((f.level for f in files), default=0)
            task = CompactionTask((), top, top, PickReason.FULL)
        if task is None:
            continue
        replaced = {f.file_name for f in task.files}
        rest = tuple(f for f in files if f.file_name not in replaced)
        buckets = total.get(place, schema.bucket)
        out.append(
            BucketCompaction(
                metadata, schema, *place, buckets, task, rest, mine, index, shrink_index=shrink, expiry=expiry
            )
        )
    return sorted(out, key=lambda w: -w.task.rewrite_bytes)


def _files_by_place(
    entries: Iterable[ManifestEntry],
) -> tuple[dict[tuple[bytes, int], list[DataFileMeta]], dict[tuple[bytes, int], int]]:
    """Return the files of each (partition, bucket), and its partition's number of buckets."""
    places: dict[tuple[bytes, int], list[DataFileMeta]] = {}
    total: dict[tuple[bytes, int], int] = {}
    for entry in entries:
        places.setdefault((entry.partition, entry.bucket), []).append(entry.file)
        total[entry.partition, entry.bucket] = entry.total_buckets
    return places, total


def plan_due(
    metadata: TableMetadata, schema: TableSchema, snapshot: Snapshot, *, clean: Snapshot | None = None
) -> list[BucketCompaction]:
    """Plan the compactions that are due in a snapshot.

    clean   an earlier snapshot of the same history in which nothing was due: only buckets that were written since are looked
            at, and what they hold. None: all are
    cost    with `clean` the delta manifests since then, and the manifests' records of the partitions they touch
    """
    places = None if clean is None or _time_decides(schema) else _places_since(metadata, clean, snapshot)
    if places is not None and not places:
        return []
    partitions = None if places is None else {partition for partition, _ in places}
    view = load_view(metadata, snapshot, partitions=partitions)
    return plan_buckets(metadata, schema, view, full=False, only=places)


def _places_since(metadata: TableMetadata, clean: Snapshot, snapshot: Snapshot) -> set[tuple[bytes, int]] | None:
    """Find the (partition, bucket) places with files added or removed since a snapshot; None where a snapshot has expired."""

    def written(number: int) -> list[tuple[bytes, int]]:
        found = metadata.load_snapshot(number)
        metas = metadata.load_manifest_list(found.delta_manifest_list, found.delta_manifest_list_size)
        return metadata.load_manifests(metas).places()[1]

    try:
        return {p for places in in_parallel(written, range(clean.id + 1, snapshot.id + 1)) for p in places}
    except NotFoundError:
        return None


def _time_decides(schema: TableSchema) -> bool:
    """Return True when a bucket can become due without a write."""
    pick = compaction_options(schema).pick
    return pick.full_interval_ms is not None or record_expiry(schema, 0) is not None


def due_buckets(entries: Entries, options: CompactionOptions) -> Entries:
    """Drop the files of buckets that universal compaction leaves alone, by their numbers of sorted runs.

    Below the trigger nothing is picked unless an option asks for more than a number of runs: then all files stay.
    entries   whole buckets
    """
    pick = options.pick
    if options.must_empty_level_0 or any(
        o is not None for o in (pick.full_interval_ms, pick.total_size_threshold, pick.incremental_size_threshold)
    ):
        return entries
    numbers, places = entries.places()
    level = entries.column("level").astype(np.int64)
    runs = np.bincount(numbers[level == 0], minlength=len(places))
    # A level above 0 is one run, whatever its files.
    above = np.unique(np.stack([numbers, level])[:, level > 0], axis=1)
    runs += np.bincount(above[0], minlength=len(places))
    return entries.select((runs >= pick.run_trigger)[numbers])


def _expired(metadata: TableMetadata, expiry: RecordExpiry | None, files: Sequence[DataFileMeta]) -> list[str]:
    if expiry is None:
        return []
    return [f.file_name for f in files if expiry.is_expired_file(f, metadata.load_schema(f.schema_id))]


def _has_dead_hashes(files: Sequence[DataFileMeta], index: Sequence[IndexEntry]) -> bool:
    """Return True when a bucket that is fully compacted has more hashes than rows: keys were deleted and compacted away before."""
    rows = sum(f.row_count for f in files)
    return any(e.index_type == HASH_INDEX and e.row_count > rows for e in index)
