"""Stage `compaction`: plans every bucket, compacts those that need it side by side, and commits COMPACT snapshots, group by group.

A large bucket goes to several tasks, each of which gets a range of keys. A bucket that cannot be compacted is left out and named at
the end. A driver that dies loses the group it was in.

When another writer compacted or overwrote a bucket in the meantime, that bucket is planned again; what was made of the others is
kept.

Cuts the compaction of a large bucket into shares by key range, so that one hot bucket does not end last, and joins them.

A share merges its range of all runs into files of its own: the ranges do not overlap, so all files together are one sorted run, as
one task had made it. They are cut where files of the largest run begin, for the output is mostly that run again, and files keep
their size. The bucket is committed as a whole.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any

from pydantic import BaseModel, ConfigDict

from lakeidx.batch.commit_priority import commit_with_priority
from lakeidx.batch.index_hooks import on_compaction
from lakeidx.compaction.bucket import BucketCompaction, CompactedBucket, entry_of
from lakeidx.compaction.index_changes import vector_changes
from lakeidx.compaction.key_range import KeyRange
from lakeidx.compaction.options import compaction_options
from lakeidx.compaction.plan import Rewrite, Step
from lakeidx.compaction.plan_buckets import plan_buckets
from lakeidx.compaction.rewrite import check_can_compact, compact_bucket
from lakeidx.errors import CommitConflictError, CommitUnknownError
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.manifest import FileKind
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.format.snapshot import CommitKind
from lakeidx.results import Result
from lakeidx.storage.overlay import OverlayStore
from lakeidx.table.commit.changes import CommitRequest, TableChanges, merge_changes
from lakeidx.table.commit.commit_changes import commit_changes
from lakeidx.table.commit.conflicts import index_file_conflicts
from lakeidx.table.commit.earlier_commit import may_plan_again, missing_files
from lakeidx.table.deletion_vectors import deletion_vectors
from lakeidx.table.expiration.automatic_tags import make_automatic_tags
from lakeidx.table.intervals import RankedFile, Section, rank_files
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import is_superseded, load_newest
from lakeidx.table.view import HASH_INDEX, SnapshotView, decode_partition_dict
from lakeidx.tasks.groups import GroupedWork
from lakeidx.tasks.in_parallel import runner_of_small_files
from lakeidx.tasks.limits import available_cores, peak_bytes
from lakeidx.tasks.runner import LocalRunner, Runner

COMPACT_USER, FULL_COMPACT_USER = "lakeidx-compact", "lakeidx-compact-full"
"""How the commit users of compactions begin; those of full compactions of the whole table."""
_MAX_ROUNDS = 10
#: Bytes that a dry run rewrites in memory at most.
_TRIED_BYTES = 256 << 20
_NOTHING = (
    "nothing to compact: no bucket has num-sorted-run.compaction-trigger sorted runs or more; a full compaction (--full) takes "
    "all that are not one run yet"
)


Done = tuple[BucketCompaction, CompactedBucket]


class CompactionReport(Result, BaseModel):
    """Report of a compaction, or in a dry run its plan: what the run would say, where the buckets that were tried are not all of
    them by the bytes that they rewrite; where none is light enough to be tried, `bytes_in` alone.

    seconds     of a dry run those that the run would take, in this process
    memory      bytes that this process had at most until it was done; a dry run has the files it makes in it
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
    changelog_rows: int = 0
    rounds: int
    seconds: float
    memory: int | None = None
    dry_run: bool = False
    picked: tuple[dict[str, str | int], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the metrics; what was picked only of a dry run."""
        return self.model_dump(exclude=set() if self.dry_run else {"picked"})

    def note(self) -> str:
        """Return why nothing was rewritten."""
        if self.dry_run:
            return f"{len(self.picked)} buckets would be compacted" if self.picked else _NOTHING
        return "" if self.buckets else _NOTHING


def run_compaction(
    metadata: TableMetadata,
    runner: Runner,
    *,
    full: bool = False,
    partitions: Collection[bytes] | None = None,
    shrink: bool | None = None,
    gentle: bool = False,
    dry_run: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> CompactionReport:
    """Compact a table.

    full         merge every bucket into the top level; else what universal compaction picks, bucket by bucket
    partitions   only these (partition bytes)
    shrink       drop the hashes of deleted keys from the hash index (full compactions of dynamic-bucket tables);
                 None = as the table option ``lakeidx.hash-index.shrink`` says
    gentle       leave level 0 of tables with ``lookup-compact`` = gentle until it has enough runs
    dry_run      plan, and try in memory what the lightest buckets take
    errors       of the kind of the first bucket's that could not be compacted, naming it, when all others are committed;
                 CommitConflictError when other writers were faster again and again; UnsupportedError, CorruptFileError
    """
    started = time.monotonic()
    now_ms = int(time.time() * 1000)
    schema, view = _newest(metadata, partitions)
    shrinks = _shrinks(schema, shrink, full=full)
    work = plan_buckets(metadata, schema, view, full=full, shrink=shrinks, now_ms=now_ms, gentle=gentle)
    if not work:
        return _report((), (), [], 0, started, dry_run=dry_run)
    if dry_run:
        return _tried(metadata, work, started)
    tasks = _tasks(metadata, runner, work)
    run = _Run(metadata, tasks, full, shrink, gentle, now_ms, sleep, schema, view)
    groups = list(tasks.groups(work))
    for number, group in enumerate(groups, 1):
        run.compact(group, whole=full and partitions is None and number == len(groups))
        if tasks.failed and not run.done:
            break
    tasks.raise_failed(len(work), len(run.done))
    return _report(tuple(run.ids), [w for w, _ in run.done], [d for _, d in run.done], run.rounds, started)


@dataclass(slots=True)
class _Run:
    """One compaction of a table, group by group.

    schema, view   as the group at work was planned on
    ids, done      snapshots, and what they hold
    rounds         the largest number of commits that a group tried
    places         buckets that were worked on, by their directory
    """

    metadata: TableMetadata
    tasks: GroupedWork[BucketCompaction, CompactedBucket]
    full: bool
    shrink: bool | None
    gentle: bool
    now_ms: int
    sleep: Callable[[float], None]
    schema: TableSchema
    view: SnapshotView
    ids: list[int] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)
    rounds: int = 0
    places: dict[str, tuple[bytes, int]] = field(default_factory=dict)

    def compact(self, work: Sequence[BucketCompaction], *, whole: bool) -> None:
        """Compact a group and commit it; a bucket that another writer changed meanwhile is planned again.

        whole   with it the table is compacted fully, unless a bucket failed
        """
        kept = self._caught_up(self._compacted(work))
        # Groups have names of their own, or one would be taken for another that is in the table.
        user = f"{FULL_COMPACT_USER if whole and not self.tasks.failed else COMPACT_USER}-{uuid.uuid4()}"
        for attempt in range(1, _MAX_ROUNDS + 1):
            if not kept:
                return
            self.rounds = max(self.rounds, attempt)
            request = _request(user, kept, self.view, self.schema)
            try:
                result = commit_with_priority(self.metadata, request, sleep=self.sleep)
            except (CommitConflictError, CommitUnknownError) as error:
                if attempt == _MAX_ROUNDS or not may_plan_again(error, request.changes):
                    raise
                kept = self._caught_up(self._again(kept))
                continue
            self.ids += result.snapshot_ids
            self.done += kept
            on_compaction(self.metadata, self.schema, result.snapshot_ids, request)
            make_automatic_tags(self.metadata, self.schema)
            return

    def _compacted(self, work: Sequence[BucketCompaction]) -> list[Done]:
        self.places |= {_directory(w): w.place for w in work}
        return _compact_in_shares(self.tasks, work)

    def _caught_up(self, kept: list[Done]) -> list[Done]:
        """Plan buckets again whose files are gone, because others have compacted them and the snapshot has expired since."""
        while self.tasks.failed and is_superseded(self.metadata, self.view.snapshot):
            gone = self.tasks.take_missing()
            if not gone:
                break
            kept = self._again(kept, {self.places[name] for name in gone})
        return kept

    def _again(self, kept: Sequence[Done], gone: Collection[tuple[bytes, int]] = ()) -> list[Done]:
        """Plan again what is not valid any more, and the buckets that are `gone`."""
        partitions = {w.partition for w, _ in kept} | {partition for partition, _ in gone}
        self.schema, self.view = _newest(self.metadata, partitions)
        good, stale = _sort_out(kept, self.view, self.schema)
        stale.update(gone)
        again = plan_buckets(
            self.metadata,
            self.schema,
            self.view,
            full=self.full,
            only=stale,
            shrink=_shrinks(self.schema, self.shrink, full=self.full),
            now_ms=self.now_ms,
            gentle=self.gentle,
        )
        return good + self._compacted(again)


def _tasks(
    metadata: TableMetadata, runner: Runner, work: Sequence[BucketCompaction]
) -> GroupedWork[BucketCompaction, CompactedBucket]:
    label = f"compaction: {metadata.paths.root}"
    readers = runner_of_small_files(runner, metadata.store, max(map(_rewrite_bytes, work)))
    return GroupedWork(readers, compact_bucket, _directory, _rewrite_bytes, label, ("buckets", "compacted"))


def _tried(metadata: TableMetadata, work: Sequence[BucketCompaction], started: float) -> CompactionReport:
    """Compact the lightest buckets in memory, in this process, and say what all of them take; `work`: heaviest first."""
    above = metadata.over(OverlayStore(metadata.store))
    bytes_of = list(accumulate(map(_rewrite_bytes, reversed(work))))
    some = [replace(w, metadata=above) for w in work[len(work) - sum(n <= _TRIED_BYTES for n in bytes_of) :]]
    plan = _report((), work, [], 0, started, dry_run=True).model_copy(update={"bytes_in": bytes_of[-1]})
    if not some:
        return plan
    tasks, begun = _tasks(above, LocalRunner(available_cores()), some), time.monotonic()
    done = [d for _, d in _compact_in_shares(tasks, some)]
    tasks.raise_failed(len(some), len(done))
    took = time.monotonic() - begun
    found = _report((), some, done, 0, begun, dry_run=True)
    part = 1.0 if len(some) == len(work) else bytes_of[-1] / max(1, found.bytes_in)
    counts = (
        "files_out",
        "files_upgraded",
        "rows_in",
        "rows_out",
        "bytes_in",
        "bytes_out",
        "hashes_dropped",
        "changelog_rows",
    )
    more = {n: round(getattr(found, n) * part) for n in counts}
    return plan.model_copy(update={**more, "seconds": begun - started + took * part, "memory": found.memory})


def _directory(work: BucketCompaction) -> str:
    return work.metadata.paths.bucket_dir(decode_partition_dict(work.partition, work.schema), work.bucket)


def _rewrite_bytes(work: BucketCompaction) -> int:
    return work.task.rewrite_bytes


def _newest(metadata: TableMetadata, partitions: Collection[bytes] | None) -> tuple[TableSchema, SnapshotView]:
    """Load the newest schema and state; the schema is read last, since files of a newer one would lose their new columns."""
    view = load_newest(metadata, partitions=partitions)
    schema = metadata.latest_schema()
    check_can_compact(schema)
    return schema, view


def _shrinks(schema: TableSchema, asked: bool | None, *, full: bool) -> bool:
    """Return True when the hash index is to be shrunk; `asked`: None = by the table's option."""
    if not full or schema.bucket_mode is not BucketMode.HASH_DYNAMIC:
        return False
    return schema.table_options.lakeidx_hash_index_shrink if asked is None else asked


def _needs_same_files(work: BucketCompaction, done: CompactedBucket) -> bool:
    """Return True when the bucket must have exactly the files it was planned on.

    A shrunk index must not hide a key that came in the meantime. With deletion vectors, another writer's compaction of new level-0
    files would mark rows of the files that were read, without replacing them.
    """
    if work.schema.table_options.deletion_vectors_enabled:
        return True
    return any(e.index_type == HASH_INDEX for e in done.changes.compact_index)


def _request(user: str, kept: Sequence[Done], view: SnapshotView, schema: TableSchema) -> CommitRequest:
    exact = {w.place: w.all_files for w, d in kept if _needs_same_files(w, d)}
    return CommitRequest(
        commit_user=user,
        changes=merge_changes(d.changes for _, d in kept),
        base_snapshot_id=None if view.snapshot is None else view.snapshot.id,
        exact_files=exact,
        vectors={(w.partition, w.bucket, name): vector for w, _ in kept for name, vector in w.vectors.items()},
        schema=schema,
        # Nobody else has the name.
        tried_before=False,
    )


def _sort_out(
    kept: Sequence[Done], view: SnapshotView, schema: TableSchema
) -> tuple[list[Done], set[tuple[bytes, int]]]:
    """Separate the work that is still valid from the buckets of the rest."""
    live = {place: {(f.file_name, f.level) for f in files} for place, files in view.by_bucket().items()}
    vectors = deletion_vectors(view.index)
    good: list[Done] = []
    stale: set[tuple[bytes, int]] = set()
    for w, d in kept:
        holds = (
            w.schema == schema
            and _has_its_files(w, d, live.get(w.place, set()))
            and all(vectors.get((*w.place, f.file_name)) == w.vectors.get(f.file_name) for f in w.task.files)
            and not index_file_conflicts(view.index, d.changes.compact_index)
            and not missing_files(w.metadata, d.changes)
        )
        if holds:
            good.append((w, d))
        else:
            stale.add(w.place)
    return good, stale


def _has_its_files(work: BucketCompaction, done: CompactedBucket, now: set[tuple[str, int]]) -> bool:
    """Return True when the inputs are live, no one else compacted the bucket, and it has no other files where that matters."""
    inputs = {(f.file_name, f.level) for f in work.task.files}
    before = inputs | {(f.file_name, f.level) for f in work.kept}
    moved = any(level > 0 for _, level in now - before)
    return inputs <= now and not moved and not (_needs_same_files(work, done) and now != before)


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
        changelog_rows=sum(d.changelog_rows for d in done),
        rounds=rounds,
        seconds=time.monotonic() - started,
        memory=peak_bytes(),
        dry_run=dry_run,
        picked=picked,
    )


def compact_manifests(metadata: TableMetadata) -> tuple[int, ...]:
    """Merge the manifests by a COMPACT snapshot of its own, so that none names a file that is not live, nor has its statistics.

    returns   the snapshot's id; none where no manifest has anything to merge
    cost      reads and writes all manifests below ``manifest.target-file-size``
    source    org.apache.paimon.operation.FileStoreCommitImpl.compactManifest, release 1.4.2
    """
    schema, snapshot = metadata.latest_schema(), metadata.latest_snapshot()
    if snapshot is None or not any(m.num_deleted_files for m in metadata.data_manifests(snapshot)):
        return ()
    all_of_them = {"manifest.full-compaction-threshold-size": "0 b", "manifest.merge-min-count": "1"}
    schema = replace(schema, options={**schema.options, **all_of_them})
    request = CommitRequest(
        commit_user=f"{COMPACT_USER}-{uuid.uuid4()}",
        changes=TableChanges(),
        even_empty=CommitKind.COMPACT,
        tried_before=False,
    )
    return commit_changes(metadata, request, schema=schema).snapshot_ids


#: Files of the target size that a share has at least: its last one is not full.
LEAST_FILES = 4


def _compact_in_shares(
    tasks: GroupedWork[BucketCompaction, CompactedBucket], work: Sequence[BucketCompaction]
) -> list[tuple[BucketCompaction, CompactedBucket]]:
    """Compact buckets, large ones in several tasks; return those that succeeded, each with what was made of it."""
    cut = [(w, shares_of(w, n)) for w, n in zip(work, _plan_shares(work, tasks.runner.parallelism), strict=True)]
    made = {id(share): result for share, result in tasks.run([share for _, shares in cut for share in shares])}
    done = []
    for w, shares in cut:
        results = [made[id(s)] for s in shares if id(s) in made]
        if len(results) == len(shares):
            done.append((w, results[0] if shares[0] is w else join_bucket_shares(w, results)))
    return done


def _plan_shares(work: Sequence[BucketCompaction], parallelism: int) -> list[int]:
    """Plan how many shares each bucket's compaction has: as many as it has of what one of the tasks would get.

    parallelism   tasks that run at a time
    """
    total = sum(w.task.rewrite_bytes for w in work)
    if not total or parallelism < 2:
        return [1] * len(work)
    return [
        max(1, min(int(w.task.rewrite_bytes * parallelism / total + 0.5), w.task.rewrite_bytes // _least_bytes(w)))
        for w in work
    ]


def _least_bytes(work: BucketCompaction) -> int:
    return LEAST_FILES * compaction_options(work.schema).target_file_bytes


def shares_of(work: BucketCompaction, parts: int) -> list[BucketCompaction]:
    """Cut a bucket's compaction into shares, at most `parts` of each step; itself alone where it cannot be cut.

    What is not cut: the rewrites of append tables, whose rows have no order; of a shrunk hash index, which needs the hashes of all
    rows; and steps that look keys up in higher levels, which stay.
    """
    if parts < 2 or not work.schema.primary_keys or work.shrink_index:
        return [work]
    whole: list[Step] = []
    shares: list[BucketCompaction] = []
    for step in work.task.steps:
        above = step.lookup and any(f.level > work.task.output_level for f in work.kept)
        ranges = [] if above or not isinstance(step, Rewrite) else _ranges(work, step, parts)
        if len(ranges) < 2:
            whole.append(step)
        shares += [_share(work, (s,), keys) for s, keys in ranges if len(ranges) > 1]
    if not shares:
        return [work]
    return [*([_share(work, tuple(whole), KeyRange())] if whole else []), *shares]


def _share(work: BucketCompaction, steps: tuple[Step, ...], keys: KeyRange) -> BucketCompaction:
    return replace(work, task=replace(work.task, steps=steps), keys=keys)


def _ranges(work: BucketCompaction, step: Rewrite, parts: int) -> list[tuple[Rewrite, KeyRange]]:
    """Cut a rewrite where files of the largest runs of its sections begin."""
    ranked = {r.file.file_name: r for r in rank_files(step.files, work.schema.key_types)}
    main = [f for section in step.sections for f in max(section, key=lambda run: sum(f.file_size for f in run))]
    starts = _starts(main, parts)
    bounds = [None, *starts, None]
    out = []
    for low, high in pairwise(bounds):
        sections, cut = _between(step.sections, ranked, low, high)
        keys = KeyRange(None if low is None else low.min_key, None if high is None else high.min_key, frozenset(cut))
        out.append((replace(step, sections=sections), keys))
    return out


def _starts(files: Sequence[DataFileMeta], parts: int) -> list[DataFileMeta]:
    """Choose the files that shares begin with, but the first: parts of about the same bytes."""
    total, before = sum(f.file_size for f in files), 0
    starts: list[DataFileMeta] = []
    for file in files:
        if before * parts >= total * (len(starts) + 1) and before:
            starts.append(file)
        before += file.file_size
    return starts


def _between(
    sections: Sequence[Section], ranked: dict[str, RankedFile], low: DataFileMeta | None, high: DataFileMeta | None
) -> tuple[tuple[Section, ...], list[str]]:
    """Choose the files with keys from the beginning of one file to that of another one, and those that have others besides."""
    first = -1 if low is None else ranked[low.file_name].low
    end = 2 * len(ranked) if high is None else ranked[high.file_name].low
    cut: list[str] = []

    def inside(file: DataFileMeta) -> bool:
        keys = ranked[file.file_name]
        touches = keys.high >= first and keys.low < end
        if touches and (keys.low < first or keys.high >= end):
            cut.append(file.file_name)
        return touches

    chosen = (tuple(run for run in (tuple(filter(inside, r)) for r in section) if run) for section in sections)
    return tuple(section for section in chosen if section), cut


def join_bucket_shares(work: BucketCompaction, made: Sequence[CompactedBucket]) -> CompactedBucket:
    """Join what tasks made of the shares of a bucket into what one task had made of all of it."""
    task = work.task
    rewritten = [f for step in task.steps if isinstance(step, Rewrite) for f in step.files]
    added = [e for m in made for e in m.changes.compact if e.kind is FileKind.ADD]
    gone = {f.file_name for f in task.files} - {e.file.file_name for e in added}
    return replace(
        made[0],
        changes=replace(
            made[0].changes,
            compact=(*(entry_of(work, FileKind.DELETE, f) for f in task.files), *added),
            compact_index=tuple(vector_changes(work, NewFileNames(), gone, {})),
            compact_changelog=tuple(e for m in made for e in m.changes.compact_changelog),
        ),
        rows_in=sum(f.row_count for f in rewritten),
        rows_out=sum(m.rows_out for m in made),
        bytes_in=sum(f.file_size for f in rewritten),
        bytes_out=sum(m.bytes_out for m in made),
        upgraded=sum(m.upgraded for m in made),
        changelog_rows=sum(m.changelog_rows for m in made),
    )
