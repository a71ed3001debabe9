"""Stage `bucket_assignment`: every staged row gets its (partition, bucket); only key columns are read.

Dynamic-bucket tables: the HASH index of the partitions the batch touches is loaded, known hashes keep their bucket and new
ones are placed by the PartitionIndex rules. Fixed-bucket tables compute the bucket. Which state all this was decided on is
part of the report, and the commit refuses to publish when it is not the state of the table any more. Large batches are assigned
in tasks (`lakeidx.pipeline.assign_parallel`), the others here. Tables with another ``index.type`` than hash, and
cross-partition tables, are assigned by a tagger (`lakeidx.pipeline.assign_tagged`).

source   org.apache.paimon.index.HashBucketAssigner, SimpleHashBucketAssigner, org.apache.paimon.bucket, release 1.4.2
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from lakeidx.errors import CommitConflictError, UnsupportedError
from lakeidx.format.schema import BucketMode, TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.index.partition_index import PartitionIndex
from lakeidx.index.rules import AssignRules, RandomBuckets
from lakeidx.pipeline.artifacts import AssignReport, IngestReport, StagedPart, Target
from lakeidx.pipeline.assign_parallel import AssignerTasks, assign_in_tasks, plan_assigners
from lakeidx.pipeline.assign_tagged import TaggedAssignment, assign_tagged, split_by_part
from lakeidx.pipeline.assigned import Assignment, PartKeys, load_index_files, read_part_keys
from lakeidx.pipeline.context import BatchContext
from lakeidx.pipeline.index_types import check_index_type, index_type, uses_tagger
from lakeidx.pipeline.keys import RowKeys
from lakeidx.pipeline.moved_rows import write_moves
from lakeidx.pipeline.tagged_batch import TaggedBatch, read_batch, write_located
from lakeidx.pipeline.targets import write_targets
from lakeidx.table.view import SnapshotView, load_view

_READ_THREADS = 4
_TRIES = 10


def run_assignment(context: BatchContext, attempt: int = 1) -> AssignReport:
    """Assign all rows of a batch; a finished stage gives its report again.

    attempt   1, or a higher number to assign again after a commit conflict
    """
    done = context.files.read(AssignReport, attempt=attempt)
    if done is not None:
        return done
    started = time.monotonic()
    ingest = context.files.require(IngestReport)
    schema = context.metadata.schema(ingest.schema_id)
    check_index_type(schema)
    latest = context.metadata.latest_snapshot()
    if uses_tagger(schema):
        report = _assign_by_tagger(context, ingest, schema, latest, attempt, started)
        return context.files.close(report, attempt=attempt)
    in_tasks = schema.bucket_mode is BucketMode.HASH_DYNAMIC and ingest.rows_staged >= context.parallel_rows
    fresh = context.overwrite is not None
    if in_tasks:
        plan = plan_assigners(schema, context.runner.parallelism)
        tasks = AssignerTasks(context.metadata, schema, ingest, latest, plan, context.files.batch_id, fresh)
        parts, assignment = assign_in_tasks(tasks, context.runner)
    else:
        parts = read_keys(context, ingest, schema)
    touched = {p for part in parts for p in part.keys.partitions}
    view = load_view(context.metadata, latest, partitions=touched)
    if not in_tasks:
        assignment = assign_rows(context, schema, view, parts)
    targets, per_part = number_targets(schema, view, parts, assignment, fresh=fresh)
    if in_tasks:
        assignment.new_buckets = sum(t.index_file is None for t in targets)
    directory = context.files.new_dir("bucket_assignment")
    paths = []
    for i, numbers in enumerate(per_part):
        paths.append(f"{directory}/targets-{i:05d}.arrow")
        write_targets(context.store, paths[-1], numbers)
    inserts, updates, deletes = count_rows(parts, assignment)
    report = AssignReport(
        batch_id=context.files.batch_id,
        attempt=attempt,
        base_snapshot_id=None if latest is None else latest.id,
        targets=tuple(targets),
        targets_paths=tuple(paths),
        assigned_on=_assigned_on(schema, view, touched),
        rows=sum(len(p.keys) for p in parts),
        inserts=inserts,
        updates=updates,
        deletes=deletes,
        new_buckets=assignment.new_buckets,
        index_type=index_type(schema),
        index_figures=assignment.figures,
        seconds=time.monotonic() - started,
    )
    return context.files.close(report, attempt=attempt)


def _assign_by_tagger(
    context: BatchContext,
    ingest: IngestReport,
    schema: TableSchema,
    latest: Snapshot | None,
    attempt: int,
    started: float,
) -> AssignReport:
    """The stage for tables whose rows a tagger assigns."""
    store = context.store
    batch = read_batch(context.metadata, ingest, schema)
    for left in reversed(range(_TRIES)):
        try:
            found = assign_tagged(context, schema, latest, batch)
            break
        except CommitConflictError:
            # The key state is of a snapshot that was put since.
            latest = context.metadata.latest_snapshot()
            if not left:
                raise
    parts, buckets = _outgoing(batch, found)
    targets, numbers = number_targets(
        schema, found.view, parts, Assignment(buckets), fresh=context.overwrite is not None
    )
    plan, directory = found.plan, context.files.new_dir("bucket_assignment")
    moves = (
        bool(len(plan.delete_row)) or not bool(plan.keep.all()) or bool((plan.partition != batch.keys.partition).any())
    )
    paths = []
    for i, (deletes, goes) in enumerate(zip(split_by_part(batch, plan.delete_row), numbers, strict=True)):
        rows = batch.of_part(i)
        kept = plan.keep[rows]
        of_rows = np.full(len(kept), -1, np.int32)
        of_rows[kept] = goes[: int(kept.sum())]
        paths.append(f"{directory}/targets-{i:05d}.arrow")
        write_targets(store, paths[-1], of_rows)
        if moves:
            at = (plan.delete_row[deletes] - rows.start).astype(np.int32)
            write_moves(store, directory, i, at, goes[int(kept.sum()) :])
    located = write_located(store, directory, batch, found.located) if found.needs_state else ()
    known, retract = found.known, batch.retract
    return AssignReport(
        batch_id=context.files.batch_id,
        attempt=attempt,
        base_snapshot_id=None if latest is None else latest.id,
        targets=tuple(targets),
        targets_paths=tuple(paths),
        assigned_on=_assigned_on(schema, found.view, set(found.touched)),
        rows=len(batch.keys),
        inserts=int((~known & ~retract).sum()),
        updates=int((known & ~retract).sum()),
        deletes=int(retract.sum()),
        new_buckets=found.new_buckets,
        index_type=index_type(schema),
        index_figures=found.figures,
        moves_path=directory if moves else None,
        moved=len(plan.delete_row),
        dropped=int((~plan.keep).sum()),
        global_index=found.is_global,
        located_paths=located,
        seconds=time.monotonic() - started,
    )


def _outgoing(batch: TaggedBatch, found: TaggedAssignment) -> tuple[list[PartKeys], list[NDArray[np.int32]]]:
    """Per part what it sends, rows that are kept and then its deletes: partitions, and int32 buckets."""
    plan, partitions = found.plan, found.located.partitions
    parts, buckets = [], []
    for i, deletes in enumerate(split_by_part(batch, plan.delete_row)):
        rows = batch.of_part(i)
        kept = plan.keep[rows]
        codes = np.concatenate([plan.partition[rows][kept], plan.delete_partition[deletes]])
        buckets.append(np.concatenate([plan.bucket[rows][kept], plan.delete_bucket[deletes]]))
        parts.append(PartKeys(RowKeys(partitions, codes, buckets[-1]), None))
    return parts, buckets


def read_keys(context: BatchContext, ingest: IngestReport, schema: TableSchema) -> list[PartKeys]:
    """Partition codes and key hashes of every staged part, parts side by side (Arrow and the kernels release the GIL)."""

    def read(part: StagedPart) -> PartKeys:
        return read_part_keys(context.metadata, ingest, part, schema)

    with ThreadPoolExecutor(min(_READ_THREADS, max(1, len(ingest.parts)))) as pool:
        return list(pool.map(read, ingest.parts))


def assign_rows(
    context: BatchContext, schema: TableSchema, view: SnapshotView, parts: Sequence[PartKeys]
) -> Assignment:
    """Buckets of all rows, by the table's bucket mode."""
    mode = schema.bucket_mode
    if mode is BucketMode.HASH_FIXED:
        return Assignment([p.keys.hashes for p in parts])
    if mode is BucketMode.HASH_DYNAMIC:
        return assign_dynamic(context, schema, view, parts)
    if mode is BucketMode.BUCKET_UNAWARE:
        return Assignment([np.zeros(len(p.keys), np.int32) for p in parts])
    raise UnsupportedError(f"bucket mode {mode.name} cannot be upserted yet", path=context.paths.root)


def assign_dynamic(
    context: BatchContext, schema: TableSchema, view: SnapshotView, parts: Sequence[PartKeys]
) -> Assignment:
    """PartitionIndex rules, partition by partition, rows in batch order."""
    options = schema.table_options
    index = {} if context.overwrite is not None else view.hash_index()
    # Seeded by the batch, so that a stage that is run again from its input gives the same buckets.
    pick = RandomBuckets(np.random.default_rng(zlib.crc32(context.files.batch_id.encode())))
    rules = AssignRules(
        target_rows=options.dynamic_bucket_target_row_num, max_buckets=options.dynamic_bucket_max_buckets
    )
    out = Assignment([np.empty(len(p.keys), dtype=np.int32) for p in parts],
                     [np.zeros(len(p.keys), dtype=bool) for p in parts])  # fmt: skip
    assert out.known is not None
    loaded = 0
    for partition in dict.fromkeys(p for part in parts for p in part.keys.partitions):
        files = index.get(partition, {})
        buckets = load_index_files(context.metadata, schema, partition, files)
        loaded += sum(len(hashes) for _, hashes in buckets)
        if context.overwrite is not None:
            partition_index = PartitionIndex.for_overwrite(rules=rules, pick=pick)
        else:
            partition_index = PartitionIndex.load(buckets, rules=rules, pick=pick)
        for i, part in enumerate(parts):
            if partition not in part.keys.partitions:
                continue
            rows = _rows_of(part.keys, partition)
            hashes = part.keys.hashes if rows is None else part.keys.hashes[rows]
            placed = partition_index.assign_rows(hashes)
            assigned, known = placed.buckets, ~placed.is_new
            if rows is None:
                out.buckets[i], out.known[i] = assigned, known
            else:
                out.buckets[i][rows], out.known[i][rows] = assigned, known
        out.new_buckets += len(partition_index.buckets) - len(buckets)
    out.figures["index_hashes_loaded"] = float(loaded)
    return out


def _rows_of(keys: RowKeys, partition: bytes) -> NDArray[np.int64] | None:
    """Positions of a partition's rows, None when all rows are in it."""
    if len(keys.partitions) == 1:
        return None
    return np.flatnonzero(keys.codes == keys.partitions.index(partition))


def number_targets(
    schema: TableSchema,
    view: SnapshotView,
    parts: Sequence[PartKeys],
    assignment: Assignment,
    *,
    fresh: bool,
) -> tuple[list[Target], list[NDArray[np.int32]]]:
    """Number the (partition, bucket) pairs that get rows.

    fresh      the batch replaces what is there: sequence numbers start at 0, no index file is continued
    returns    targets, and per part int32[rows] target numbers
    """
    numbers: dict[tuple[bytes, int], int] = {}
    counts: list[int] = []
    out: list[NDArray[np.int32]] = []
    for part, buckets in zip(parts, assignment.buckets, strict=True):
        combined = part.keys.codes.astype(np.int64) << 32 | buckets.astype(np.int64)
        distinct, inverse, sizes = _unique(combined)
        mapping = np.empty(len(distinct), dtype=np.int32)
        for j, (value, size) in enumerate(zip(distinct.tolist(), sizes.tolist(), strict=True)):
            place = (part.keys.partitions[value >> 32], value & 0xFFFFFFFF)
            number = numbers.setdefault(place, len(numbers))
            if number == len(counts):
                counts.append(0)
            counts[number] += size
            mapping[j] = number
        out.append(mapping[inverse])
    top = {} if fresh else view.max_sequence_numbers()
    index = {} if fresh or schema.bucket_mode is not BucketMode.HASH_DYNAMIC else view.hash_index()
    targets = []
    for (partition, bucket), number in numbers.items():
        entry = index.get(partition, {}).get(bucket)
        targets.append(
            Target(
                partition=partition.hex(),
                bucket=bucket,
                rows=counts[number],
                first_sequence=top.get((partition, bucket), -1) + 1,
                index_file=None if entry is None else entry.file_name,
            )
        )
    return targets, out


def _unique(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Distinct values, the number of each row's value, and how often each occurs; linear when there are few of them."""
    if len(values) == 0:
        empty = np.zeros(0, dtype=np.int64)
        return empty, empty, empty
    low = int(values.min())
    if int(values.max()) - low < 1 << 20:
        sizes = np.bincount(values - low)
        present = np.flatnonzero(sizes)
        lookup = np.zeros(len(sizes), dtype=np.int64)
        lookup[present] = np.arange(len(present))
        return present + low, lookup[values - low], sizes[present]
    distinct, inverse, sizes = np.unique(values, return_inverse=True, return_counts=True)
    return distinct, inverse, sizes


def count_rows(parts: Sequence[PartKeys], assignment: Assignment) -> tuple[int, int, int]:
    """Inserts, updates and deletes: a retract is a delete; else a known hash is an update, a new one an insert.

    In fixed-bucket tables nobody knows which keys exist; every row that is no delete counts as an insert.
    """
    inserts = updates = deletes = 0
    for i, part in enumerate(parts):
        n = len(part.keys)
        retract = part.retract if part.retract is not None else np.zeros(n, dtype=bool)
        known = assignment.known[i] if assignment.known is not None else np.zeros(n, dtype=bool)
        deletes += int(retract.sum())
        updates += int((known & ~retract).sum())
        inserts += int((~known & ~retract).sum())
    return inserts, updates, deletes


def _assigned_on(schema: TableSchema, view: SnapshotView, touched: set[bytes]) -> dict[str, dict[int, str]] | None:
    if schema.bucket_mode is not BucketMode.HASH_DYNAMIC:
        return None
    index = view.hash_index()
    return {p.hex(): {b: e.file_name for b, e in index.get(p, {}).items()} for p in sorted(touched)}
