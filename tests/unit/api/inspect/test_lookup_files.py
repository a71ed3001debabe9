from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeidx.api.inspect.files import describe_lookup_file
from lakeidx.errors import CorruptFileError, NotFoundError
from lakeidx.lookup.store import StoreType
from lakeidx.storage.local import LocalStore
from tests.unit.lookup.stores import build, factory

ENTRIES = [(bytes.fromhex("000001000000"), b"\x11"), (bytes.fromhex("000002000000"), b"\x12")]


def test_a_sort_store_is_described(tmp_path: Path) -> None:
    build(factory(StoreType.SORT, compression="none", bloom_fpp=None), tmp_path / "x", ENTRIES)
    # Numbers of the worked file in the format sheet.
    assert json.loads(json.dumps(describe_lookup_file(LocalStore(), str(tmp_path / "x")))) == {
        "kind": "lookup store, sort",
        "size": 84,
        "entries": 2,
        "footer": {
            "bloom_offset": 0, "bloom_size": 0, "bloom_entries": 0, "index_offset": 28, "index_size": 15,
            "magic": 1481571681,
        },
        "blocks": [
            {"offset": 0, "size": 23, "compression": "none", "body_size": 23, "aligned": True, "entries": 2,
             "last_key": "000002000000"}
        ],
    }  # fmt: skip


@pytest.mark.parametrize("name", ["x", "x.context"])
def test_a_hash_store_is_described(tmp_path: Path, name: str) -> None:
    build(factory(StoreType.HASH, compression="none"), tmp_path / "x", [*ENTRIES, (b"a", b"bcd")])
    described = json.loads(json.dumps(describe_lookup_file(LocalStore(), str(tmp_path / name))))
    assert (described["kind"], described["entries"], described["pages"]) == ("lookup store, hash", 3, 1)
    assert [(s["key_length"], s["count"], s["slots"]) for s in described["key_lengths"]] == [(1, 1, 1), (6, 2, 3)]


def test_what_is_neither(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"something else entirely, longer than a footer")
    with pytest.raises(CorruptFileError, match="magic"):
        describe_lookup_file(LocalStore(), str(tmp_path / "x"))
    with pytest.raises(NotFoundError):
        describe_lookup_file(LocalStore(), str(tmp_path / "y"))
