"""The store that counts."""

from __future__ import annotations

import pickle

from lakeidx.storage import ObjectStore
from lakeidx.storage.memory import MemoryStore
from tests.kit.metered_store import MeteredStore


def test_requests_and_bytes_are_counted_by_verb() -> None:
    metered = MeteredStore(MemoryStore("memory:"))
    assert isinstance(metered, ObjectStore)
    metered.put("d/f", b"12345")
    assert metered.get("d/f") == b"12345"
    assert not metered.put_if_absent("d/f", b"678")
    assert metered.get_range("d/f", 1, 2) == b"23"
    assert metered.get_ranges("d/f", [(0, 1), (4, 1)]) == [b"1", b"5"]
    assert metered.exists("d/f")
    with metered.open_output("g") as out:
        out.write(b"abc")
    assert metered.open_input("g", size=3).read() == b"abc"
    assert {k: (c.requests, c.bytes) for k, c in metered.counts.items()} == {
        "put": (2, 8),
        "get": (1, 5),
        "put_if_absent": (1, 3),
        "get_range": (4, 7),
        "exists": (1, 0),
    }
    metered.delete_many(["d/f", "g"])
    assert list(metered.walk("")) == []
    assert metered.counts["delete"].requests == 2


def test_a_pickled_copy_counts_on_its_own() -> None:
    metered = MeteredStore(MemoryStore("memory:"))
    metered.exists("f")
    assert not pickle.loads(pickle.dumps(metered)).counts
