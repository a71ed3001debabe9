"""Tables written by the released Java pass the quality rules: no false alarm, and the rules see real layouts.

Every golden table goes through the snapshot rule; every one with a HASH index through the index rules, with the keys that
Java's own read (expect-N.jsonl) says are alive.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lakeidx.codec.hashes.murmur import hash_words
from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.format.hash_index import decode_hash_index
from lakeidx.format.index_manifest import HASH_INDEX, IndexEntry, decode_index_manifest
from lakeidx.format.snapshot import Snapshot
from lakeidx.quality.hash_rules import check_live_keys_indexed, check_one_bucket_per_hash, check_stale_hashes
from lakeidx.quality.index_file_rules import IndexFile, check_bucket_rows, check_index_files
from lakeidx.quality.key_rules import BucketKeys, check_keys_unique
from lakeidx.quality.result import BucketId
from lakeidx.quality.snapshot_rules import check_snapshot_chain
from lakeidx.types import DataType
from tests.kit.golden_tables import TABLES, GoldenTable
from tests.kit.json_forms import json_to_internal

pytestmark = pytest.mark.golden


def snapshots_of(table: GoldenTable) -> dict[int, Snapshot]:
    paths = (table.path / "snapshot").glob("snapshot-*")
    return {n: table.snapshot(n) for n in sorted(int(path.name.removeprefix("snapshot-")) for path in paths)}


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_snapshots_of_java_form_a_chain(table: GoldenTable) -> None:
    snapshots = snapshots_of(table)
    assert snapshots
    hint = table.path / "snapshot" / "LATEST"
    result = check_snapshot_chain(snapshots, latest_hint=int(hint.read_text()) if hint.exists() else None)
    assert result.passed, result.sample
    assert result.metrics["snapshots"] == len(snapshots)


def hash_entries(table: GoldenTable, snapshot: Snapshot) -> list[IndexEntry]:
    if snapshot.index_manifest is None:
        return []
    path = table.path / "manifest" / snapshot.index_manifest
    return [e for e in decode_index_manifest(path.read_bytes(), str(path)) if e.index_type == HASH_INDEX]


def indexed_snapshots() -> list[Any]:
    """(table, snapshot) for each one with a HASH index and a file of its rows."""
    out = []
    for table in TABLES:
        expected = {s["id"]: s["expect"] for s in table.info["snapshots"] if s.get("expect")}
        for number, snapshot in snapshots_of(table).items():
            if number in expected and hash_entries(table, snapshot):
                out.append(pytest.param(table, snapshot, expected[number], id=f"{table.name}-{number}"))
    return out


INDEXED = indexed_snapshots()


def test_the_golden_set_has_tables_with_a_hash_index() -> None:
    assert INDEXED


def encoded(row: dict[str, Any], names: tuple[str, ...], types: dict[str, DataType]) -> bytes:
    return encode_row([json_to_internal(row[n], types[n]) for n in names], [types[n] for n in names])


@pytest.mark.parametrize(("table", "snapshot", "expect"), INDEXED)
def test_index_and_keys_of_java_agree(table: GoldenTable, snapshot: Snapshot, expect: str) -> None:
    schema = table.latest_schema
    types = {f.name: f.type for f in schema.fields}
    partition_keys = schema.partition_keys
    files = []
    for entry in hash_entries(table, snapshot):
        data = (table.path / "index" / entry.file_name).read_bytes()
        files.append(IndexFile(entry=entry, size=len(data), hashes=decode_hash_index(data)))
    keys: dict[BucketId, list[bytes]] = {}
    for found in table.lines(expect):
        partition = with_arity(encoded(found["partition"], partition_keys, types), len(partition_keys))
        keys.setdefault((partition, found["bucket"]), []).append(
            encoded(found["row"], schema.trimmed_primary_keys, types)
        )
    live = {bucket_id: np.array([hash_words(k) for k in ks], np.int32) for bucket_id, ks in keys.items()}
    index = {(f.entry.partition, f.entry.bucket): f.hashes for f in files if f.hashes is not None}
    bucket_keys = [
        BucketKeys(partition=p, bucket=b, keys=RowBytes.from_list(ks), hashes=live[p, b]) for (p, b), ks in keys.items()
    ]
    for result in (
        check_index_files(files),
        check_one_bucket_per_hash(index),
        check_live_keys_indexed(live, index),
        check_keys_unique(bucket_keys),
        check_bucket_rows(
            {bucket_id: len(hashes) for bucket_id, hashes in index.items()},
            target_rows=int(schema.options.get("dynamic-bucket.target-row-num", 2_000_000)),
            max_buckets=int(schema.options.get("dynamic-bucket.max-buckets", -1)),
        ),
    ):
        assert result.passed, result
    stale = check_stale_hashes(live, index)
    assert stale.metrics["hashes"] - stale.metrics["stale_hashes"] == sum(len(set(h.tolist())) for h in live.values())
