"""Placing by a key index: every ``index.type`` that finds keys otherwise than by the HASH index alone, and cross-partition tables.

1.  The key index says where each key of the batch lives; a key it finds keeps that bucket.
2.  Indexes over all partitions: a row of another partition moves its key, follows it, or is dropped
    (`lakeidx.key_index.key_moves`); moves add deletes to the batch.
3.  Keys that are new in their partition are placed: by the index's own rule if it has one; by room in cross-partition tables, which
    have no HASH index; else through the partition's HASH index (a hash that is in it keeps its bucket, so that the table stays one
    that Java continues with) and the PartitionIndex rules.

Keys and decisions of the rows at hand are held in memory, some tens of bytes per row besides the keys themselves; the table is
read by the key index alone, file by file.

source   org.apache.paimon.crosspartition.GlobalIndexAssigner, org.apache.paimon.index.PartitionIndex, release 1.4.2;
         org.apache.hudi.index.HoodieIndex, release 1.0.2
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from lakeidx.batch.assignment.by_hash import HashPlacing
from lakeidx.batch.assignment.keyed_batch import KeyedBatch
from lakeidx.batch.assignment.placement import Moves, PartPlaces, Place, Placed, PlaceWork, RowCounts
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.key_index.joined import FileJoiner
from lakeidx.key_index.key_moves import MovePlan, move_policy, place_by_room, plan_moves
from lakeidx.key_index.keys.codes import KeyCodes
from lakeidx.key_index.keys.sets import KeySet
from lakeidx.key_index.locations import Bools, Int32s, KeyBatch, KeyLocations, no_locations
from lakeidx.key_index.port import ExternalState, IndexContext, Locator
from lakeidx.table.view import load_view


def place_by_key_index(
    work: PlaceWork,
    batch: KeyedBatch,
    locator: Locator,
    task: int,
    locate: Callable[[KeyBatch, IndexContext], KeyLocations] | None = None,
) -> Placed:
    """Place rows on a snapshot.

    locate   locates the keys; default the locator does
    task     the placing task whose share they are
    errors   what the locator raises; CommitConflictError when what it keeps is of a later snapshot
    """
    tagging = work.index.context(work.metadata, work.snapshot)
    placing = _Placing(work, locator, tagging, batch, task)
    located = no_locations(batch.keys) if work.fresh else (locate or locator.tag)(batch.keys, tagging)
    plan = _plan(work.schema, locator, batch.keys, located)
    opened = placing.place(located, plan)
    plan = plan.with_buckets(opened.buckets)
    known = _known_before(batch.keys, located, locator) | opened.known
    counts = RowCounts()
    counts.add(len(batch.keys), known, batch.retract)
    metrics = {name: float(value) for name, value in located.metrics.as_dict().items()}
    return Placed(
        parts=_outgoing(batch, located, plan),
        counts=counts,
        new_hashes=opened.new_hashes,
        metrics={**metrics, **located.notes},
        moves=Moves(batch, plan),
        located=(batch, located) if _updates_index(locator, work) else None,
        is_global=locator.is_global and bool(work.schema.partition_keys),
        by_partition=locator.splits_buckets,
    )


def _updates_index(locator: Locator, work: PlaceWork) -> bool:
    """Return True when the index is updated at the commit with its own answers; for a batch in tasks only if it was asked there.

    Those that read data files in tasks have no answers of their own there. They catch up with the next batch.
    """
    return isinstance(locator, ExternalState) and (work.here or not isinstance(locator, FileJoiner))


def _outgoing(batch: KeyedBatch, located: KeyLocations, plan: MovePlan) -> list[PartPlaces]:
    """Return per part the rows it sends: rows that are kept, and then its deletes."""
    out = []
    for i, deletes in enumerate(batch.split_rows(plan.delete_row)):
        rows = batch.of_part(i)
        kept = plan.keep[rows]
        codes = np.concatenate([plan.partition[rows][kept], plan.delete_partition[deletes]])
        buckets = np.concatenate([plan.bucket[rows][kept], plan.delete_bucket[deletes]])
        out.append(PartPlaces(batch.places[i], located.partitions, codes, buckets))
    return out


def _plan(schema: TableSchema, locator: Locator, keys: KeyBatch, located: KeyLocations) -> MovePlan:
    if locator.is_global:
        policy = move_policy(schema.table_options.merge_engine, moves_keys=locator.moves_keys)
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


def _known_before(keys: KeyBatch, located: KeyLocations, locator: Locator) -> Bools:
    """Return the rows whose key was located, or came before in the batch."""
    first = KeySet(keys.codes, None if locator.is_global else keys.partition).first
    known: Bools = located.known | (first != np.arange(len(keys)))
    return known


@dataclass(frozen=True, slots=True, eq=False)
class _Opened:
    """Buckets for the slots that had none.

    buckets      int32[slots], -1 for the others
    known        bool[n] rows whose hash was in the HASH index
    new_hashes   see `Placed`
    """

    buckets: Int32s
    known: Bools
    new_hashes: dict[Place, int] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Placing:
    """Rows of one batch on one snapshot."""

    work: PlaceWork
    locator: Locator
    tagging: IndexContext
    batch: KeyedBatch
    task: int

    def place(self, located: KeyLocations, plan: MovePlan) -> _Opened:
        """Choose buckets for the keys that are new in their partition."""
        if self.work.schema.bucket_mode is BucketMode.KEY_DYNAMIC:
            return self._by_room(located, plan)
        computed = self.locator.place_inserts(self.batch.keys, self.tagging)
        if computed is None:
            return self._by_hash_index(located, plan)
        slots, rows = _open_slots(plan)
        buckets = np.full(len(plan.slot_partition), -1, np.int32)
        buckets[slots] = computed[rows]
        return _Opened(buckets, np.zeros(len(self.batch.keys), np.bool_))

    def _by_hash_index(self, located: KeyLocations, plan: MovePlan) -> _Opened:
        hashes = self.batch.keys.hashes
        buckets = np.full(len(plan.slot_partition), -1, np.int32)
        known = np.zeros(len(hashes), np.bool_)
        slots, rows = _open_slots(plan)
        order = np.argsort(plan.slot_partition[slots], kind="stable")
        found, starts = np.unique(plan.slot_partition[slots][order], return_index=True)
        numbers, groups = found.tolist(), np.split(order, starts[1:])
        placing = HashPlacing.of(self.work, {located.partitions[n] for n in numbers}, self.task)

        def columns_of(mine: NDArray[np.int64]) -> list[Int32s]:
            return [np.ascontiguousarray(hashes[rows[mine]])]

        batch = [
            (located.partitions[number], partial(columns_of, mine))
            for number, mine in zip(numbers, groups, strict=False)
        ]
        for mine, (placed,) in zip(groups, placing.place_each(batch), strict=False):
            buckets[slots[mine]] = placed.buckets
            known[rows[mine]] = ~placed.is_new
        return _Opened(buckets, known)

    def _by_room(self, located: KeyLocations, plan: MovePlan) -> _Opened:
        """Place keys in buckets with room, by the number of live keys of each bucket."""
        buckets = np.full(len(plan.slot_partition), -1, np.int32)
        slots, _ = _open_slots(plan)
        wanted = plan.slot_partition[slots]
        numbers = {p: i for i, p in enumerate(located.partitions)}
        fresh, rules = self.work.fresh, self.work.rules_of(self.task)
        counts = {} if fresh else self._rows_in_files(numbers)
        by_room = partial(
            place_by_room,
            target_rows=rules.target_rows,
            max_buckets=rules.max_buckets,
            assigner=rules.first_own_bucket,
            assigners=rules.num_assigners,
        )
        placed = by_room(wanted, counts)
        if placed.max(initial=0) > rules.first_own_bucket and not fresh:
            # Rows in files are at least as many as keys. Where they leave no room the keys have to be counted.
            found = self.locator.count_keys(self.tagging)
            if found is not None:
                counts = {(numbers[p], b): n for (p, b), n in found.items() if p in numbers}
                # A key that moves makes room where it was, before anything is placed (Java does so row by row).
                gone = plan.delete_bucket >= 0
                for p, b in zip(plan.delete_partition[gone].tolist(), plan.delete_bucket[gone].tolist(), strict=True):
                    counts[p, b] = counts.get((p, b), 0) - 1
                placed = by_room(wanted, counts)
        buckets[slots] = placed
        return _Opened(buckets, np.zeros(len(self.batch.keys), np.bool_))

    def _rows_in_files(self, numbers: dict[bytes, int]) -> dict[tuple[int, int], int]:
        view = load_view(self.work.metadata, self.work.snapshot, partitions=set(numbers))
        return {
            (numbers[partition], bucket): sum(f.row_count for f in files)
            for (partition, bucket), files in view.by_bucket().items()
        }


def _open_slots(plan: MovePlan) -> tuple[Int32s, NDArray[np.int64]]:
    """Return the slots without a bucket by their first row, and that row of each."""
    slots = plan.open_slots
    rows = np.flatnonzero(plan.keep & (plan.bucket < 0))
    found, first = np.unique(plan.slot[rows], return_index=True)
    return slots, rows[first[np.searchsorted(found, slots)]]
