"""Stage `compaction`: plans every bucket, compacts those that need it side by side, and commits a COMPACT snapshot.

When somebody else compacted or overwrote a bucket meanwhile, that bucket is planned again; what was made of the others is
kept.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from pydantic import BaseModel, ConfigDict

from lakeidx.compaction.append_plan import plan_append_compaction
from lakeidx.compaction.options import compaction_options
from lakeidx.compaction.pick import PickReason
from lakeidx.compaction.plan import CompactionTask, plan_compaction
from lakeidx.compaction.rewrite import BucketCompaction, CompactedBucket, check_can_compact, compact_bucket
from lakeidx.errors import CommitConflictError, InvalidInputError
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.schema import BucketMode, TableSchema
from lakeidx.pipeline.index_hooks import tell_of_compaction
from lakeidx.pipeline.runner import Runner
from lakeidx.table.changes import CommitRequest, merge_changes
from lakeidx.table.commit import commit_changes
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan_plan import deletion_vector_ranges
from lakeidx.table.view import HASH_INDEX, SnapshotView, load_view

#: Table option: a full compaction drops the hashes of deleted keys from the hash index.
SHRINK_OPTION = "lakeidx.hash-index.shrink"
_MAX_ROUNDS = 10


class CompactionReport(BaseModel):
    """What a compaction did, or (dry run) would do.

    picked      per bucket: partition hex, bucket, reason, files, bytes to rewrite, output level
    """

    model_config = ConfigDict(frozen=True)

    snapshot_ids: tuple[int, ...]
    buckets: int
    files_in: int
    files_out: int
    files_upgraded: int
    rows_in: int
    rows_out: int
    bytes_in: int
    bytes_out: int
    hashes_dropped: int
    rounds: int
    seconds: float
    dry_run: bool = False
    picked: tuple[dict[str, str | int], ...] = ()


def plan_buckets(
    metadata: TableMetadata,
    schema: TableSchema,
    view: SnapshotView,
    *,
    full: bool,
    only: Collection[tuple[bytes, int]] | None = None,
    shrink: bool = False,
    now_ms: int | None = None,
) -> list[BucketCompaction]:
    """The compactions a state of the table asks for, heaviest first.

    full   everything into the top level; also what tables do that need a lookup to compact only a part (deletion
           vectors, first-row): a whole-bucket merge gives the same rows without one
    only   these buckets
    """
    vectors = deletion_vector_ranges(view.index)
    total = {(e.partition, e.bucket): e.total_buckets for e in view.entries}
    keyed = bool(schema.primary_keys)
    whole = full or (keyed and compaction_options(schema).needs_lookup)
    hour = datetime.now().hour
    out = []
    places = view.by_bucket()
    if shrink:
        # Buckets whose last row was compacted away have an index and no files.
        places |= {(e.partition, e.bucket): [] for e in view.index if (e.partition, e.bucket) not in places}
    for (partition, bucket), files in places.items():
        if bucket < 0 or (only is not None and (partition, bucket) not in only):
            continue
        mine = {f.file_name: vectors[(partition, bucket, f.file_name)] for f in files
                if (partition, bucket, f.file_name) in vectors}  # fmt: skip
        index = tuple(e for e in view.index if (e.partition, e.bucket) == (partition, bucket))
        if keyed:
            task = plan_compaction(files, schema, full=whole, now_ms=now_ms, hour=hour, must_rewrite=set(mine))
        else:
            task = plan_append_compaction(files, schema, full=full, must_rewrite=set(mine))
        if task is None and shrink and _has_dead_hashes(files, index):
            top = max((f.level for f in files), default=0)
            task = CompactionTask((), top, top, PickReason.FULL, True)
        if task is None:
            continue
        replaced = {f.file_name for f in task.files}
        out.append(
            BucketCompaction(
                metadata,
                schema,
                partition,
                bucket,
                total.get((partition, bucket), schema.bucket),
                task,
                tuple(f for f in files if f.file_name not in replaced),
                mine,
                index,
                shrink_index=shrink,
            )
        )
    return sorted(out, key=lambda w: -w.task.rewrite_bytes)


def _has_dead_hashes(files: Sequence[DataFileMeta], index: Sequence[IndexEntry]) -> bool:
    """True when a bucket that is fully compacted has more hashes than rows: keys were deleted and compacted away before."""
    rows = sum(f.row_count for f in files)
    return any(e.index_type == HASH_INDEX and e.row_count > rows for e in index)


def run_compaction(
    metadata: TableMetadata,
    runner: Runner,
    *,
    full: bool = False,
    partitions: Collection[bytes] | None = None,
    shrink: bool | None = None,
    dry_run: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> CompactionReport:
    """Compact a table.

    full         merge every bucket into the top level; else what universal compaction picks, bucket by bucket
    partitions   only these (partition bytes)
    shrink       drop the hashes of deleted keys from the hash index (full compactions of dynamic-bucket tables);
                 None = as the table option ``lakeidx.hash-index.shrink`` says
    dry_run      only plan
    errors       CommitConflictError when other writers were faster again and again; UnsupportedError, CorruptFileError
    """
    started = time.monotonic()
    schema = metadata.latest_schema()
    check_can_compact(schema)
    shrinks = _shrinks(schema) if shrink is None else shrink
    shrinks = shrinks and full and schema.bucket_mode is BucketMode.HASH_DYNAMIC
    now_ms = int(time.time() * 1000)
    view = load_view(metadata, metadata.latest_snapshot(), partitions=partitions)
    work = plan_buckets(metadata, schema, view, full=full, shrink=shrinks, now_ms=now_ms)
    if dry_run or not work:
        return _report((), work, [], 0, started, dry_run=dry_run)
    done = runner.map(compact_bucket, work, label="compaction")
    kept = list(zip(work, done, strict=True))
    user = f"lakeidx-compact-{uuid.uuid4()}"
    for attempt in range(1, _MAX_ROUNDS + 1):
        request = _request(user, kept, view)
        try:
            result = commit_changes(metadata, request, sleep=sleep)
            tell_of_compaction(metadata, schema, result.snapshot_ids, request.changes)
            return _report(result.snapshot_ids, [w for w, _ in kept], [d for _, d in kept], attempt, started)
        except CommitConflictError:
            if attempt == _MAX_ROUNDS:
                raise
        view = load_view(metadata, metadata.latest_snapshot(), partitions=partitions)
        kept, stale = _sort_out(kept, view)
        again = plan_buckets(metadata, schema, view, full=full, only=stale, shrink=shrinks, now_ms=now_ms)
        kept += list(zip(again, runner.map(compact_bucket, again, label="compaction"), strict=True))
        if not kept:
            return _report((), [], [], attempt, started)
    raise AssertionError("unreachable")


def _shrinks(schema: TableSchema) -> bool:
    text = schema.options.get(SHRINK_OPTION, "false").lower()
    if text not in ("true", "false"):
        raise InvalidInputError(f"{SHRINK_OPTION}: write true or false, not {text!r}")
    return text == "true"


Done = tuple[BucketCompaction, CompactedBucket]


def _needs_same_files(work: BucketCompaction, done: CompactedBucket) -> bool:
    """True when the bucket must hold exactly the files it was planned on.

    A shrunk index must not hide a key that came meanwhile. With deletion vectors, somebody else's compaction of new level-0
    files would mark rows of the files that were read, without replacing them.
    """
    if work.schema.table_options.deletion_vectors_enabled:
        return True
    return any(e.index_type == HASH_INDEX for e in done.changes.compact_index)


def _request(user: str, kept: Sequence[Done], view: SnapshotView) -> CommitRequest:
    exact = {w.place: w.all_files for w, d in kept if _needs_same_files(w, d)}
    return CommitRequest(
        commit_user=user,
        changes=merge_changes(d.changes for _, d in kept),
        base_snapshot_id=None if view.snapshot is None else view.snapshot.id,
        exact_files=exact,
    )


def _sort_out(kept: Sequence[Done], view: SnapshotView) -> tuple[list[Done], set[tuple[bytes, int]]]:
    """Work whose inputs are all still live, and the buckets of the rest."""
    live = {place: {(f.file_name, f.level) for f in files} for place, files in view.by_bucket().items()}
    good: list[Done] = []
    stale: set[tuple[bytes, int]] = set()
    for w, d in kept:
        inputs = {(f.file_name, f.level) for f in w.task.files}
        before = inputs | {(f.file_name, f.level) for f in w.kept}
        now = live.get(w.place, set())
        moved = any(level > 0 for _, level in now - before)
        if inputs <= now and not moved and not (_needs_same_files(w, d) and now != before):
            good.append((w, d))
        else:
            stale.add(w.place)
    return good, stale


def _report(
    ids: tuple[int, ...],
    work: Sequence[BucketCompaction],
    done: Sequence[CompactedBucket],
    rounds: int,
    started: float,
    *,
    dry_run: bool = False,
) -> CompactionReport:
    picked: tuple[dict[str, str | int], ...] = tuple(
        {
            "partition": w.partition.hex(),
            "bucket": w.bucket,
            "reason": str(w.task.reason.value),
            "files": len(w.task.files),
            "rewrite_bytes": w.task.rewrite_bytes,
            "output_level": w.task.output_level,
        }
        for w in work
    )
    return CompactionReport(
        snapshot_ids=ids,
        buckets=len(work),
        files_in=sum(len(w.task.files) for w in work),
        files_out=sum(e.kind == 0 for d in done for e in d.changes.compact),
        files_upgraded=sum(d.upgraded for d in done),
        rows_in=sum(d.rows_in for d in done),
        rows_out=sum(d.rows_out for d in done),
        bytes_in=sum(d.bytes_in for d in done),
        bytes_out=sum(d.bytes_out for d in done),
        hashes_dropped=sum(max(d.hashes_dropped, 0) for d in done),
        rounds=rounds,
        seconds=time.monotonic() - started,
        dry_run=dry_run,
        picked=picked,
    )
