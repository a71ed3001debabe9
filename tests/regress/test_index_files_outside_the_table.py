"""Index files with `_EXTERNAL_PATH` were read at their usual place by some readers: assignment passed, index_write failed.

Here the HASH index files of a table, and a deletion vector, lie elsewhere, as their index manifest says.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.errors import CorruptFileError
from lakeidx.format.deletion_vector import encode_deletion_vectors
from lakeidx.format.hash_index import decode_hash_index
from lakeidx.format.index_manifest import DELETION_VECTORS_INDEX, IndexEntry, encode_index_manifest
from lakeidx.format.manifest import FileKind
from lakeidx.format.snapshot import decode_snapshot, encode_snapshot
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.quality.load import load_evidence
from lakeidx.quality.verify import verify
from lakeidx.table.view import HASH_INDEX, load_view
from lakeidx.tasks.runner import LocalRunner
from tests.kit.small_tables import content, make_table, rows, upsert

KEYS = 25


def put_index(table: Table, entries: list[IndexEntry]) -> Table:
    """The newest snapshot with other index entries, as another writer would have left it."""
    snapshot = table.snapshot
    assert snapshot is not None
    name = snapshot.index_manifest or "index-manifest-00000000-0000-0000-0000-000000000000-0"
    table.store.put(table.paths.manifest_path(name), encode_index_manifest(entries))
    path = table.paths.snapshot_path(snapshot.id)
    changed = replace(decode_snapshot(table.store.get(path), path), index_manifest=name)
    table.store.put(path, encode_snapshot(changed))
    return Table.open(table.uri)


def moved(table: Table, elsewhere: Path) -> Table:
    """Move all HASH index files out of the table."""
    elsewhere.mkdir()
    view = load_view(table.metadata, table.snapshot)
    entries = []
    for entry in view.index:
        shutil.move(table.paths.index_file({}, entry.bucket, entry.file_name), elsewhere / entry.file_name)
        entries.append(replace(entry, external_path=f"{elsewhere}/{entry.file_name}"))
    assert len(entries) > 2
    return put_index(table, entries)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = make_table(tmp_path, options={"data-file.external-paths": f"file://{tmp_path}/elsewhere"})
    upsert(made, [(1, k, f"v{k}") for k in range(KEYS)])
    return moved(made, tmp_path / "elsewhere")


def test_upsert_reads_the_index_where_its_entry_says(table: Table) -> None:
    result = upsert(table, [(1, k, f"w{k}") for k in range(KEYS - 5, KEYS + 30)])
    assert (result.assign.updates, result.assign.inserts) == (5, 30)
    after = Table.open(table.uri)
    assert content(after) == {(1, k): f"v{k}" if k < KEYS - 5 else f"w{k}" for k in range(KEYS + 30)}
    view = load_view(after.metadata, after.snapshot)
    for entry in view.index:
        # What was written again lies in the table, what was not stays where it is.
        path = entry.external_path or after.paths.index_file({}, entry.bucket, entry.file_name)
        assert len(decode_hash_index(Path(path).read_bytes())) == entry.row_count
    assert {e.external_path is None for e in view.index} == {True, False}


def test_lookups_and_scans_by_key_use_it(table: Table) -> None:
    keys = rows([(1, 3, None), (1, KEYS + 3, None)]).select(["p", "k"])
    found = Table.open(table.uri).lookup(keys)
    assert found.column("v").to_pylist() == ["v3", None]
    scan = table.scan(where="p = 1 AND k = 7")
    assert len(scan.plan.buckets) == 1
    assert scan.to_arrow().column("v").to_pylist() == ["v7"]
    absent = table.scan(where=f"p = 1 AND k = {KEYS + 1}")
    assert absent.plan.buckets == ()


def test_checks_find_it_sound(table: Table) -> None:
    failed = [r.name for r in verify(load_evidence(table.metadata)) if not r.passed]
    # New files are not written to data-file.external-paths, and that is said.
    assert failed == ["options_followed"]


def test_a_shrunk_index_lies_in_the_table_again(table: Table) -> None:
    upsert(table, [(1, k, None) for k in range(3)], ["-D"] * 3)
    run_compaction(table.metadata, LocalRunner(1), full=True, shrink=True)
    after = Table.open(table.uri)
    shrunk = [e for e in load_view(after.metadata, after.snapshot).index if e.external_path is None]
    assert shrunk, "no index was written again"
    for entry in shrunk:
        held = decode_hash_index(Path(after.paths.index_file({}, entry.bucket, entry.file_name)).read_bytes())
        assert len(held) == entry.row_count
    assert content(after) == {(1, k): f"v{k}" for k in range(3, KEYS)}


def test_another_number_of_hashes_is_damage_for_every_reader(table: Table) -> None:
    view = load_view(table.metadata, table.snapshot)
    entry = max(view.index, key=lambda e: e.row_count)
    assert entry.external_path is not None
    file = Path(entry.external_path)
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(CorruptFileError, match="rebuild the hash index") as caught:
        upsert(table, [(1, 1, "x")])
    assert caught.value.path == entry.external_path
    # Readers warn and read the bucket whole.
    reader = Table.open(table.uri)
    assert [reader.scan(where=f"p = 1 AND k = {k}").to_arrow().column("v").to_pylist() for k in range(KEYS)] == [
        [f"v{k}"] for k in range(KEYS)
    ]
    every = rows([(1, k, None) for k in range(KEYS)]).select(["p", "k"])
    assert Table.open(table.uri).lookup(every).column("v").to_pylist() == [f"v{k}" for k in range(KEYS)]


@pytest.mark.parametrize("bitmap64", [False, True])
def test_deletion_vectors_are_read_where_their_entry_says(tmp_path: Path, *, bitmap64: bool) -> None:
    made = make_table(
        tmp_path,
        options={"bucket": "1", "deletion-vectors.enabled": "true", "data-file.external-paths": f"file://{tmp_path}"},
    )
    upsert(made, [(1, k, f"v{k}") for k in range(KEYS)])
    run_compaction(made.metadata, LocalRunner(1), full=True)
    (entry,) = load_view(made.metadata, made.snapshot).entries
    data, ranges = encode_deletion_vectors({entry.file.file_name: [0, 4, 24]}, bitmap64=bitmap64)
    place = tmp_path / "vectors"
    place.write_bytes(data)
    vectors = IndexEntry(
        kind=FileKind.ADD, partition=entry.partition, bucket=0, index_type=DELETION_VECTORS_INDEX, file_name="index-1",
        file_size=len(data), row_count=1, dv_ranges=ranges, external_path=str(place),
    )  # fmt: skip
    table = put_index(made, [vectors])
    left = {(1, k): f"v{k}" for k in range(KEYS) if k not in (0, 4, 24)}
    assert content(table) == left
    keys = rows([(1, k, None) for k in range(KEYS)]).select(["p", "k"])
    found = Table.open(table.uri).lookup(keys).column("v").to_pylist()
    assert found == [left.get((1, k)) for k in range(KEYS)]
    run_compaction(table.metadata, LocalRunner(1), full=True)
    after = Table.open(table.uri)
    assert content(after) == left
    view = load_view(after.metadata, after.snapshot)
    assert [e for e in view.index if e.index_type != HASH_INDEX] == []
    assert np.sum([e.file.row_count for e in view.entries]) == len(left)
    assert pa.types.is_string(after.scan().to_arrow().schema.field("v").type)
