"""Stage `bucket_assignment` for tables whose ``index.type`` asks a tagger.

1.  The tagger says where each key of the batch lives; a key it finds keeps that bucket.
2.  Indexes over all partitions: a row of another partition moves its key, follows it, or is dropped
    (`lakeidx.tagging.moves`); moves add deletes to the batch.
3.  Keys that are new in their partition are placed: through the partition's HASH index (a hash that is in it keeps its bucket,
    so that the table stays one that Java goes on with), else by the PartitionIndex rules; by Hudi's rule for `bucket`; by room
    in cross-partition tables, which have no HASH index.

Keys and decisions of the batch are held in the driver, some tens of bytes per row besides the keys themselves; the table is
read by the tagger alone, file by file.

source   org.apache.paimon.crosspartition.GlobalIndexAssigner, org.apache.paimon.index.PartitionIndex, release 1.4.2;
         org.apache.hudi.index.HoodieIndex, release 1.0.2
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lakeidx.errors import UnsupportedError
from lakeidx.format.schema import BucketMode, TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.index.partition_index import PartitionIndex
from lakeidx.index.rules import AssignRules, RandomBuckets
from lakeidx.pipeline.assigned import load_index_files
from lakeidx.pipeline.context import BatchContext
from lakeidx.pipeline.index_types import index_folder, index_options, opened_tagger
from lakeidx.pipeline.tagged_batch import TaggedBatch
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import SnapshotView, load_view
from lakeidx.tagging.base import Bools, Int32s, KeyBatch, TagContext, Tagger, TagResult, no_locations
from lakeidx.tagging.bucket import BucketTagger
from lakeidx.tagging.hash_index import HashTagger
from lakeidx.tagging.key_codes import KeyCodes
from lakeidx.tagging.key_set import KeySet
from lakeidx.tagging.moves import MovePlan, move_policy, place_by_room, plan_moves
from lakeidx.tagging.state import StateTagger
from lakeidx.tagging.table_view import make_tag_context


@dataclass(frozen=True, slots=True, eq=False)
class TaggedAssignment:
    """Where the n rows of a batch go, and d deletes besides.

    plan       with all buckets filled in
    located    what the tagger said; partitions are numbered as in it
    known      bool[n], True where the row's key was there before the row
    view       state of the partitions that get rows or deletes
    touched    those partitions
    is_global  the keys' partitions may have been others
    """

    plan: MovePlan
    located: TagResult
    known: Bools
    view: SnapshotView
    touched: frozenset[bytes]
    new_buckets: int
    needs_state: bool
    is_global: bool
    figures: dict[str, float]


def tag_context(metadata: TableMetadata, schema: TableSchema, snapshot: Snapshot | None) -> TagContext:
    """What the table's tagger works with on a snapshot, with the options of `schema` (the newest ones)."""
    made = make_tag_context(metadata, snapshot, index_dir=index_folder(metadata.paths))
    return replace(made, options=index_options(schema))


def assign_tagged(
    context: BatchContext, schema: TableSchema, snapshot: Snapshot | None, batch: TaggedBatch
) -> TaggedAssignment:
    """Assign a batch by the table's tagger, on a snapshot.

    errors   UnsupportedError for overwriting partitions of a table whose keys live in one partition at a time, and
             anything of one whose keys HBase knows
    """
    metadata, keys = context.metadata, batch.keys
    tagging = tag_context(metadata, schema, snapshot)
    fresh = context.overwrite is not None
    with opened_tagger(schema, metadata.paths) as tagger:
        if context.overwrite == "partitions" and tagger.is_global:
            raise UnsupportedError(
                "partitions cannot be overwritten alone where each key lives in one partition of the table: a key may live "
                "in another one; overwrite the table",
                path=context.paths.root,
            )
        if fresh and tagger.name == "hbase":
            raise UnsupportedError(
                "a table with index type hbase cannot be overwritten: HBase would go on telling where its old keys were; make "
                "a new table with an empty HBase table",
                path=context.paths.root,
            )
        located = _locate(tagger, keys, tagging, fresh=fresh)
        plan = _plan(schema, tagger, keys, located)
        touched = frozenset(located.partitions[i] for i in np.unique(_places(plan)).tolist())
        view = load_view(metadata, snapshot, partitions=set(touched))
        work = _Placing(context, schema, keys, located, plan, view)
        if schema.bucket_mode is BucketMode.KEY_DYNAMIC:
            placed = work.by_room(tagger, tagging, fresh=fresh)
        elif tagger.name == "bucket":
            placed = work.as_computed(BucketTagger(foreign=True).place_inserts(keys, tagging))
        else:
            placed = work.by_index(fresh=fresh)
        figures = {name: float(value) for name, value in located.figures.as_dict().items()}
        if isinstance(tagger, StateTagger) and tagger.last_action is not None:
            figures[f"state_{tagger.last_action.kind.replace(' ', '_')}"] = 1.0
            figures["state_keys_read"] = float(tagger.last_action.keys)
        return TaggedAssignment(
            plan=placed.plan,
            located=located,
            known=_known_before(keys, located, tagger) | placed.known,
            view=view,
            touched=touched,
            new_buckets=placed.new_buckets,
            needs_state=tagger.needs_state,
            is_global=tagger.is_global and bool(schema.partition_keys),
            figures=figures,
        )


def _locate(tagger: Tagger, keys: KeyBatch, tagging: TagContext, *, fresh: bool) -> TagResult:
    if fresh:
        return no_locations(keys)
    # A bucket rule says where a key belongs; whether it is there, possibly by another writer's rule, says the HASH index.
    return HashTagger().tag(keys, tagging) if tagger.name == "bucket" else tagger.tag(keys, tagging)


def _plan(schema: TableSchema, tagger: Tagger, keys: KeyBatch, located: TagResult) -> MovePlan:
    if tagger.is_global:
        policy = move_policy(schema.table_options.merge_engine, moves_keys=tagger.moves_keys)
        return plan_moves(keys, located, policy)
    n = len(keys)
    # One slot per (partition, hash): two keys of one hash share a bucket, as they do for Java.
    slot = KeySet(KeyCodes(ints=keys.hashes.astype(np.int64)), keys.partition).first.astype(np.int32)
    none = np.zeros(0, np.int32)
    return MovePlan(
        keep=np.ones(n, np.bool_),
        partition=keys.partition.astype(np.int32, copy=False),
        bucket=located.bucket,
        slot=slot,
        slot_partition=keys.partition.astype(np.int32, copy=False),
        delete_row=none.astype(np.int64),
        delete_partition=none,
        delete_bucket=none,
        delete_slot=none,
    )


def _places(plan: MovePlan) -> Int32s:
    """Partitions that get rows or deletes."""
    return np.concatenate([plan.partition[plan.keep], plan.delete_partition])


def _known_before(keys: KeyBatch, located: TagResult, tagger: Tagger) -> Bools:
    """Rows whose key was located, or came before in the batch."""
    first = KeySet(keys.codes, None if tagger.is_global else keys.partition).first
    known: Bools = located.known | (first != np.arange(len(keys)))
    return known


@dataclass(frozen=True, slots=True, eq=False)
class _Placed:
    plan: MovePlan
    known: Bools
    new_buckets: int


@dataclass(frozen=True, slots=True, eq=False)
class _Placing:
    """Buckets for the slots that have none."""

    context: BatchContext
    schema: TableSchema
    keys: KeyBatch
    located: TagResult
    plan: MovePlan
    view: SnapshotView

    def by_index(self, *, fresh: bool) -> _Placed:
        """Through the HASH index of each partition."""
        schema, plan = self.schema, self.plan
        options = schema.table_options
        pick = RandomBuckets(np.random.default_rng(zlib.crc32(self.context.files.batch_id.encode())))
        rules = AssignRules(
            target_rows=options.dynamic_bucket_target_row_num, max_buckets=options.dynamic_bucket_max_buckets
        )
        index = {} if fresh else self.view.hash_index()
        buckets = np.full(len(plan.slot_partition), -1, np.int32)
        known = np.zeros(len(self.keys), np.bool_)
        new_buckets = 0
        slots, rows = self._open()
        for number in np.unique(plan.slot_partition[slots]).tolist():
            partition = self.located.partitions[number]
            files = load_index_files(self.context.metadata, schema, partition, index.get(partition, {}))
            if fresh:
                at = PartitionIndex.for_overwrite(rules=rules, pick=pick)
            else:
                at = PartitionIndex.load(files, rules=rules, pick=pick)
            mine = np.flatnonzero(plan.slot_partition[slots] == number)
            placed = at.assign_rows(np.ascontiguousarray(self.keys.hashes[rows[mine]]))
            buckets[slots[mine]] = placed.buckets
            known[rows[mine]] = ~placed.is_new
            new_buckets += len(at.buckets) - len(files)
        return _Placed(plan.with_buckets(buckets), known, new_buckets)

    def as_computed(self, computed: Int32s) -> _Placed:
        """By a rule over the key alone, the same for all keys of a hash."""
        plan = self.plan
        buckets = np.full(len(plan.slot_partition), -1, np.int32)
        slots, rows = self._open()
        buckets[slots] = computed[rows]
        return self._placed(buckets)

    def by_room(self, tagger: Tagger, tagging: TagContext, *, fresh: bool) -> _Placed:
        """Where there is room, by the number of keys that live in each bucket."""
        plan, options = self.plan, self.schema.table_options
        buckets = np.full(len(plan.slot_partition), -1, np.int32)
        slots, _ = self._open()
        wanted = plan.slot_partition[slots]
        target = options.dynamic_bucket_target_row_num
        counts = {} if fresh else self._rows_in_files()
        limit = options.dynamic_bucket_max_buckets
        placed = place_by_room(wanted, counts, target_rows=target, max_buckets=limit)
        if placed.max(initial=0) > 0 and not fresh and isinstance(tagger, StateTagger):
            # Rows in files are at least as many as keys. Where they leave no room the keys have to be counted.
            numbers = {p: i for i, p in enumerate(self.located.partitions)}
            found = tagger.bucket_counts(tagging)
            counts = {(numbers[p], b): n for (p, b), n in found.items() if p in numbers}
            # A key that moves makes room where it was, before anything is placed (Java does so row by row).
            gone = plan.delete_bucket >= 0
            for p, b in zip(plan.delete_partition[gone].tolist(), plan.delete_bucket[gone].tolist(), strict=True):
                counts[p, b] = counts.get((p, b), 0) - 1
            placed = place_by_room(wanted, counts, target_rows=target, max_buckets=limit)
        buckets[slots] = placed
        return self._placed(buckets)

    def _open(self) -> tuple[Int32s, NDArray[np.int64]]:
        """Slots without a bucket by their first row, and that row of each."""
        plan = self.plan
        slots = plan.open_slots
        rows = np.flatnonzero(plan.keep & (plan.bucket < 0))
        found, first = np.unique(plan.slot[rows], return_index=True)
        return slots, rows[first[np.searchsorted(found, slots)]]

    def _placed(self, buckets: Int32s) -> _Placed:
        plan = self.plan.with_buckets(buckets)
        known = np.zeros(len(self.keys), np.bool_)
        there = {(p, b) for p, b in self.view.by_bucket()}
        codes = plan.partition[plan.keep].astype(np.int64) << 32 | plan.bucket[plan.keep]
        opened = [v for v in np.unique(codes).tolist() if self._place(v) not in there]
        return _Placed(plan, known, len(opened))

    def _place(self, code: int) -> tuple[bytes, int]:
        return self.located.partitions[code >> 32], code & 0xFFFFFFFF

    def _rows_in_files(self) -> dict[tuple[int, int], int]:
        numbers = {p: i for i, p in enumerate(self.located.partitions)}
        return {
            (numbers[partition], bucket): sum(f.row_count for f in files)
            for (partition, bucket), files in self.view.by_bucket().items()
            if partition in numbers
        }


def split_by_part(batch: TaggedBatch, rows: NDArray[np.int64]) -> Sequence[slice]:
    """Which of some rows (ascending) are in each part, as slices."""
    edges = np.searchsorted(rows, batch.starts)
    return [slice(a, b) for a, b in pairwise(edges.tolist())]
