"""Keys found by the HASH index files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.bucket_assignment.hash_map import HashMap
from lakeidx.key_index.bucket.bucket_index import BucketKeyIndex
from lakeidx.table.key_buckets import KeyBuckets
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
    found = BucketKeyIndex().tag(batch, context)
    assert found.bucket.tolist() == [model.get(row, -1) for row in asked]
