"""Data files of every golden table: each state has the rows that Java read; written again they give Java's statistics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.api.table import Table
from lakeidx.codec.rows.binary_row import split_arity
from lakeidx.codec.rows.binary_row_read import decode_row
from lakeidx.codec.values import arrow_to_internal
from lakeidx.data.read_data_file import BATCH_ROWS, read_data_file
from lakeidx.data.row_kinds import SHORT_NAMES
from lakeidx.data.write_data_file import DataFileWriter
from lakeidx.format.data_file import DataFileMeta, FileSource
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.manifest import decode_manifest
from lakeidx.format.manifest_list import decode_manifest_list
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.storage import LocalStore
from lakeidx.table.scan import section_read
from lakeidx.table.view import decode_partition_dict
from tests.kit.golden_tables import TABLES, GoldenTable
from tests.kit.json_forms import internal_to_json, json_to_internal

pytestmark = pytest.mark.golden
STORE = LocalStore(sync=False)


def states() -> Iterator[Any]:
    for case in TABLES:
        names = {
            snapshot["expect"]: {"snapshot": snapshot["id"]}
            for snapshot in case.info["snapshots"]
            if "expect" in snapshot
        }
        # expect-latest.jsonl is there only where it differs from the last snapshot's own rows.
        names |= {path.name: {} for path in case.folder.glob("expect-latest.jsonl")}
        names |= {p.name: {"tag": p.stem.removeprefix("expect-tag-")} for p in case.folder.glob("expect-tag-*.jsonl")}
        for name, state in names.items():
            yield pytest.param(case, name, state, id=f"{case.name}-{name}")


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


@pytest.mark.parametrize("batch_rows", [3, BATCH_ROWS])
@pytest.mark.parametrize(("case", "expect", "state"), list(states()))
def test_rows_are_java_s(
    case: GoldenTable, expect: str, state: dict[str, Any], batch_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BATCH_ROWS", "_MERGE_ROWS"):
        monkeypatch.setattr(section_read, name, batch_rows)
    scan = Table.open(str(case.path)).scan(**state)
    schema = scan.plan.schema
    got = []
    for bucket in scan.plan.buckets:
        values = decode_partition_dict(bucket.partition, schema)
        partition = {k: internal_to_json(values[k], schema.field(k).type) for k in schema.partition_keys}
        for table in scan.read_bucket(bucket):
            got += [{"row": r, "partition": partition, "bucket": bucket.bucket} for r in rows_of(table, schema)]
    assert as_text(got) == as_text([{**e, "row": normal_form(e["row"], schema)} for e in case.lines(expect)])


def data_path(case: GoldenTable, entry: dict[str, Any]) -> str:
    schema = case.latest_schema
    values = {k: json_to_internal(v, schema.field(k).type) for k, v in entry["partition"].items()}
    return f"{TablePaths.of(str(case.path), schema).bucket_dir(values, entry['bucket'])}/{entry['file']}"


def manifest_files(case: GoldenTable) -> dict[str, DataFileMeta]:
    """DataFileMeta by name, as Java wrote it into the manifests of the last snapshot."""
    snapshot = case.snapshot(case.info["snapshots"][-1]["id"])
    out = {}
    for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
        for manifest in decode_manifest_list((case.path / "manifest" / name).read_bytes(), name):
            path = case.path / "manifest" / manifest.file_name
            out.update({e.file.file_name: e.file for e in decode_manifest(path.read_bytes(), str(path))})
    return out


def live_parquet_files() -> Iterator[Any]:
    for case in TABLES:
        last = case.info["snapshots"][-1]
        metas = manifest_files(case)
        for entry in case.lines(f"files-{last['id']}.jsonl"):
            if str(entry.get("file")).endswith(".parquet") and "level" in entry:
                yield pytest.param(case, entry, metas[entry["file"]], id=f"{case.name}-{entry['file'][5:13]}")


def message_schema(path: Path) -> list[str]:
    """The columns of a Parquet file with their types, repetitions and field ids, as text.

    Left out: the name of the message (Arrow calls it ``schema``) and the second annotation that Java puts on the repeated
    group of a map.
    """
    lines = str(pq.ParquetFile(path).schema).splitlines()[2:]
    return [line.replace("key_value (Map)", "key_value") for line in lines]


@pytest.mark.parametrize(("case", "entry", "java"), list(live_parquet_files()))
def test_a_file_written_again_has_javas_statistics(
    case: GoldenTable, entry: dict[str, Any], java: DataFileMeta, tmp_path: Path
) -> None:
    """min/max key, key and value statistics byte for byte, rows, deletes, sequence numbers, Parquet types."""
    schema = case.schema(java.schema_id)
    path = data_path(case, entry)
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
    for case in TABLES:
        for snapshot in case.info["snapshots"]:
            if (case.folder / f"changelog-{snapshot['id']}.jsonl").exists():
                yield pytest.param(case, snapshot, id=f"{case.name}-{snapshot['id']}")


@pytest.mark.parametrize(("case", "snapshot"), list(changelogs()))
def test_changelog_files_hold_the_changes(case: GoldenTable, snapshot: dict[str, Any]) -> None:
    schema = case.schema(snapshot["schema_id"])
    name = case.snapshot(snapshot["id"]).changelog_manifest_list
    metas = decode_manifest_list((case.path / "manifest" / name).read_bytes(), name) if name else []
    got = []
    for meta in metas:
        for e in decode_manifest((case.path / "manifest" / meta.file_name).read_bytes(), meta.file_name):
            partition = dict(
                zip(schema.partition_keys, decode_row(split_arity(e.partition)[1], schema.partition_types), strict=True)
            )
            folder = TablePaths.of(str(case.path), schema).bucket_dir(partition, e.bucket)
            path = f"{folder}/{e.file.file_name}"
            for table in read_data_file(STORE, path, e.file, case.schema(e.file.schema_id), schema):
                kinds = [SHORT_NAMES[k] for k in table.column("_VALUE_KIND").to_pylist()]
                got += [{"kind": k, "row": r} for k, r in zip(kinds, rows_of(table, schema), strict=True)]
    lines = case.lines(f"changelog-{snapshot['id']}.jsonl")
    assert as_text(got) == as_text([{"kind": e["kind"], "row": normal_form(e["row"], schema)} for e in lines])
