"""Moves of keys that live in one partition at a time: which rows move a key, and what must be deleted where.

Rows of a key are taken in batch order, each after what the one before did. By policy, a row whose key lives elsewhere

DELETE_OLD   deletes it there, and is written in its own partition (merge engine deduplicate)
USE_OLD      is written where the key lives, its partition columns replaced (partial-update, aggregation; and any engine
             when moving is switched off)
SKIP_NEW     is dropped (first-row)

source   org.apache.paimon.crosspartition.{GlobalIndexAssigner,ExistingProcessor} and its three processors, release
         1.4.2; org.apache.hudi.index.HoodieIndexUtils#mergeForPartitionUpdatesIfNeeded, release 1.0.2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from lakeidx.errors import InvalidInputError
from lakeidx.key_index.keys.sets import KeySet
from lakeidx.key_index.locations import Bools, Int32s, Int64s, KeyBatch, KeyLocations


class MovePolicy(Enum):
    """Policies for a row whose key lives in another partition."""

    DELETE_OLD = "delete-old"
    USE_OLD = "use-old"
    SKIP_NEW = "skip-new"


_POLICIES = {
    "deduplicate": MovePolicy.DELETE_OLD,
    "partial-update": MovePolicy.USE_OLD,
    "aggregation": MovePolicy.USE_OLD,
    "first-row": MovePolicy.SKIP_NEW,
}


def move_policy(merge_engine: str, *, moves_keys: bool = True) -> MovePolicy:
    """Return the policy of a merge engine.

    moves_keys   False: no row moves a key, whatever the engine (but first-row still drops)
    """
    policy = _POLICIES.get(merge_engine)
    if policy is None:
        raise InvalidInputError(f"merge engine {merge_engine!r} has no rule for keys that change partition")
    return MovePolicy.USE_OLD if policy is MovePolicy.DELETE_OLD and not moves_keys else policy


@dataclass(frozen=True, slots=True, eq=False)
class MovePlan:
    """Targets of the n rows of a batch, and d deletes besides.

    keep              bool[n], False = the row is dropped
    partition         int32[n] in `KeyLocations.partitions`
    bucket            int32[n], -1 = new there, to be placed
    slot              int32[n]: rows of one slot are one key in one partition and must get one bucket
    slot_partition    int32[s] partition of each slot
    delete_row        int64[d] ascending: the row that a delete comes just before; the delete carries that row's
                      values with the partition columns of the partition it goes to
    delete_partition  int32[d]
    delete_bucket     int32[d], -1 = the bucket that its slot is given
    delete_slot       int32[d]
    """

    keep: Bools
    partition: Int32s
    bucket: Int32s
    slot: Int32s
    slot_partition: Int32s
    delete_row: Int64s
    delete_partition: Int32s
    delete_bucket: Int32s
    delete_slot: Int32s

    def with_buckets(self, slot_bucket: Int32s) -> MovePlan:
        """Fill in every slot's bucket of the plan where it was open.

        slot_bucket  int32[s]
        """
        return replace(
            self,
            bucket=np.where(self.bucket < 0, slot_bucket[self.slot], self.bucket).astype(np.int32),
            delete_bucket=np.where(self.delete_bucket < 0, slot_bucket[self.delete_slot], self.delete_bucket).astype(
                np.int32
            ),
        )

    @property
    def open_slots(self) -> Int32s:
        """Slots that need a bucket, in the order of their first row."""
        open_rows = self.keep & (self.bucket < 0)
        slots, first = np.unique(self.slot[open_rows], return_index=True)
        return slots[np.argsort(first, kind="stable")].astype(np.int32)


def plan_moves(batch: KeyBatch, located: KeyLocations, policy: MovePolicy) -> MovePlan:
    """Follow each key through the batch.

    located   of a global index
    cost      two sorts of the batch
    """
    n = len(batch)
    key = KeySet(batch.codes).first.astype(np.int64)
    own = batch.partition.astype(np.int64)
    # Rows by key, then by position; `head` marks each key's first row.
    order = np.argsort(key, kind="stable")
    head = np.ones(n, np.bool_)
    head[1:] = key[order][1:] != key[order][:-1]
    home = np.where(located.known, located.partition, -1).astype(np.int64)
    delete = np.zeros(n, np.bool_)
    before = np.full(n, -1, np.int64)
    keep = np.ones(n, np.bool_)
    target = own
    if policy is MovePolicy.DELETE_OLD:
        previous = np.empty(n, np.int64)
        previous[1:] = own[order][:-1]
        previous[head] = home[order][head]
        before[order] = previous
        delete = (before >= 0) & (before != own)
    else:
        # A key without a home gets that of its first row in the batch. Only of a key that is deleted do rows say different
        # homes, each its own partition.
        first_row = order[np.maximum.accumulate(np.where(head, np.arange(n), 0))] if n else order
        settled = np.empty(n, np.int64)
        settled[order] = np.where(home[first_row] >= 0, home[first_row], own[first_row])
        if policy is MovePolicy.USE_OLD:
            target = settled
        else:
            keep = own == settled
    rows = np.flatnonzero(delete)
    # Slots over (key, partition) of rows and deletes together.
    places = np.concatenate([key << 32 | target, key[rows] << 32 | before[rows]])
    slots, slot = np.unique(places, return_inverse=True)
    found = np.full(len(slots), -1, np.int32)
    at_home = target == home
    found[slot[:n][at_home]] = located.bucket[at_home]
    old_home = before[rows] == home[rows]
    found[slot[n:][old_home]] = located.bucket[rows[old_home]]
    return MovePlan(
        keep,
        target.astype(np.int32),
        found[slot[:n]],
        slot[:n].astype(np.int32),
        (slots & 0xFFFFFFFF).astype(np.int32),
        rows.astype(np.int64),
        before[rows].astype(np.int32),
        found[slot[n:]],
        slot[n:].astype(np.int32),
    )


def place_by_room(
    partition: Int32s,
    counts: Mapping[tuple[int, int], int],
    *,
    target_rows: int,
    max_buckets: int = -1,
    assigner: int = 0,
    assigners: int = 1,
) -> Int32s:
    """Return the buckets for new keys of a table without a hash index: the smallest own bucket with room, else the next
    own number.

    partition         int32[m], of each new key, in order
    counts            keys per (partition, bucket) now
    target_rows       keys a bucket takes
    max_buckets       -1 = no bound; at the bound the emptiest own bucket takes the rest
    assigner, assigners  own buckets are those with bucket % assigners == assigner
    returns           int32[m]
    source            org.apache.paimon.crosspartition.BucketAssigner, release 1.4.2 (it has no bound)
    """
    out = np.empty(len(partition), np.int32)
    for p in np.unique(partition).tolist():
        rows = np.flatnonzero(partition == p)
        held = {b: c for (q, b), c in counts.items() if q == p and b % assigners == assigner}
        limit = np.inf if max_buckets < 0 else max_buckets
        at, bucket = 0, assigner
        while at < len(rows) and bucket < limit:
            take = min(len(rows) - at, max(0, target_rows - held.get(bucket, 0)))
            out[rows[at : at + take]] = bucket
            held[bucket] = held.get(bucket, 0) + take
            at += take
            bucket += assigners
        if at < len(rows):
            if not held:
                raise InvalidInputError(f"assigner {assigner} of {assigners} owns no bucket below {max_buckets}")
            out[rows[at:]] = min(held, key=lambda b: (held[b], b))
    return out
