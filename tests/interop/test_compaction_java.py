"""Compactions and shrunk indexes: Java reads what lakeidx made of them, goes on, and back again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.api import Table
from lakeidx.batch.context import make_context
from lakeidx.compaction.bucket import BucketCompaction, CompactedBucket
from lakeidx.landing.read import LandingOptions
from lakeidx.maintenance import compaction
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.table.view import SnapshotView, load_view
from lakeidx.tasks.runner import LocalRunner
from tests.conftest import GOLDEN
from tests.kit.java_paimon import JavaPaimon, java_hashes
from tests.kit.small_tables import content, filled_table, upsert
from tests.kit.table_history import index_hashes, key_hashes
from tests.kit.upserts import upsert_files

pytestmark = pytest.mark.interop


def java_state(java: JavaPaimon) -> dict[tuple[int, int], str]:
    """Rows as Java merges them."""
    found = java.json("read")
    out = {(int(r["p"]), int(r["k"])): r["v"] for r in found}
    assert len(out) == len(found), "Java read a key twice"
    return out


def test_java_continues_a_shrunk_index(tmp_path: Path) -> None:
    """Java loads it, assigns known keys where they are and new ones to the rooms that are free."""
    rows = {(p, k): "a" for p in (1, 2) for k in range(24)}
    table = filled_table(
        tmp_path, [(*key, v) for key, v in rows.items()], options={"dynamic-bucket.target-row-num": "8"}
    )
    # Partition 2 loses every key: its index files are empty.
    gone = [(1, k) for k in range(6, 18)] + [(2, k) for k in range(24)]
    upsert(table, [(*key, None) for key in gone], ["-D"] * len(gone))
    rows = {key: v for key, v in rows.items() if key not in gone}
    assert run_compaction(table.metadata, LocalRunner(1), full=True, shrink=True).hashes_dropped == 36
    java = JavaPaimon(str(tmp_path / "wh"), "d.t")
    assert java_state(java) == rows
    assert java_hashes(java) == index_hashes(Table.open(table.uri))
    written = [(1, k) for k in range(3, 9)] + [(1, 50 + k) for k in range(8)] + [(2, 3), (2, 60)]
    java.write([{"p": str(p), "k": str(k), "v": "j", "_kind": "+I"} for p, k in written], tmp_path / "rows.jsonl")
    rows |= dict.fromkeys(written, "j")
    table = Table.open(table.uri)
    assert content(table) == rows
    hashes = index_hashes(table)
    assert hashes == java_hashes(java) == {p: set(key_hashes(table, [k for k in rows if k[0] == p])) for p in (1, 2)}
    buckets = {e.bucket for e in load_view(table.metadata, table.snapshot).entries}
    assert max(buckets) < 3, "Java opened a bucket although there was room"
    upsert(table, [(1, k, "l") for k in range(24)])
    assert java_state(java) == rows | {(1, k): "l" for k in range(24)} == content(table)


def test_java_reads_and_continues_a_bucket_that_several_tasks_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "LEAST_FILES", 1)
    fields = [{"name": "k", "type": "INT"}, {"name": "v", "type": "STRING"}]
    options = {"bucket": "1", "target-file-size": "2 kb", "deletion-vectors.enabled": "true"}
    table = Table.create(f"{tmp_path}/wh/d.db/t", {"fields": fields, "primaryKeys": ["k"], "options": options})
    table.upsert(pa.table({"k": pa.array(range(6000), pa.int32()), "v": [f"a{k}" for k in range(6000)]}))
    table.compact(full=True)
    table.upsert(pa.table({"k": pa.array(range(0, 9000, 3), pa.int32()), "v": [f"b{k}" for k in range(0, 9000, 3)]}))
    made = tasks_of(monkeypatch)
    table.compact(full=True)
    assert len(made) > 1
    expected = {k: f"a{k}" for k in range(6000)} | {k: f"b{k}" for k in range(0, 9000, 3)}
    java = JavaPaimon(str(tmp_path / "wh"), "d.t")
    assert {int(r["k"]): r["v"] for r in java.json("read")} == expected
    java.write([{"k": str(k), "v": "c", "_kind": "+U"} for k in range(1000, 3000)], tmp_path / "rows.jsonl")
    java.run("compact")
    expected |= dict.fromkeys(range(1000, 3000), "c")
    assert {int(r["k"]): r["v"] for r in java.json("read")} == expected
    found = Table.open(table.uri).scan().to_arrow()
    assert dict(zip(found.column("k").to_pylist(), found.column("v").to_pylist(), strict=True)) == expected


def tasks_of(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Collect the shares of buckets that are joined from now on."""
    seen: list[object] = []
    join = compaction.join_bucket_shares

    def joined(work: BucketCompaction, made: Sequence[CompactedBucket]) -> CompactedBucket:
        seen.extend(made)
        return join(work, made)

    monkeypatch.setattr(compaction, "join_bucket_shares", joined)
    return seen


def _golden_with_vectors() -> list[str]:
    out = []
    for schema in sorted((GOLDEN / "tables").glob("*/table/schema/schema-0")):
        found = json.loads(schema.read_text())
        if found["primaryKeys"] and found["options"].get("deletion-vectors.enabled") == "true":
            out.append(schema.parents[2].name)
    return out


@pytest.mark.golden
@pytest.mark.parametrize("name", _golden_with_vectors())
def test_java_reads_its_tables_with_deletion_vectors_after_our_compaction(name: str, tmp_path: Path) -> None:
    place = tmp_path / "wh" / "d.db" / "t"
    shutil.copytree(GOLDEN / "tables" / name / "table", place)
    table = Table.open(str(place))
    java = JavaPaimon(str(tmp_path / "wh"), "d.t")
    before = java_lines(java)
    view = load_view(table.metadata, table.snapshot)
    level_0 = any(e.file.level == 0 for e in view.entries)
    dangling = dangling_vectors(view)
    run_compaction(table.metadata, LocalRunner(1), full=True)
    table = Table.open(str(place))
    after = java_lines(java)
    if not level_0:
        # Rows of level 0 cannot be seen before a compaction.
        assert after == before
    view = load_view(table.metadata, table.snapshot)
    # Java itself may leave vectors of files that are gone; the compaction must not add any.
    assert dangling_vectors(view) <= dangling
    assert {e.file.level for e in view.entries} == {max(e.file.level for e in view.entries)}
    assert table.scan().to_arrow().num_rows == len(after)
    # Java goes on with it: a whole compaction has nothing left to change.
    java.run("compact")
    assert java_lines(java) == after


def dangling_vectors(view: SnapshotView) -> set[str]:
    """Data files that are not live and have a deletion vector."""
    live = {e.file.file_name for e in view.entries}
    return {r.data_file_name for e in view.index for r in e.dv_ranges or ()} - live


def java_lines(java: JavaPaimon) -> list[str]:
    """All rows as Java reads them, without the bucket."""
    return sorted(json.dumps(r, sort_keys=True) for r in java.json("read"))


def test_java_reads_the_changelog_of_input(tmp_path: Path) -> None:
    """changelog-producer=input: Java's incremental changelog read gives every record of the batch, in key order."""
    options = {"bucket": "1", "changelog-producer": "input"}
    spec = {"fields": [{"name": "k", "type": "INT"}, {"name": "v", "type": "STRING"}], "primaryKeys": ["k"],
            "partitionKeys": [], "options": options}  # fmt: skip
    from_java = JavaPaimon(str(tmp_path / "java"), "d.t")
    ours = Table.create(f"{tmp_path}/ours/d.db/t", spec)
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    from_java.run("create", str(tmp_path / "spec.json"))
    rows = [("2", "a", "+I"), ("1", "b", "+I"), ("2", None, "-D"), ("2", "c", "+U"), ("3", "d", "-D")]
    lines = [{"k": k, "v": v, "_kind": kind} for k, v, kind in rows]
    from_java.write(lines, tmp_path / "rows.jsonl")

    upsert_files(make_context(ours.metadata, "b1"), [str(tmp_path / "rows.jsonl")], LandingOptions("jsonl"))
    theirs = Table.open(f"{tmp_path}/java/d.db/t")
    assert changelog(ours) == changelog(theirs)
    java = JavaPaimon(str(tmp_path / "ours"), "d.t")
    assert java.json("read") == from_java.json("read")


def changelog(table: Table) -> list[tuple[Any, ...]]:
    """Rows of all changelog files, as they stand in the Parquet files, and what the manifests say about them."""

    m = table.metadata
    out: list[tuple[Any, ...]] = []
    for snapshot in m.snapshots():
        assert snapshot.changelog_manifest_list is not None
        for meta in m.load_manifest_list(snapshot.changelog_manifest_list):
            for entry in m.load_manifest(meta.file_name):
                f = entry.file
                rows = pq.read_table(m.paths.data_file({}, entry.bucket, f.file_name)).to_pylist()
                out.append((snapshot.changelog_record_count, f.file_name[:10], f.level, f.row_count, f.delete_row_count,
                            f.min_key, f.max_key, f.min_sequence_number, f.max_sequence_number, f.file_source, rows))  # fmt: skip
    return out
