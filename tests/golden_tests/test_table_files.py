"""Data files of every golden table: read and merged they give Java's rows; written again they give Java's statistics.

Which files a snapshot has is taken from ``files-N.jsonl``, so that nothing here depends on manifests or scan planning.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cmp_to_key
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.api.listings import internal_to_json
from lakeidx.codec.rows.binary_row import split_arity
from lakeidx.codec.rows.binary_row_read import decode_row
from lakeidx.codec.values import arrow_to_internal
from lakeidx.data.merge.merge_runs import merge_sorted_runs
from lakeidx.data.read_data_file import read_data_file
from lakeidx.data.row_kinds import SHORT_NAMES
from lakeidx.data.write_data_file import DataFileWriter
from lakeidx.format.data_file import DataFileMeta, FileSource
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.manifest import decode_manifest
from lakeidx.format.manifest_list import decode_manifest_list
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.schema_file import TableSchema, decode_schema
from lakeidx.storage import LocalStore
from tests.conftest import GOLDEN
from tests.kit.json_forms import json_to_internal
from tests.kit.scalar_twins import compare_rows

pytestmark = pytest.mark.golden
STORE = LocalStore(sync=False)
CASES = sorted(p.parent for p in (GOLDEN / "tables").glob("*/case.json"))


@dataclass(frozen=True)
class Case:
    directory: Path
    info: dict[str, Any]

    @property
    def table(self) -> Path:
        return self.directory / "table"

    def schema(self, schema_id: int) -> TableSchema:
        path = self.table / "schema" / f"schema-{schema_id}"
        return decode_schema(path.read_bytes(), str(path))

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.directory / name).read_text(encoding="utf-8").splitlines()]

    def data_path(self, schema: TableSchema, entry: dict[str, Any]) -> str:
        values = {k: json_to_internal(v, schema.field(k).type) for k, v in entry["partition"].items()}
        return f"{TablePaths.of(str(self.table), schema).bucket_dir(values, entry['bucket'])}/{entry['file']}"


def load(directory: Path) -> Case:
    return Case(directory, json.loads((directory / "case.json").read_text(encoding="utf-8")))


def snapshots() -> Iterator[Any]:
    for directory in CASES:
        case = load(directory)
        # Cases made without inputs give the rows of the last snapshot only.
        for snapshot in (s for s in case.info["snapshots"] if "expect" in s):
            yield pytest.param(case, snapshot, id=f"{directory.name}-{snapshot['id']}")


def as_text(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(r, sort_keys=True, ensure_ascii=False) for r in rows)


def rows_of(table: pa.Table, schema: TableSchema) -> list[dict[str, Any]]:
    columns = [
        [internal_to_json(v, f.type) for v in arrow_to_internal(table.column(f.name), f.type)] for f in schema.fields
    ]
    return [dict(zip(schema.field_names, row, strict=True)) for row in zip(*columns, strict=True)]


def normal_form(row: dict[str, Any], schema: TableSchema) -> dict[str, Any]:
    """A row of the golden data with one text per value (Java has several for a FLOAT)."""
    return {f.name: internal_to_json(json_to_internal(row[f.name], f.type), f.type) for f in schema.fields}


def visible(schema: TableSchema, entry: dict[str, Any]) -> bool:
    """Batch reads of deletion vector and first-row tables leave level 0 out, all reads the postpone bucket."""
    options = schema.table_options
    skips_level_0 = options.deletion_vectors_enabled or options.merge_engine == "first-row"
    return bool(entry["bucket"] >= 0 and (entry["level"] > 0 or not (schema.primary_keys and skips_level_0)))


def merged_rows(case: Case, entries: list[dict[str, Any]], schema: TableSchema, batch_rows: int) -> list[pa.Table]:
    """The rows of one bucket, merged."""
    vectors: dict[str, list[int]] = {}
    for e in entries:
        for name, found in e.get("deletion_vectors", {}).items():
            vectors[name] = found["positions"]
    files = [e for e in entries if "file" in e and "level" in e and visible(schema, e)]

    def read(entry: dict[str, Any]) -> Iterator[pa.Table]:
        positions = vectors.get(entry["file"])
        return read_data_file(
            STORE,
            case.data_path(schema, entry),
            None,
            case.schema(entry["schema_id"]),
            schema,
            deletion_vector=None if positions is None else np.array(positions),
            batch_rows=batch_rows,
        )

    if not schema.primary_keys:
        return [t for e in files for t in read(e)]
    types = schema.key_types

    def key_order(a: dict[str, Any], b: dict[str, Any]) -> int:
        left, right = ([json_to_internal(v, t) for v, t in zip(e["min_key"], types, strict=True)] for e in (a, b))
        return compare_rows(left, right, types)

    levels: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for entry in files:
        levels[entry["file"] if entry["level"] == 0 else entry["level"]].append(entry)
    runs = [(t for entry in sorted(level, key=cmp_to_key(key_order)) for t in read(entry)) for level in levels.values()]
    return list(merge_sorted_runs(runs, schema, drop_deletes=True))


@pytest.mark.parametrize("batch_rows", [3, 65536])
@pytest.mark.parametrize(("case", "snapshot"), list(snapshots()))
def test_merged_files_are_the_rows_of_the_snapshot(case: Case, snapshot: dict[str, Any], batch_rows: int) -> None:
    check_rows(
        case, f"files-{snapshot['id']}.jsonl", case.schema(snapshot["schema_id"]), snapshot["expect"], batch_rows
    )


def test_last_snapshot_read_with_the_latest_schema() -> None:
    """``expect-latest.jsonl`` is there only where it differs from the last snapshot's own rows."""
    for case in map(load, CASES):
        last = case.info["snapshots"][-1]
        if "expect" in last:
            name = "expect-latest.jsonl"
            expect = name if (case.directory / name).exists() else last["expect"]
            check_rows(case, f"files-{last['id']}.jsonl", case.schema(case.info["latest_schema_id"]), expect, 65536)


def check_rows(case: Case, files: str, schema: TableSchema, expect: str, batch_rows: int) -> None:
    buckets: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in case.lines(files):
        buckets[json.dumps([entry["partition"], entry["bucket"]], sort_keys=True)].append(entry)
    got = []
    for entries in buckets.values():
        for table in merged_rows(case, entries, schema, batch_rows):
            for row in rows_of(table, schema):
                got.append({"row": row, "partition": entries[0]["partition"], "bucket": entries[0]["bucket"]})
    wanted = [{**e, "row": normal_form(e["row"], schema)} for e in case.lines(expect)]
    assert as_text(got) == as_text(wanted)


def manifest_files(case: Case) -> dict[str, DataFileMeta]:
    """DataFileMeta by name, as Java wrote it into the manifests of the last snapshot."""
    snapshot = json.loads((case.table / "snapshot" / f"snapshot-{case.info['snapshots'][-1]['id']}").read_bytes())
    out = {}
    for name in (snapshot["baseManifestList"], snapshot["deltaManifestList"]):
        for manifest in decode_manifest_list((case.table / "manifest" / name).read_bytes(), name):
            path = case.table / "manifest" / manifest.file_name
            out.update({e.file.file_name: e.file for e in decode_manifest(path.read_bytes(), str(path))})
    return out


def live_parquet_files() -> Iterator[Any]:
    for directory in CASES:
        case = load(directory)
        last = case.info["snapshots"][-1]
        metas = manifest_files(case)
        for entry in case.lines(f"files-{last['id']}.jsonl"):
            if str(entry.get("file")).endswith(".parquet") and "level" in entry:
                yield pytest.param(case, entry, metas[entry["file"]], id=f"{directory.name}-{entry['file'][5:13]}")


def message_schema(path: Path) -> list[str]:
    """The columns of a Parquet file with their types, repetitions and field ids, as text.

    Left out: the name of the message (Arrow calls it ``schema``) and the second annotation that Java puts on the repeated
    group of a map.
    """
    lines = str(pq.ParquetFile(path).schema).splitlines()[2:]
    return [line.replace("key_value (Map)", "key_value") for line in lines]


@pytest.mark.parametrize(("case", "entry", "java"), list(live_parquet_files()))
def test_a_file_written_again_has_javas_statistics(
    case: Case, entry: dict[str, Any], java: DataFileMeta, tmp_path: Path
) -> None:
    """min/max key, key and value statistics byte for byte, rows, deletes, sequence numbers, Parquet types."""
    schema = case.schema(java.schema_id)
    path = case.data_path(schema, entry)
    rows = list(read_data_file(STORE, path, java, schema, schema))
    written = DataFileWriter(
        schema,
        store=STORE,
        bucket_dir=str(tmp_path),
        names=NewFileNames(),
        level=java.level,
        file_source=FileSource(java.file_source or 0),
        target_file_size=1 << 40,
        first_sequence=java.min_sequence_number,
    ).write_all(rows)
    assert len(written) == 1
    own = ("file_name", "file_size", "creation_time_ms", "extra_files", "embedded_index")
    assert replace(written[0], **{k: getattr(java, k) for k in own}) == java
    assert written[0].file_name.endswith("".join(Path(java.file_name).suffixes))
    assert message_schema(tmp_path / written[0].file_name) == message_schema(Path(path))
    again = list(read_data_file(STORE, str(tmp_path / written[0].file_name), written[0], schema, schema))
    assert as_text(rows_of(pa.concat_tables(again), schema)) == as_text(rows_of(pa.concat_tables(rows), schema))


def changelogs() -> Iterator[Any]:
    for directory in CASES:
        case = load(directory)
        for snapshot in case.info["snapshots"]:
            if (directory / f"changelog-{snapshot['id']}.jsonl").exists():
                yield pytest.param(case, snapshot, id=f"{directory.name}-{snapshot['id']}")


@pytest.mark.parametrize(("case", "snapshot"), list(changelogs()))
def test_changelog_files_hold_the_changes(case: Case, snapshot: dict[str, Any]) -> None:
    schema = case.schema(snapshot["schema_id"])
    state = json.loads((case.table / "snapshot" / f"snapshot-{snapshot['id']}").read_bytes())
    name = state.get("changelogManifestList")
    metas = decode_manifest_list((case.table / "manifest" / name).read_bytes(), name) if name else []
    got = []
    for meta in metas:
        for e in decode_manifest((case.table / "manifest" / meta.file_name).read_bytes(), meta.file_name):
            partition = dict(
                zip(schema.partition_keys, decode_row(split_arity(e.partition)[1], schema.partition_types), strict=True)
            )
            folder = TablePaths.of(str(case.table), schema).bucket_dir(partition, e.bucket)
            path = f"{folder}/{e.file.file_name}"
            for table in read_data_file(STORE, path, e.file, case.schema(e.file.schema_id), schema):
                kinds = [SHORT_NAMES[k] for k in table.column("_VALUE_KIND").to_pylist()]
                got += [{"kind": k, "row": r} for k, r in zip(kinds, rows_of(table, schema), strict=True)]
    lines = case.lines(f"changelog-{snapshot['id']}.jsonl")
    assert as_text(got) == as_text([{"kind": e["kind"], "row": normal_form(e["row"], schema)} for e in lines])
