"""Moves against a row-by-row machine that keeps one home per key, as Paimon's assigner does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.errors import InvalidInputError
from lakeidx.key_index.key_moves import MovePolicy, move_policy, place_by_room, plan_moves
from lakeidx.key_index.locations import KeyBatch, KeyLocations
from tests.unit.key_index.fake_table import FakeTable, partition_bytes

PARTITIONS = "abc"
Place = tuple[str, int]


def _case(rows: list[tuple[str, int]], homes: dict[int, Place]) -> tuple[KeyBatch, KeyLocations]:
    batch = FakeTable(Path("/nowhere")).batch([(p, (k,)) for p, k in rows])
    others = [p for p in map(partition_bytes, PARTITIONS) if p not in batch.partitions]
    partitions = (*batch.partitions, *others)
    number = {p: partitions.index(partition_bytes(p)) for p in PARTITIONS}
    bucket = [homes[k][1] if k in homes else -1 for _, k in rows]
    where = [number[homes[k][0] if k in homes else p] for p, k in rows]
    located = KeyLocations(
        bucket=np.array(bucket, np.int32),
        partition=np.array(where, np.int32),
        partitions=partitions,
        file=np.full(len(rows), -1, np.int32),
    )
    return batch, located


def _machine(
    rows: list[tuple[str, int]], homes: dict[int, Place], policy: MovePolicy, place: dict[tuple[int, str], int]
) -> list[tuple[str, int, Place]]:
    """What is written, in order: ("row" | "delete", row number, place). New (key, partition)s are placed by `place`."""
    at = dict(homes)
    out: list[tuple[str, int, Place]] = []
    known = {(k, p): b for k, (p, b) in homes.items()}
    for i, (partition, key) in enumerate(rows):
        home = at.get(key)
        if home is not None and home[0] != partition:
            if policy is MovePolicy.USE_OLD:
                out.append(("row", i, home))
                continue
            if policy is MovePolicy.SKIP_NEW:
                continue
            out.append(("delete", i, home))
            home = None
        if home is None:
            home = (partition, known.get((key, partition), place[key, partition]))
        at[key] = home
        out.append(("row", i, home))
    return out


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.tuples(st.sampled_from(PARTITIONS), st.integers(0, 4)), max_size=20),
    st.dictionaries(st.integers(0, 4), st.tuples(st.sampled_from(PARTITIONS), st.integers(0, 9)), max_size=5),
    st.sampled_from(list(MovePolicy)),
)
def test_plan_equals_the_machine(rows: list[tuple[str, int]], homes: dict[int, Place], policy: MovePolicy) -> None:
    batch, located = _case(rows, homes)
    plan = plan_moves(batch, located, policy)
    names = {partition_bytes(p): p for p in PARTITIONS}
    # Every (key, partition) gets a number of its own, from 100 on, as its new bucket.
    place = {(k, p): 100 + 10 * k + i for k in range(5) for i, p in enumerate(PARTITIONS)}
    slot_bucket = np.zeros(len(plan.slot_partition), np.int32)
    for i, (_, key) in enumerate(rows):
        slot_bucket[plan.slot[i]] = place[key, names[located.partitions[plan.partition[i]]]]
    filled = plan.with_buckets(slot_bucket)
    written = []
    deletes = {int(r): j for j, r in enumerate(filled.delete_row)}
    for i in range(len(rows)):
        if i in deletes:
            j = deletes[i]
            where = names[located.partitions[filled.delete_partition[j]]]
            written.append(("delete", i, (where, int(filled.delete_bucket[j]))))
        if filled.keep[i]:
            where = names[located.partitions[filled.partition[i]]]
            written.append(("row", i, (where, int(filled.bucket[i]))))
    assert written == _machine(rows, homes, policy, place)
    open_rows = [i for i in range(len(rows)) if plan.keep[i] and plan.bucket[i] < 0]
    assert plan.open_slots.tolist() == list(dict.fromkeys(plan.slot[open_rows].tolist()))
    assert np.array_equal(plan.slot_partition[plan.slot], plan.partition)


def test_policies_of_engines() -> None:
    assert move_policy("deduplicate") is MovePolicy.DELETE_OLD
    assert move_policy("deduplicate", moves_keys=False) is MovePolicy.USE_OLD
    assert move_policy("partial-update") is MovePolicy.USE_OLD
    assert move_policy("aggregation") is MovePolicy.USE_OLD
    assert move_policy("first-row", moves_keys=False) is MovePolicy.SKIP_NEW
    with pytest.raises(InvalidInputError):
        move_policy("other")


def _place_one_by_one(
    partition: list[int], counts: dict[tuple[int, int], int], target: int, bound: int, me: int, of: int
) -> list[int]:
    held = dict(counts)
    out = []
    for p in partition:
        bucket = me
        while held.get((p, bucket), 0) >= target:
            bucket += of
        if bound >= 0 and bucket >= bound:
            own = [b for q, b in held if q == p and b % of == me]
            # The emptiest as of when the bound was met takes all that is left.
            bucket = out_of_room.setdefault(p, min(own, key=lambda b: (held[p, b], b)))
        held[p, bucket] = held.get((p, bucket), 0) + 1
        out.append(bucket)
    return out


out_of_room: dict[int, int] = {}


@given(
    st.lists(st.integers(0, 2), max_size=40),
    st.dictionaries(st.tuples(st.integers(0, 2), st.integers(0, 5)), st.integers(0, 8), max_size=8),
    st.integers(1, 6),
    st.sampled_from([-1, 4, 6]),
    st.sampled_from([(0, 1), (0, 2), (1, 2)]),
)
def test_placing_equals_one_by_one(
    partition: list[int], counts: dict[tuple[int, int], int], target: int, bound: int, share: tuple[int, int]
) -> None:
    out_of_room.clear()
    me, of = share
    placed = place_by_room(
        np.array(partition, np.int32), counts, target_rows=target, max_buckets=bound, assigner=me, assigners=of
    )
    if bound < 0:
        assert placed.tolist() == _place_one_by_one(partition, counts, target, bound, me, of)
        return
    assert all(b % of == me for b in placed.tolist())
    # With a bound: nothing beyond it but in buckets that were there, and full ones only when all below it are full.
    held = dict(counts)
    for p, b in zip(partition, placed.tolist(), strict=True):
        assert b < bound or (p, b) in counts
        if held.get((p, b), 0) >= target:
            assert all(held.get((p, o), 0) >= target for o in range(me, bound, of))
        held[p, b] = held.get((p, b), 0) + 1


def test_no_bucket_to_own() -> None:
    with pytest.raises(InvalidInputError):
        place_by_room(np.zeros(1, np.int32), {}, target_rows=5, max_buckets=1, assigner=1, assigners=2)


@pytest.mark.parametrize("policy", [MovePolicy.DELETE_OLD, MovePolicy.USE_OLD])
def test_a_deleted_key_has_a_home_per_partition(policy: MovePolicy) -> None:
    """Where a key is deleted in several partitions, each row is told the delete of its own; rows of one key still follow one
    another, and meet the buckets of those deletes."""
    batch = FakeTable(Path("/nowhere")).batch([(p, (1,)) for p in "abca"])
    number = {p: batch.partitions.index(partition_bytes(p)) for p in "abc"}
    dead = {"a": 5, "b": 7}
    located = KeyLocations(
        bucket=np.array([dead.get(p, -1) for p in "abca"], np.int32),
        partition=np.array([number[p] for p in "abca"], np.int32),
        partitions=batch.partitions,
        file=np.full(4, -1, np.int32),
    )
    plan = plan_moves(batch, located, policy)
    if policy is MovePolicy.USE_OLD:
        assert plan.partition.tolist() == [number["a"]] * 4
        assert plan.bucket.tolist() == [5] * 4
        assert len(plan.delete_row) == 0
        return
    assert plan.bucket.tolist() == [5, 7, -1, 5]
    deletes = zip(plan.delete_row.tolist(), plan.delete_partition.tolist(), plan.delete_bucket.tolist(), strict=True)
    assert list(deletes) == [(1, number["a"], 5), (2, number["b"], 7), (3, number["c"], -1)]
    assert plan.slot[2] == plan.delete_slot[2]
