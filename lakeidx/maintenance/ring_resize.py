"""Resizes the rings of consistent hashing: splits buckets that grew, merges small ones, and rewrites their rows.

One commit (kind COMPACT: no row changes) removes all data files and hash index files of the old buckets and adds those
of the new ones. Around it:

1.  rows are merged and written into the new buckets     dies here: unreferenced files, removed as orphans
2.  the new rings are put beside the old ones            dies here: rings without a commit, which are ignored
3.  the snapshot is put
4.  the new rings are marked                             dies here: their commit is in the table, so they are valid

The commit insists on the very files it has read, so a batch that came in between makes it plan again; and it changes the
hash index of the partition, so a batch that was placed by the old ring and comes later is placed again.

A key goes to the new bucket that the ring says, if it says one. Two kinds of keys it may say otherwise of: those that another
writer (Java) placed in an old bucket, and those that share the hash of a key that was there before; both are found by the HASH
index, never by the ring. They go to whichever new bucket is next on the ring, and all keys of one hash to the same.

source   org.apache.hudi.client.clustering.run.strategy.SparkConsistentBucketClusteringExecutionStrategy, release 1.0.2
         (what a resize rewrites); one commit of data and index, and the fit of ring and snapshot, are lakeidx's own
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from lakeidx.batch.commit_priority import commit_with_priority
from lakeidx.bucket_assignment.hash_set import sorted_distinct
from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.compaction.rewrite import check_can_compact
from lakeidx.data.engines import make_engine
from lakeidx.data.merge.levels import with_level
from lakeidx.data.merge.merge_runs import merge_sorted_runs
from lakeidx.data.read_data_file import read_data_file
from lakeidx.data.write_data_file import DEFAULT_TARGET_BYTES, DataFileWriter
from lakeidx.errors import CommitConflictError, InvalidInputError
from lakeidx.format.data_file import DataFileMeta, FileSource
from lakeidx.format.deletion_vector import Positions
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.key_index.bucket.bucket_index import has_rings, ring_fields
from lakeidx.key_index.bucket.consistent_hashing import HashingMetadata, nodes_of, resized_ring, ring_places
from lakeidx.key_index.bucket.rings import HashRings, Resize, bucket_of_node, plan_resizes
from lakeidx.key_index.keys.record_key import record_keys
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.port import IndexContext
from lakeidx.key_index.registry import built_beside
from lakeidx.key_index.table_view import make_tag_context
from lakeidx.results import Result
from lakeidx.table.commit.changes import CommitRequest, TableChanges, merge_changes
from lakeidx.table.deletion_vectors import StoredVector, deletion_vectors, read_deletion_vector
from lakeidx.table.index_files import write_hash_index
from lakeidx.table.intervals import sections_of
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import on_newest
from lakeidx.table.scan.incremental import IncrementalMode
from lakeidx.table.stream.follow import least_level
from lakeidx.table.view import SnapshotView, decode_partition_dict, load_view
from lakeidx.tasks.runner import Runner

_MAX_ROUNDS = 10


class ResizeReport(Result, BaseModel):
    """Report of a resize, or in a dry run its plan.

    splits, merges   one bucket into two; several neighbours into one
    resized          per resize: partition path, old and new buckets, bytes of the old ones
    """

    model_config = ConfigDict(frozen=True)

    snapshot_ids: tuple[int, ...]
    splits: int
    merges: int
    rows: int
    bytes_in: int
    bytes_out: int
    rounds: int
    seconds: float
    dry_run: bool = False
    resized: tuple[dict[str, str | int | tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class RingRewrite:
    """One resize's rewrite; pickles.

    ring      after all resizes of the partition
    files     of the old buckets, each with its bucket
    vectors   (bucket, data file) -> where its deletion vector lies
    """

    metadata: TableMetadata
    schema: TableSchema
    partition: bytes
    plan: Resize
    ring: HashingMetadata
    files: tuple[tuple[int, DataFileMeta], ...]
    index: tuple[IndexEntry, ...]
    total_buckets: int
    vectors: Mapping[tuple[int, str], StoredVector] = field(default_factory=dict)

    @property
    def bytes_in(self) -> int:
        """Bytes of the old buckets."""
        return sum(f.file_size for _, f in self.files)


def run_ring_resize(
    metadata: TableMetadata,
    runner: Runner,
    *,
    index_dir: str,
    partitions: Collection[bytes] | None = None,
    target_bytes: int | None = None,
    dry_run: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> ResizeReport:
    """Split and merge the buckets of a table by their sizes.

    index_dir      where the table's rings are
    partitions     only these (partition bytes)
    target_bytes   wanted size of a bucket, which the thresholds multiply; default ``target-file-size``
    errors         InvalidInputError for a table without rings, and for one whose compaction has yet to write changelog rows of
                   a bucket to resize; CommitConflictError when other writers were faster again and again
    """
    run = _Run(metadata, runner, index_dir, partitions, target_bytes, dry_run, sleep)
    # Buckets whose files others have replaced, and whose snapshot has expired since, are planned again, too.
    while (report := on_newest(metadata, run.once)) is None:
        pass
    return report


@dataclass(slots=True)
class _Run:
    """A resize as it was asked for, and how often it was tried."""

    metadata: TableMetadata
    runner: Runner
    index_dir: str
    partitions: Collection[bytes] | None
    target_bytes: int | None
    dry_run: bool
    sleep: Callable[[float], None]
    started: float = field(default_factory=time.monotonic)
    tries: int = 0

    def once(self, snapshot: Snapshot | None) -> ResizeReport | None:
        """Resize the buckets of a state; None when other writers were faster, and it may be tried again."""
        self.tries += 1
        metadata = self.metadata
        # After the snapshot: a file of a newer schema would lose its new columns.
        schema = metadata.latest_schema()
        _check_has_rings(schema)
        check_can_compact(schema)
        wanted = self.target_bytes or schema.table_options.target_file_size or DEFAULT_TARGET_BYTES
        context = make_tag_context(metadata, snapshot, index_dir=self.index_dir)
        rings = HashRings(context)
        view = load_view(metadata, snapshot, partitions=self.partitions)
        work = _plan_rewrites(metadata, schema, view, context, rings, target_bytes=wanted)
        _check_changelog_complete(schema, work)
        if self.dry_run or not work:
            return _report((), work, (), self.tries, self.started, dry_run=self.dry_run)
        done = self.runner.map(_rewrite_buckets, work, label=f"ring_resize: {metadata.paths.root}")
        user = f"lakeidx-resize-{uuid.uuid4()}"
        plans = [w.plan for w in work]
        try:
            rings.save(plans, user, _live_buckets(view, context))
            request = CommitRequest(
                commit_user=user,
                changes=merge_changes(done),
                base_snapshot_id=view.snapshot.id if view.snapshot is not None else None,
                exact_files=_exact_files(work),
                vectors={(w.partition, bucket, name): v for w in work for (bucket, name), v in w.vectors.items()},
                schema=schema,
            )
            result = commit_with_priority(metadata, request, sleep=self.sleep)
        except CommitConflictError:
            rings.give_up(plans, user)
            if self.tries >= _MAX_ROUNDS:
                raise
            return None
        rings.confirm(plans, user)
        return _report(result.snapshot_ids, work, done, self.tries, self.started)


def _check_has_rings(schema: TableSchema) -> None:
    """Raise InvalidInputError unless the table's buckets are those of rings."""
    if not has_rings(IndexOptions(schema.options)):
        raise InvalidInputError(
            "only tables with index.type = bucket and hoodie.index.bucket.engine = CONSISTENT_HASHING have rings to resize"
        )
    if schema.bucket_mode is not BucketMode.HASH_DYNAMIC:
        raise InvalidInputError("rings need a table with dynamic buckets: option bucket = -1")


def _check_changelog_complete(schema: TableSchema, work: Sequence[RingRewrite]) -> None:
    """Raise InvalidInputError when rows to move are in no changelog yet: the changelog of a later compaction would lack them."""
    least = least_level(schema, IncrementalMode.AUTO) or 0
    for w in work:
        bucket = next((b for b, f in w.files if f.level < least), None)
        if bucket is not None:
            producer = schema.table_options.changelog_producer
            full = " --full" if producer == "full-compaction" else ""
            raise InvalidInputError(
                f"bucket {bucket} of partition {w.plan.partition or '(the only one)'} has rows that are not in the changelog yet "
                f"and would be missing from it after a resize: changelog-producer={producer}; run `lakeidx compact{full}` first",
                path=w.metadata.paths.root,
            )


def _plan_rewrites(
    metadata: TableMetadata,
    schema: TableSchema,
    view: SnapshotView,
    context: IndexContext,
    rings: HashRings,
    *,
    target_bytes: int,
) -> list[RingRewrite]:
    """Plan the rewrites a state of the table's options request, largest first."""
    by_bucket = view.by_bucket()
    vectors = deletion_vectors(view.index)
    out: list[RingRewrite] = []
    for partition in dict.fromkeys(p for p, _ in by_bucket):
        text = context.view.partition_text(partition)
        mine = {b: files for (p, b), files in by_bucket.items() if p == partition}
        ring = rings.load(text, mine)
        sizes = {b: sum(f.file_size for f in files) for b, files in mine.items()}
        # Numbers of buckets whose files or hashes are still there are taken, too.
        taken = rings.taken(text) | set(mine) | {e.bucket for e in view.index if e.partition == partition}
        plans = plan_resizes(ring, sizes, context.options, target_bytes=target_bytes, taken=taken)
        after = resized_ring(ring, ring.instant, [n for plan in plans for n in plan.children]) if plans else ring
        total = next(e.total_buckets for e in view.entries if e.partition == partition)
        for plan in plans:
            files = tuple((b, f) for b in plan.parents for f in mine.get(b, ()))
            marks = {(b, f.file_name): vectors[(partition, b, f.file_name)] for b, f in files
                     if (partition, b, f.file_name) in vectors}  # fmt: skip
            index = tuple(e for e in view.index if e.partition == partition and e.bucket in plan.parents)
            out.append(RingRewrite(metadata, schema, partition, plan, after, files, index, total, marks))
    return sorted(out, key=lambda w: -w.bytes_in)


def _rewrite_buckets(work: RingRewrite) -> TableChanges:
    """Write the rows of the old buckets into the new ones (runs in a task).

    memory   a batch per sorted run, and a row group being written: the old buckets are read once per new bucket
    errors   CorruptFileError, NotFoundError naming the data file
    """
    entries = [_entry(work, FileKind.DELETE, bucket, file) for bucket, file in work.files]
    index = [replace(e, kind=FileKind.DELETE) for e in work.index]
    children = _child_buckets(work.ring, work.plan.buckets, _keys_of(work), work.schema)
    for bucket in work.plan.buckets:
        made, hashes = _write_bucket(work, bucket, children)
        entries += [_entry(work, FileKind.ADD, bucket, file) for file in made]
        if len(hashes):
            index.append(write_hash_index(work.metadata, work.schema, work.partition, bucket, hashes, NewFileNames()))
    return TableChanges(compact=tuple(entries), compact_index=tuple(index))


def _entry(work: RingRewrite, kind: FileKind, bucket: int, file: DataFileMeta) -> ManifestEntry:
    return ManifestEntry(
        kind=kind, partition=work.partition, bucket=bucket, total_buckets=work.total_buckets, file=file
    )


def _keys_of(work: RingRewrite) -> Iterator[pa.Table]:
    """Return the keys of the old buckets, file by file."""
    for bucket, file in work.files:
        yield from _read_run(work, [(bucket, file)], columns=work.schema.trimmed_primary_keys)


def _write_bucket(work: RingRewrite, bucket: int, children: _ChildBuckets) -> tuple[list[DataFileMeta], np.ndarray]:
    """Write the files of one new bucket, and return the sorted hashes of its keys."""
    schema = work.schema
    hashes: list[np.ndarray] = [np.zeros(0, np.int32)]

    def watched() -> Iterator[pa.Table]:
        for rows, found in _rows_of(work, bucket, children):
            hashes.append(found)
            yield rows

    partition = decode_partition_dict(work.partition, schema)
    made = DataFileWriter(
        schema,
        store=work.metadata.store,
        bucket_dir=work.metadata.paths.bucket_dir(partition, bucket),
        names=NewFileNames(),
        level=schema.table_options.max_levels - 1,
        file_source=FileSource.COMPACT,
        **built_beside(schema),
    ).write_all(watched())
    return made, sorted_distinct(np.concatenate(hashes))


def _rows_of(work: RingRewrite, bucket: int, children: _ChildBuckets) -> Iterator[tuple[pa.Table, np.ndarray]]:
    """Yield merged rows of the old buckets that go to a new one, in key order, with their hashes; deleted keys left out."""
    schema = work.schema
    names = schema.trimmed_primary_keys
    bucket_of = {f.file_name: b for b, f in work.files}
    # Buckets share no key, so the files of all of them merge as if they were one bucket's.
    for section in sections_of([f for _, f in work.files], schema.key_types):
        runs = [_read_run(work, [(bucket_of[f.file_name], f) for f in run]) for run in section]
        for rows in merge_sorted_runs(runs, schema, make_engine(schema), drop_deletes=True):
            hashes = hash_columns([rows.column(n) for n in names], schema.key_types)
            mine = children.of(hashes) == bucket
            if mine.any():
                yield (rows if mine.all() else rows.filter(pa.array(mine))), hashes[mine]


def _read_run(
    work: RingRewrite, run: Sequence[tuple[int, DataFileMeta]], columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    partition = decode_partition_dict(work.partition, work.schema)
    for bucket, file in run:
        path = work.metadata.paths.data_file(partition, bucket, file.file_name, external_path=file.external_path)
        rows = read_data_file(
            work.metadata.store,
            path,
            file,
            work.metadata.load_schema(file.schema_id),
            work.schema,
            columns or work.schema.field_names,
            deletion_vector=_vector(work, bucket, file),
        )
        yield from with_level(rows, file.level) if work.schema.table_options.merges_by_level else rows


def _vector(work: RingRewrite, bucket: int, file: DataFileMeta) -> Positions | None:
    found = work.vectors.get((bucket, file.file_name))
    return None if found is None else read_deletion_vector(work.metadata, work.schema, work.partition, bucket, found)


def _exact_files(work: Sequence[RingRewrite]) -> dict[tuple[bytes, int], frozenset[str]]:
    """Check that old buckets still have the files that were read, and new ones none."""
    out: dict[tuple[bytes, int], frozenset[str]] = {}
    for w in work:
        for bucket in w.plan.parents:
            out[(w.partition, bucket)] = frozenset(f.file_name for b, f in w.files if b == bucket)
        for bucket in w.plan.buckets:
            out[(w.partition, bucket)] = frozenset()
    return out


def _live_buckets(view: SnapshotView, context: IndexContext) -> dict[str, set[int]]:
    out: dict[str, set[int]] = {}
    for partition, bucket in view.by_bucket():
        out.setdefault(context.view.partition_text(partition), set()).add(bucket)
    return out


def _report(
    ids: tuple[int, ...],
    work: Sequence[RingRewrite],
    done: Sequence[TableChanges],
    rounds: int,
    started: float,
    *,
    dry_run: bool = False,
) -> ResizeReport:
    added = [e.file for changes in done for e in changes.new_files()]
    return ResizeReport(
        snapshot_ids=ids,
        splits=sum(len(w.plan.parents) == 1 for w in work),
        merges=sum(len(w.plan.parents) > 1 for w in work),
        rows=sum(f.row_count for f in added),
        bytes_in=sum(w.bytes_in for w in work),
        bytes_out=sum(f.file_size for f in added),
        rounds=rounds,
        seconds=time.monotonic() - started,
        dry_run=dry_run,
        resized=tuple(
            {"partition": w.plan.partition, "from": w.plan.parents, "to": w.plan.buckets, "bytes": w.bytes_in}
            for w in work
        ),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _ChildBuckets:
    """Hash -> new bucket.

    hashes    int32[u] ascending, of all keys of the old buckets; empty when there is one new bucket, which takes all
    buckets   int32[u]
    only      the one new bucket, None when there are several
    """

    hashes: NDArray[np.int32]
    buckets: NDArray[np.int32]
    only: int | None = None

    def of(self, hashes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the bucket of each key hash, int32[n]; all of them must be known."""
        if self.only is not None:
            return np.full(len(hashes), self.only, np.int32)
        return self.buckets[np.searchsorted(self.hashes, hashes)]


def _child_buckets(
    ring: HashingMetadata, children: Iterable[int], keys: Iterable[pa.Table], schema: TableSchema
) -> _ChildBuckets:
    """Decide over all keys of the old buckets.

    ring       after the resize
    children   the new buckets
    keys       tables with at least the trimmed primary key, deleted keys too
    memory     8 bytes per key, sorted
    """
    mine = sorted(set(children))
    none = np.zeros(0, np.int32)
    if len(mine) == 1:
        return _ChildBuckets(none, none, mine[0])
    part = replace(ring, nodes=tuple(n for n in ring.nodes if n.file_id_prefix and bucket_of_node(n) in mine))
    buckets = np.array([bucket_of_node(n) for n in part.nodes], np.int64)
    names = list(schema.trimmed_primary_keys)
    fields = ring_fields(names, IndexOptions(schema.options))
    packed = [np.zeros(0, np.int64)]
    for rows in keys:
        if rows.num_rows:
            columns = [rows.column(n) for n in names]
            goes = buckets[nodes_of(part, ring_places(record_keys(columns, names), fields))]
            packed.append(hash_columns(columns, schema.key_types).astype(np.int64) << 32 | goes)
    # Sorted by hash, then bucket: of a hash that the ring sends to several the smallest bucket takes all.
    every = np.sort(np.concatenate(packed))
    hashes = (every >> 32).astype(np.int32)
    first = np.append(True, hashes[1:] != hashes[:-1]) if len(hashes) else np.zeros(0, np.bool_)
    return _ChildBuckets(hashes[first], (every[first] & 0xFFFFFFFF).astype(np.int32))
