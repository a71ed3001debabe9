"""Rings of consistent hashing: plans, resizes, and what of them counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.errors import CommitConflictError
from lakeidx.key_index.bucket.bucket_index import BucketKeyIndex
from lakeidx.key_index.bucket.consistent_hashing import RING, HashingMetadata, Node, initial_metadata, resized_ring
from lakeidx.key_index.bucket.rings import HashRings, Resize, bucket_of_node, plan_resizes
from lakeidx.key_index.options import IndexOptions
from tests.kit.scalar_twins import node_of, ring_place
from tests.unit.key_index.fake_table import FakeTable

RING_OPTIONS = {
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "4",
    "hoodie.bucket.index.max.num.buckets": "8",
    "hoodie.bucket.index.min.num.buckets": "2",
}


@pytest.fixture
def table(tmp_path: Path) -> FakeTable:
    return FakeTable(tmp_path / "t", ("STRING",))


def _rows(*keys: str, partition: str = "a") -> list[tuple[str, tuple[str]]]:
    return [(partition, (k,)) for k in keys]


def _plan(table: FakeTable, sizes: dict[int, int], **options: str) -> list[Resize]:
    context = table.context({**RING_OPTIONS, **options})
    return plan_resizes(HashRings(context).load("p=a"), sizes, context.options, target_bytes=100)


def test_a_resize_counts_once_its_commit_is_there(table: FakeTable) -> None:
    (split,) = _plan(table, {0: 50, 1: 500, 2: 50, 3: 50})
    assert (split.parents, split.buckets, split.partition) == ((1,), (4, 5), "p=a")
    context = table.context(RING_OPTIONS)
    rings = HashRings(context)
    commit = "user/7"
    rings.save([split], commit)
    assert len(HashRings(context).load("p=a").nodes) == 4
    table.commit("user/7")
    ring = HashRings(context).load("p=a")
    assert [bucket_of_node(n) for n in ring.nodes] == [0, 4, 5, 2, 3]
    assert ring.seq_no == 1
    # The marker was made on the way: the table is not asked again, however old the commit is.
    table.committed.clear()
    assert HashRings(context).load("p=a") == ring
    assert len(HashRings(context).load("p=b").nodes) == 4
    keys = [f"key-{i}" for i in range(50)]
    placed = BucketKeyIndex().place_inserts(table.batch(_rows(*keys)), context).tolist()
    before = [node_of(initial_metadata("p=a", 4), ring_place(k, [])) for k in keys]
    for old, new in zip(before, placed, strict=True):
        assert new in ((4, 5) if old == 1 else (old,))
    assert {4, 5} <= set(placed)
    with pytest.raises(CommitConflictError):
        rings.save([split], "user/8")


def test_an_aborted_resize_is_never_used(table: FakeTable) -> None:
    context = table.context(RING_OPTIONS)
    rings = HashRings(context)
    (first,) = _plan(table, {1: 500, 0: 50, 2: 50, 3: 50})
    rings.save([first], "dead")
    (second,) = _plan(table, {2: 500, 0: 50, 1: 50, 3: 50})
    commit = "alive"
    rings.save([second], commit)
    table.commit("alive")
    rings.confirm([second], commit)
    assert [bucket_of_node(n) for n in rings.load("p=a").nodes] == [0, 1, 4, 5, 3]


def test_merges_follow_the_ring(table: FakeTable) -> None:
    # 0 and 3 are neighbours round the end of the ring.
    merges = _plan(table, {0: 5, 1: 60, 2: 60, 3: 5})
    assert [m.parents for m in merges] == [(3, 0)]
    assert merges[0].buckets == (4,)
    assert _plan(table, {0: 60, 1: 5, 2: 60, 3: 5}) == []
    everything = _plan(table, {0: 1, 1: 1, 2: 1, 3: 1})
    # Two may go: four buckets are to be two at least.
    assert [m.parents for m in everything] == [(2, 3, 0)]
    assert _plan(table, {}, **{"hoodie.bucket.index.min.num.buckets": "4"}) == []


def test_splits_stop_at_the_greatest_number(table: FakeTable) -> None:
    sizes = dict.fromkeys(range(4), 10_000)
    assert len(_plan(table, sizes)) == 4
    assert len(_plan(table, sizes, **{"hoodie.bucket.index.max.num.buckets": "6"})) == 2
    assert _plan(table, dict.fromkeys(range(4), 200)) == []


@settings(deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=12), st.integers(1, 12), st.integers(0, 6), st.integers(0, 4))
def test_plans_keep_their_bounds(sizes: list[int], least: int, extra: int, taken: int) -> None:
    n = len(sizes)
    options = IndexOptions(
        {
            "hoodie.bucket.index.num.buckets": str(n),
            "hoodie.bucket.index.min.num.buckets": str(min(least, n)),
            "hoodie.bucket.index.max.num.buckets": str(n + extra),
        }
    )
    step = RING // n
    ring = HashingMetadata(
        partition="",
        num_buckets=n,
        nodes=tuple(Node(step * (i + 1), f"{i:08d}-x") for i in range(n)),
    )
    others = set(range(100, 100 + taken))
    plans = plan_resizes(ring, dict(enumerate(sizes)), options, target_bytes=10, taken=others)
    parents = [b for p in plans for b in p.parents]
    assert len(parents) == len(set(parents))
    new = [b for p in plans for b in p.buckets]
    assert len(new) == len(set(new))
    assert not set(new) & (set(range(n)) | others)
    after = ring
    for plan in plans:
        after = resized_ring(after, "x", plan.children)
        held = sum(sizes[b] for b in plan.parents)
        if len(plan.parents) == 1:
            assert held > 20
        else:
            assert held <= 2
    splits = sum(len(p.parents) == 1 for p in plans)
    assert len(after.nodes) <= n + min(splits, extra)
    # A merge never takes the ring below the least number.
    assert len(after.nodes) >= min(n, least)
    if len(plans) > splits:
        assert len(after.nodes) >= min(least, n)
