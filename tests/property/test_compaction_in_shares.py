"""A bucket that several tasks compact by key range becomes what one task makes of it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakeidx.api import Table
from lakeidx.compaction.bucket import BucketCompaction, CompactedBucket
from lakeidx.compaction.plan_buckets import plan_buckets
from lakeidx.compaction.rewrite import compact_bucket
from lakeidx.data.read_data_file import read_data_file
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.maintenance import compaction
from lakeidx.maintenance.compaction import join_bucket_shares, shares_of
from lakeidx.table.intervals import rank_files
from lakeidx.table.view import load_view

pytestmark = pytest.mark.slow

#: A row group has 1,000 rows at least, and a file a row group.
KEYS = 9000
OPTIONS: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "sum": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "first row": {"merge-engine": "first-row"},
    "by another column": {"sequence.field": "v"},
    "changelog": {"changelog-producer": "full-compaction"},
    "looked up": {"changelog-producer": "lookup"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "texts": {},
}
SMALL = {"bucket": "1", "target-file-size": "2 kb", "write-only": "true", "file.block-size": "1 kb"}


def spec(kind: str) -> dict[str, Any]:
    fields = [
        {"name": "k", "type": "STRING NOT NULL" if kind == "texts" else "BIGINT NOT NULL"},
        {"name": "n", "type": "INT NOT NULL"}, {"name": "v", "type": "BIGINT"}, {"name": "w", "type": "STRING"},
    ]  # fmt: skip
    return {"fields": fields, "primaryKeys": ["k", "n"], "options": {**SMALL, **OPTIONS[kind]}}


def batch(kind: str, number: int, seed: int, first: int, last: int) -> pa.Table:
    """Rows of a range of keys, some deleted where the engine allows it."""
    rng = np.random.default_rng([seed, number])
    keys = np.flatnonzero(rng.random(KEYS) < 0.6)
    keys = keys[(keys >= first) & (keys < last)]
    k = (
        pa.array([f"é{x // 2:04d}" for x in keys], pa.string())
        if kind == "texts"
        else pa.array(keys // 2 - 1700, pa.int64())
    )
    words = [f"{x:x}" if x % 5 else None for x in rng.integers(0, 1 << 60, len(keys)).tolist()]
    columns = {
        "k": k, "n": pa.array(keys % 2, pa.int32()), "v": pa.array(rng.integers(0, 9, len(keys)), pa.int64()),
        "w": pa.array(words, pa.string()),
    }  # fmt: skip
    if number and kind not in ("first row", "sum"):
        columns["_kind"] = pa.array(np.where(rng.random(len(keys)) < 0.2, "-D", "+U"), pa.string())
    return pa.table(columns)


def rows_of(table: Table, entries: list[ManifestEntry], bucket: str) -> list[dict[str, Any]]:
    """Rows of files as they stand in them, the files by their first keys: a bucket's steps may be listed in any order."""
    files: list[list[dict[str, Any]]] = []
    for entry in entries:
        path = f"{bucket}/{entry.file.file_name}"
        parts = read_data_file(table.metadata.store, path, entry.file, table.schema, table.schema)
        files.append([row for part in parts for row in part.to_pylist()])
    return [row for rows in sorted(files, key=lambda rows: (rows[0]["k"], rows[0]["n"])) for row in rows]


def new(done: CompactedBucket) -> list[ManifestEntry]:
    return [e for e in done.changes.compact if e.kind is FileKind.ADD]


def are_one_run(table: Table, files: list[DataFileMeta]) -> bool:
    ranked = sorted(rank_files(files, table.schema.key_types), key=lambda file: file.low)
    return all(a.high < b.low for a, b in pairwise(ranked))


def compare(table: Table, work: BucketCompaction, parts: int) -> int:
    """Compare shares with the whole; give how many there were."""
    bucket = table.metadata.paths.bucket_dir({}, 0)
    one, cut = compact_bucket(work), shares_of(work, parts)
    if cut[0] is work:
        return 1
    many = join_bucket_shares(work, [compact_bucket(s) for s in cut])
    assert rows_of(table, new(many), bucket) == rows_of(table, new(one), bucket)
    assert are_one_run(table, [e.file for e in new(many)])
    removed = [[e for e in d.changes.compact if e.kind is FileKind.DELETE] for d in (one, many)]
    assert sorted(e.file.file_name for e in removed[0]) == sorted(e.file.file_name for e in removed[1])
    logs = [rows_of(table, list(d.changes.compact_changelog), bucket) for d in (one, many)]
    assert logs[0] == logs[1]
    assert one.changes.compact_index == many.changes.compact_index
    figures = ("rows_in", "rows_out", "bytes_in", "upgraded", "changelog_rows", "hashes_dropped")
    assert [getattr(one, f) for f in figures] == [getattr(many, f) for f in figures]
    return len(cut)


def written(folder: Path, kind: str, seed: int, ranges: list[tuple[int, int]]) -> Table:
    table = Table.create(f"{folder}/wh/d.db/t", spec(kind))
    table.upsert(batch(kind, 0, seed, 0, KEYS))
    table.compact(full=True)
    for number, (first, last) in enumerate(ranges, 1):
        table.upsert(batch(kind, number, seed, min(first, last), max(first, last)))
        if number == 1 and kind in ("looked up", "deletion vectors"):
            # Level 0 goes to a level between, and rows of the top are marked as deleted.
            table.compact()
    return table


@pytest.mark.share(0.4)
@pytest.mark.parametrize("kind", OPTIONS)
@settings(max_examples=6, deadline=None)
@example(seed=0, ranges=[(0, 1680), (61, 3312)], parts=2, full=False)
@given(
    seed=st.integers(0, 1000),
    ranges=st.lists(st.tuples(st.integers(0, KEYS), st.integers(0, KEYS)), min_size=1, max_size=3),
    parts=st.integers(2, 6),
    full=st.booleans(),
)
def test_shares_make_what_one_task_makes(
    kind: str,
    seed: int,
    ranges: list[tuple[int, int]],
    parts: int,
    full: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("shares")
    try:
        table = written(folder, kind, seed, ranges)
        metadata = table.metadata
        view = load_view(metadata, metadata.latest_snapshot())
        for work in plan_buckets(metadata, table.schema, view, full=full, now_ms=0):
            compare(table, work, parts)
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("kind", OPTIONS)
def test_a_large_bucket_goes_to_several_tasks_and_is_committed_as_a_whole(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [written(tmp_path / name, kind, 7, [(0, KEYS), (1000, 6000)]) for name in ("one", "many")]
    metadata = tables[1].metadata
    (work,) = plan_buckets(
        metadata, tables[1].schema, load_view(metadata, metadata.latest_snapshot()), full=True, now_ms=0
    )
    assert compare(tables[1], work, 4) >= 3
    reports = []
    for table, least in zip(tables, (10_000, 1), strict=True):
        monkeypatch.setattr(compaction, "LEAST_FILES", least)
        reports.append(table.compact(full=True))
    assert len(reports[1].snapshot_ids) == len(reports[0].snapshot_ids) == 1
    assert reports[1].rows_out == reports[0].rows_out
    assert (
        tables[1]
        .scan()
        .to_arrow()
        .sort_by([("k", "ascending"), ("n", "ascending")])
        .equals(tables[0].scan().to_arrow().sort_by([("k", "ascending"), ("n", "ascending")]))
    )
    assert all(r.passed for r in tables[1].verify().results)


def test_a_share_that_fails_costs_its_bucket_and_is_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = written(tmp_path, "deduplicate", 7, [(0, KEYS)])
    monkeypatch.setattr(compaction, "LEAST_FILES", 1)
    before = table.metadata.latest_snapshot_id()
    files = load_view(table.metadata, table.metadata.latest_snapshot()).entries
    newest = max(files, key=lambda e: e.file.max_sequence_number)
    path = Path(table.metadata.paths.bucket_dir({}, 0)) / newest.file.file_name
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(Exception, match=r"1 of 1 buckets were not compacted, 0 were committed: \S+/bucket-0: [^;]*$"):
        table.compact(full=True)
    assert table.metadata.latest_snapshot_id() == before
    assert replace(newest).file.level == 0
