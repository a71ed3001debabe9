"""hash and bucket key indexes, and the rings of consistent hashing."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.bucket_assignment.hash_map import HashMap
from lakeidx.errors import CommitConflictError, CorruptFileError, InvalidInputError
from lakeidx.key_index.bucket.bucket_index import BucketKeyIndex
from lakeidx.key_index.bucket.consistent_hashing import (
    RING,
    HashingMetadata,
    Node,
    initial_metadata,
    node_of,
    resize,
    ring_place,
)
from lakeidx.key_index.bucket.ids import bucket_of
from lakeidx.key_index.bucket.rings import HashRings, Resize, bucket_of_node, plan_resizes
from lakeidx.key_index.hash import HashKeyIndex
from lakeidx.key_index.locations import CommitInfo
from lakeidx.key_index.options import IndexOptions
from lakeidx.table.key_buckets import KeyBuckets
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


def _write(table: FakeTable, partition: str, bucket: int, *keys: str) -> None:
    table.write(partition, bucket, [((k,), 0) for k in keys])


# -- hash ------------------------------------------------------------------------------------------------------------


def test_hash_index_finds_known_keys(table: FakeTable) -> None:
    _write(table, "a", 0, "x", "y")
    _write(table, "a", 5, "z")
    _write(table, "b", 2, "x")
    rows = [*_rows("x", "z", "w", "x"), *_rows("x", "z", partition="b"), *_rows("x", partition="c")]
    found = HashKeyIndex().tag(table.batch(rows), table.context())
    assert found.bucket.tolist() == [0, 5, -1, 0, 2, -1, -1]
    assert (found.metrics.keys, found.metrics.found, found.metrics.files) == (7, 4, 3)
    assert found.file.tolist() == [-1] * 7
    assert HashKeyIndex().tag(table.batch([]), table.context()).bucket.tolist() == []


def test_keys_of_one_hash_share_a_bucket(table: FakeTable) -> None:
    """What is known of a key is its hash: a batch whose key has a stored hash is sent to that bucket."""
    _write(table, "a", 3, "x")
    batch = dataclasses.replace(table.batch(_rows("other")), hashes=np.array([table.hash_of(("x",))], np.int32))
    assert HashKeyIndex().tag(batch, table.context()).bucket.tolist() == [3]


def test_a_hash_in_two_files_belongs_to_the_later_one(table: FakeTable) -> None:
    _write(table, "a", 1, "x")
    _write(table, "a", 4, "x", "y")
    found = HashKeyIndex().tag(table.batch(_rows("x", "y")), table.context())
    assert found.bucket.tolist() == [4, 4]
    assert found.metrics.split_keys == 1


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(-(2**31), 2**31 - 1)), max_size=30), st.data())
def test_hash_index_equals_a_dictionary(held: list[tuple[str, int]], data: st.DataObject) -> None:
    table = FakeTable(Path("/nowhere"))
    asked = data.draw(
        st.lists(
            st.one_of(st.sampled_from(held or [("a", 0)]), st.tuples(st.sampled_from("ab"), st.integers(-9, 9))),
            max_size=30,
        )
    )
    model = {(p, h): i % 3 for i, (p, h) in enumerate(dict.fromkeys(held))}

    class View:
        def key_buckets(self, partition: bytes, hashes: Any, *, threads: int) -> KeyBuckets:
            name = (
                "a"
                if partition == batch.partitions[0] and names[0] == "a"
                else names[batch.partitions.index(partition)]
            )
            known = HashMap()
            for b in range(3):
                known.store(np.array([h for (p, h), at in model.items() if p == name and at == b], np.int32), b)
            return KeyBuckets(known)

    batch = table.batch([(p, (0,)) for p, _ in asked])
    names = list(dict.fromkeys(p for p, _ in asked))
    batch = dataclasses.replace(batch, hashes=np.array([h for _, h in asked], np.int32))
    context = dataclasses.replace(table.context(), view=View())  # type: ignore[arg-type]
    found = HashKeyIndex().tag(batch, context)
    assert found.bucket.tolist() == [model.get(row, -1) for row in asked]


# -- bucket, fixed number --------------------------------------------------------------------------------------------


def test_simple_buckets(table: FakeTable) -> None:
    options = {"hoodie.bucket.index.num.buckets": "8"}
    keys = [f"key-{i}" for i in range(20)]
    expected = [bucket_of(k, [], 8) for k in keys]
    context = table.context(options)
    batch = table.batch(_rows(*keys))
    assert BucketKeyIndex().place_inserts(batch, context).tolist() == expected


def test_fields_that_decide_the_bucket(tmp_path: Path) -> None:
    table = FakeTable(tmp_path / "t", ("INT", "STRING"))
    rows = [("a", (i, f"v{j}")) for i in range(4) for j in range(3)]
    options = {"hoodie.bucket.index.num.buckets": "16", "hoodie.bucket.index.hash.field": "k1"}
    placed = BucketKeyIndex().place_inserts(table.batch(rows), table.context(options))
    assert placed.tolist() == [bucket_of(f"k0:{i},k1:{v}", ["k1"], 16) for _, (i, v) in rows]
    assert len(set(placed.tolist())) == 3
    every = BucketKeyIndex().place_inserts(table.batch(rows), table.context({"hoodie.bucket.index.num.buckets": "16"}))
    assert every.tolist() == [bucket_of(f"k0:{i},k1:{v}", ["k0", "k1"], 16) for _, (i, v) in rows]
    with pytest.raises(InvalidInputError, match="k9"):
        BucketKeyIndex().place_inserts(table.batch(rows), table.context({"hoodie.bucket.index.hash.field": "k9"}))


# -- bucket, ring ----------------------------------------------------------------------------------------------------


def _plan(table: FakeTable, sizes: dict[int, int], **options: str) -> list[Resize]:
    context = table.context({**RING_OPTIONS, **options})
    return plan_resizes(HashRings(context).load("p=a"), sizes, context.options, target_bytes=100)


def test_ring_buckets(table: FakeTable) -> None:
    context = table.context(RING_OPTIONS)
    ring = initial_metadata("p=a", 4)
    keys = [f"key-{i}" for i in range(30)]
    placed = BucketKeyIndex().place_inserts(table.batch(_rows(*keys)), context)
    # Bucket i is node i of the derived ring.
    assert placed.tolist() == [node_of(ring, ring_place(k, [])) for k in keys]
    assert set(placed.tolist()) == {0, 1, 2, 3}
    loaded = HashRings(context).load("p=a")
    for number, (node, derived) in enumerate(zip(loaded.nodes, ring.nodes, strict=True)):
        assert bucket_of_node(node) == number
        assert node.value == derived.value
        assert derived.file_id_prefix is not None
        assert node.file_id_prefix is not None
        assert node.file_id_prefix[8:] == derived.file_id_prefix[8:]


def test_a_resize_counts_once_its_commit_is_there(table: FakeTable) -> None:
    (split,) = _plan(table, {0: 50, 1: 500, 2: 50, 3: 50})
    assert (split.parents, split.buckets, split.partition) == ((1,), (4, 5), "p=a")
    context = table.context(RING_OPTIONS)
    rings = HashRings(context)
    commit = CommitInfo(instant="user/7", started_ms=0)
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
        rings.save([split], CommitInfo(instant="user/8", started_ms=0))


def test_a_given_up_resize_is_never_believed(table: FakeTable) -> None:
    context = table.context(RING_OPTIONS)
    rings = HashRings(context)
    (first,) = _plan(table, {1: 500, 0: 50, 2: 50, 3: 50})
    rings.save([first], CommitInfo(instant="dead", started_ms=0))
    (second,) = _plan(table, {2: 500, 0: 50, 1: 50, 3: 50})
    commit = CommitInfo(instant="alive", started_ms=0)
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
        after = resize(after, "x", plan.children)
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


def test_damaged_ring(table: FakeTable) -> None:
    context = table.context(RING_OPTIONS)
    (split,) = _plan(table, {1: 500, 0: 50, 2: 50, 3: 50})
    commit = CommitInfo(instant="i", started_ms=0)
    HashRings(context).save([split], commit)
    table.commit("i")
    for file in (table.root.parent / "_index" / "consistent-hashing" / "p=a").glob("*.hashing_meta"):
        file.write_bytes(b"{}")
    with pytest.raises(CorruptFileError):
        HashRings(context).load("p=a")
