"""Keys found by the HASH index files, and the buckets that new ones are given (those of rings: test_rings.py)."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.key_index.bucket.bucket_index import BucketKeyIndex
from tests.kit.scalar_twins import bucket_of
from tests.unit.key_index.fake_table import FakeTable


@pytest.fixture
def table(tmp_path: Path) -> FakeTable:
    return FakeTable(tmp_path / "t", ("STRING",))


def _rows(*keys: str, partition: str = "a") -> list[tuple[str, tuple[str]]]:
    return [(partition, (k,)) for k in keys]


def _write(table: FakeTable, partition: str, bucket: int, *keys: str) -> None:
    table.write(partition, bucket, [((k,), 0) for k in keys])


def test_hash_index_finds_known_keys(table: FakeTable) -> None:
    _write(table, "a", 0, "x", "y")
    _write(table, "a", 5, "z")
    _write(table, "b", 2, "x")
    rows = [*_rows("x", "z", "w", "x"), *_rows("x", "z", partition="b"), *_rows("x", partition="c")]
    found = BucketKeyIndex().tag(table.batch(rows), table.context())
    assert found.bucket.tolist() == [0, 5, -1, 0, 2, -1, -1]
    assert (found.metrics.keys, found.metrics.found, found.metrics.files) == (7, 4, 3)
    assert found.file.tolist() == [-1] * 7
    assert BucketKeyIndex().tag(table.batch([]), table.context()).bucket.tolist() == []


def test_keys_of_one_hash_share_a_bucket(table: FakeTable) -> None:
    """What is known of a key is its hash: a batch whose key has a stored hash is sent to that bucket."""
    _write(table, "a", 3, "x")
    batch = dataclasses.replace(table.batch(_rows("other")), hashes=np.array([table.hash_of(("x",))], np.int32))
    assert BucketKeyIndex().tag(batch, table.context()).bucket.tolist() == [3]


def test_a_hash_in_two_files_belongs_to_the_later_one(table: FakeTable) -> None:
    _write(table, "a", 1, "x")
    _write(table, "a", 4, "x", "y")
    found = BucketKeyIndex().tag(table.batch(_rows("x", "y")), table.context())
    assert found.bucket.tolist() == [4, 4]
    assert found.metrics.split_keys == 1


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
