"""The bucket key index: which bucket a new key is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.key_index.bucket.bucket_index import BucketKeyIndex
from lakeidx.key_index.bucket.consistent_hashing import initial_metadata
from lakeidx.key_index.bucket.rings import HashRings, bucket_of_node
from tests.kit.scalar_twins import bucket_of, node_of, ring_place
from tests.unit.key_index.fake_table import FakeTable

RING_OPTIONS = {"hoodie.index.bucket.engine": "CONSISTENT_HASHING", "hoodie.bucket.index.num.buckets": "4"}


@pytest.fixture
def table(tmp_path: Path) -> FakeTable:
    return FakeTable(tmp_path / "t", ("STRING",))


def _rows(*keys: str, partition: str = "a") -> list[tuple[str, tuple[str]]]:
    return [(partition, (k,)) for k in keys]


def test_new_keys_get_the_bucket_of_hudis_rule(table: FakeTable) -> None:
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


def test_new_keys_get_the_bucket_of_their_ring(table: FakeTable) -> None:
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
