"""Files beside a table that only some histories leave there."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from lakeidx.api.inspect.files import inspect_file
from lakeidx.errors import CorruptFileError
from lakeidx.key_index.bucket.consistent_hashing import encode_metadata, initial_metadata
from lakeidx.pipeline_file.partitions import CurrentBatch
from lakeidx.storage.local import LocalStore


def inspected(folder: Path, name: str, data: bytes) -> dict[str, Any]:
    path = folder / "wh/_lakeidx/d/t" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    found = inspect_file(str(path), store=LocalStore())
    json.dumps(found, allow_nan=False)
    return found


def test_each_kind_by_where_it_lies(tmp_path: Path) -> None:
    turn = {"kind": "turn", "batch_id": "b", "partitions": ["00"], "lost": 2, "seconds_per_try": 10.5}
    ring = encode_metadata(initial_metadata("p=1", 2))
    pointer = json.dumps(asdict(CurrentBatch("b7", "table"))).encode()
    kinds = {
        "_commit_priority.json": (json.dumps(turn).encode(), "commit priority", ("lost", 2)),
        "_index/consistent-hashing/p=1/00000000000000.hashing_meta": (ring, "consistent hashing ring", ("num_buckets", 2)),
        "_index/consistent-hashing/p=1/20260101.commit": (b"", "commit marker of a ring", ("instant", "20260101")),
        "_index/commits/user-1": (b"12", "commit marker", ("snapshotId", 12)),
        "_partitions/2013-01-0a": (pointer, "current batch of a partition", ("batch_id", "b7")),
        "_committed/0f": (b"b7", "committed landing file", ("batch_id", "b7")),
    }  # fmt: skip
    for name, (data, kind, (key, value)) in kinds.items():
        found = inspected(tmp_path, name, data)
        assert (found["kind"], found[key]) == (kind, value), name


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("_commit_priority.json", b'{"kind": "turn"}'),
        ("b/ingest.json", b'{"stage": "ingest", "rows": 1}'),
        ("_partitions/x", b'{"batch": 1}'),
        ("_index/commits/user-1", b"twelve"),
        ("_index/r/1.hashing_meta", b"{}"),
        ("b/x.arrow", b"ARROW1\0\0 and no more"),
        ("b/changes", b'LXCHG1\n[["new"'),
    ],
)
def test_damage_is_named(tmp_path: Path, name: str, data: bytes) -> None:
    with pytest.raises(CorruptFileError) as error:
        inspected(tmp_path, name, data)
    assert error.value.path == str(tmp_path / "wh/_lakeidx/d/t" / name)
