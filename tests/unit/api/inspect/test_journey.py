"""Journeys: every file that lakeidx leaves in and beside a real table is shown by inspect, checks pass and scans explain."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.api.inspect.files import inspect_file
from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.errors import CorruptFileError, UnsupportedError
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.file_index_rebuild import run_file_index_rebuild, spec_of_options
from lakeidx.maintenance.lookup_store import run_lookup_store
from lakeidx.quality.load import load_evidence
from lakeidx.quality.verify import verify
from lakeidx.storage.local import LocalStore
from lakeidx.table.expiration.tags import create_tag
from lakeidx.tasks.runner import LocalRunner
from tests.kit.shared_table.foreign import deletable, delete_by_vector
from tests.kit.upserts import upsert_table

STORE = LocalStore()
FIELDS = [{"name": "p", "type": "INT"}, {"name": "k", "type": "BIGINT"}, {"name": "v", "type": "STRING"}]
INDEXED = {
    "file-index.bloom-filter.columns": "v",
    "file-index.bitmap.columns": "k",
    "file-index.in-manifest-threshold": "1 B",
}
#: What every table of these journeys has.
COMMON = {
    "schema", "snapshot", "hint", "manifest", "manifest list", "parquet data file", "tag", "consumer", "stage report",
    "changes of a batch", "arrow file", "lookup listing", "changelog",
}  # fmt: skip
SORT, HASH = {"lookup store, sort"}, {"lookup store, hash"}
INDEX = {"index manifest", "hash index"}
JOURNEYS: dict[str, tuple[list[str], list[str], dict[str, str], set[str]]] = {
    "dynamic": (["p", "k"], ["p"], {"bucket": "-1"}, INDEX | SORT),
    "fixed": (["k"], [], {"bucket": "2", **INDEXED, "lookup.store.type": "hash"}, {"file index"} | HASH),
    "cross-partition": (
        ["k"], ["p"], {"bucket": "-1"}, SORT
    ),
    "bloom": (["p", "k"], ["p"], {"bucket": "-1", "index.type": "bloom"}, SORT),
    "rings": (
        ["p", "k"], ["p"],
        {"bucket": "-1", "index.type": "bucket", "hoodie.index.bucket.engine": "CONSISTENT_HASHING"},
        SORT,
    ),
    "deletion vectors": (
        ["p", "k"], ["p"], {"bucket": "-1", "deletion-vectors.enabled": "true"}, INDEX | SORT | {"deletion vectors"}
    ),
    "changelog": (["p", "k"], ["p"], {"bucket": "1", "changelog-producer": "input"}, SORT),
    "first-row": (["k"], [], {"bucket": "-1", "merge-engine": "first-row"}, INDEX | SORT),
    "partial update": (["k"], [], {"bucket": "1", "merge-engine": "partial-update"}, SORT),
    "aggregation": (
        ["k"], [], {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "max"}, SORT
    ),
    "append": ([], ["p"], {"bucket": "-1"}, set()),
    "append in buckets": ([], [], {"bucket": "2", "bucket-key": "k"}, set()),
}  # fmt: skip


def make(folder: Path, name: str) -> Table:
    keys, partitions, options, _ = JOURNEYS[name]
    more = {"dynamic-bucket.target-row-num": "8", "changelog-producer": "none", "consumer.expiration-time": "7 d"}
    spec = {"fields": FIELDS, "primaryKeys": keys, "partitionKeys": partitions, "options": {**more, **options}}
    return Table.create(f"{folder}/wh/d.db/t", spec)


def live_through(table: Table) -> None:
    """Leave files of every kind: batches, a tag, a branch, a consumer, lookup files, file indexes, a changelog snapshot."""
    for batch in range(3):
        columns = {"p": pa.array([1, 2] * 10, pa.int32()), "k": pa.array(range(batch, batch + 20), pa.int64())}
        rows = pa.table({**columns, "v": [f"{batch}-{i}" for i in range(20)]})
        upsert_table(make_context(table.metadata, f"b{batch}"), rows)
    create_tag(table.metadata, "first", snapshot_id=1)
    root = Path(table.uri)
    (root / "consumer").mkdir()
    (root / "consumer/consumer-c").write_text('{"nextSnapshot": 3}')
    for folder, file in (("schema", "schema-0"), ("snapshot", "snapshot-1"), ("tag", "tag-first")):
        (root / "branch/branch-b" / folder).mkdir(parents=True)
        shutil.copy(root / folder / file, root / "branch/branch-b" / folder / file)
    if table.schema.primary_keys:
        run_lookup_store(table.metadata, LocalRunner(1))
    run_file_index_rebuild(table.metadata, LocalRunner(1), spec_of_options(table.schema))
    run_compaction(table.metadata, LocalRunner(1), full=True)
    if table.schema.table_options.deletion_vectors_enabled:
        # lakeidx reads vectors and drops them with the files; Java's compactions write them.
        opened = Table.open(table.uri)
        delete_by_vector(opened, deletable(opened)[1, 4])
    if table.schema.primary_keys:
        run_lookup_store(table.metadata, LocalRunner(1), remove=False)
    (root / "changelog").mkdir(exist_ok=True)
    shutil.copy(root / "snapshot/snapshot-1", root / "changelog/changelog-1")


@pytest.mark.slow
@pytest.mark.parametrize("name", JOURNEYS)
def test_every_file_is_inspected_checked_and_explained(tmp_path: Path, name: str) -> None:
    table = make(tmp_path, name)
    live_through(table)
    kinds = set()
    for path in sorted(p for p in tmp_path.rglob("*") if p.is_file()):
        found = inspect_file(str(path), store=STORE)
        assert (found["path"], found["size"]) == (str(path), path.stat().st_size)
        json.dumps(found, allow_nan=False)
        kinds.add(found["kind"])
    wanted = COMMON if table.schema.primary_keys else COMMON - {"lookup listing"}
    assert sorted((wanted | JOURNEYS[name][3]) - kinds) == []
    opened = Table.open(table.uri)
    assert not [r.name for r in verify(load_evidence(opened.metadata)) if not r.passed]
    explained = opened.scan(where="k = 5").explain()
    assert explained.rows == opened.scan(where="k = 5").to_arrow().num_rows > 0


@pytest.mark.slow
def test_cut_files_are_refused_by_name_and_byte(tmp_path: Path) -> None:
    table = make(tmp_path, "fixed")
    live_through(table)
    refused: dict[str, str | None] = {}
    for path in sorted(p for p in tmp_path.rglob("*") if p.is_file() and p.stat().st_size > 1):
        whole: Any = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        try:
            inspect_file(str(path), store=STORE)
        except (CorruptFileError, UnsupportedError) as error:
            refused[path.suffix] = error.path
        path.write_bytes(whole)
    assert set(refused) >= {".parquet", ".lookup", ".context", ".index", ".json", ".arrow"}
    assert all(refused.values())


@pytest.mark.parametrize("name", ["_commit_priority.json", "x/y.json", "_index/commits/i", "b/notes"])
def test_a_stranger_beside_a_table_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "wh/_lakeidx/d/t" / name
    path.parent.mkdir(parents=True)
    path.write_text("[1]" if name.endswith("json") else "hello")
    with pytest.raises((UnsupportedError, CorruptFileError)):
        inspect_file(str(path), store=STORE)
