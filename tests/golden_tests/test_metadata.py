"""Metadata files of every golden table: each decodes, encodes back, and says what case.json and files-N.jsonl say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lakeidx.api.inspect.files import inspect_file
from lakeidx.codec.containers.avro import MAGIC, header_schema
from lakeidx.codec.rows.binary_row import split_arity
from lakeidx.codec.rows.binary_row_read import decode_row
from lakeidx.format.data_file import EMPTY_STATS, FileSource, SimpleStats, epoch_ms_of_local
from lakeidx.format.deletion_vector import (
    decode_vector,
    encode_deletion_vectors,
    scan_deletion_vectors,
    vector_range,
)
from lakeidx.format.file_names import NameKind, parse_file_name
from lakeidx.format.hash_index import decode_hash_index
from lakeidx.format.index_manifest import IndexEntry, decode_index_manifest, encode_index_manifest
from lakeidx.format.manifest import FileKind, ManifestEntry, decode_manifest, encode_manifest
from lakeidx.format.manifest_list import decode_manifest_list, encode_manifest_list
from lakeidx.format.partition_names import parse_bucket_dir, unescape
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.rules import check_schema
from lakeidx.format.schema.schema_file import TableSchema, decode_schema, encode_schema
from lakeidx.format.snapshot import Snapshot, decode_snapshot, encode_snapshot
from lakeidx.format.tag import decode_tag, encode_tag
from lakeidx.storage import LocalStore
from lakeidx.types import Field, Root
from tests.kit.avro_checksum import as_others_write
from tests.kit.golden_tables import TABLES, GoldenTable
from tests.kit.json_forms import internal_to_json

pytestmark = pytest.mark.golden


def files(*patterns: str) -> list[Any]:
    """Files of all golden tables, as parameters."""
    found = [(case, p) for case in TABLES for pattern in patterns for p in sorted(case.path.glob(pattern))]
    return [pytest.param(case, path, id=f"{case.name}-{path.name[:40]}") for case, path in found]


def snapshots() -> list[Any]:
    pairs = [(case, snapshot) for case in TABLES for snapshot in case.info["snapshots"]]
    return [pytest.param(case, snapshot, id=f"{case.name}-{snapshot['id']}") for case, snapshot in pairs]


def row(data: bytes, fields: list[Field] | tuple[Field, ...]) -> list[Any]:
    arity, body = split_arity(data)
    assert arity == len(fields)
    values = decode_row(body, [f.type.with_nullable(True) for f in fields])
    return [internal_to_json(v, f.type) for v, f in zip(values, fields, strict=True)]


def entries_of(case: GoldenTable, snapshot: Snapshot) -> list[ManifestEntry]:
    """Live entries, by the plain rule: base lists then delta lists, ADD puts, DELETE takes away."""
    manifest_dir = case.path / "manifest"
    live: dict[Any, ManifestEntry] = {}
    for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
        for meta in decode_manifest_list((manifest_dir / name).read_bytes(), name):
            data = (manifest_dir / meta.file_name).read_bytes()
            assert len(data) == meta.file_size
            entries = decode_manifest(data, meta.file_name)
            assert sum(e.kind is FileKind.ADD for e in entries) == meta.num_added_files
            assert sum(e.kind is FileKind.DELETE for e in entries) == meta.num_deleted_files
            assert max(e.file.schema_id for e in entries) == meta.schema_id
            assert (min(e.bucket for e in entries), max(e.bucket for e in entries)) == (
                meta.min_bucket,
                meta.max_bucket,
            )
            assert (min(e.file.level for e in entries), max(e.file.level for e in entries)) == (
                meta.min_level,
                meta.max_level,
            )
            for e in entries:
                if e.kind is FileKind.ADD:
                    assert e.identifier not in live
                    live[e.identifier] = e
                else:
                    del live[e.identifier]
    return list(live.values())


@pytest.mark.parametrize(("case", "path"), files("schema/schema-*"))
def test_schema(case: GoldenTable, path: Path) -> None:
    data = path.read_bytes()
    schema = decode_schema(data, str(path))
    assert encode_schema(schema) == data
    assert f"schema-{schema.id}" == path.name
    check_schema(schema)
    info = case.info
    assert schema.bucket_mode.value == info["bucket_mode"]
    if schema.id == info["latest_schema_id"]:
        # case.json leaves descriptions out.
        shown = [{k: v for k, v in f.items() if k != "description"} for f in json.loads(data)["fields"]]
        assert shown == info["fields"]
        assert list(schema.primary_keys) == info["primary_keys"]
        assert list(schema.partition_keys) == info["partition_keys"]
        assert dict(schema.options) == info["options"]


@pytest.mark.parametrize(("case", "path"), files("snapshot/snapshot-*", "changelog/changelog-*"))
def test_snapshot_file(case: GoldenTable, path: Path) -> None:
    data = path.read_bytes()
    snapshot = decode_snapshot(data, str(path))
    assert encode_snapshot(snapshot) == data
    assert parse_file_name(path.name).number == snapshot.id


@pytest.mark.parametrize(("case", "path"), files("tag/tag-*"))
def test_tag_file(case: GoldenTable, path: Path) -> None:
    data = path.read_bytes()
    tag = decode_tag(data, str(path))
    assert encode_tag(tag) == data
    assert parse_file_name(path.name).label in case.info["tags"] or not case.info["tags"]


@pytest.mark.parametrize(("case", "path"), files("manifest/*"))
def test_avro_file(case: GoldenTable, path: Path) -> None:
    data = path.read_bytes()
    kind = parse_file_name(path.name).kind
    decode: Any
    encode: Any
    decode, encode = {
        NameKind.MANIFEST: (decode_manifest, encode_manifest),
        NameKind.MANIFEST_LIST: (decode_manifest_list, encode_manifest_list),
        NameKind.INDEX_MANIFEST: (decode_index_manifest, encode_index_manifest),
    }[kind]
    entries = decode(data, str(path))
    codec = "null" if b"\x14avro.codec\x08null\x00" in data[:4000] else "zstd"
    ours = encode(entries, codec)
    assert decode(ours, "ours") == entries
    # But for the checksum, the header (magic, schema text, codec, key order) is Java's, byte by byte.
    ours = as_others_write(ours)
    assert header_schema(ours) == header_schema(data)
    header = data.index(b"\x14avro.codec") + len(b"\x14avro.codec") + 1 + (4 if codec == "null" else 9) + 1
    assert ours[:header] == data[:header]
    assert data.startswith(MAGIC)
    if codec == "null":
        # Without compression all but the random sync marker is the same.
        assert data.replace(data[header : header + 16], b"*") == ours.replace(ours[header : header + 16], b"*")


@pytest.mark.parametrize(("case", "expected"), snapshots())
def test_snapshot_says_what_java_says(case: GoldenTable, expected: dict[str, Any]) -> None:
    snapshot = case.snapshot(expected["id"])
    assert snapshot.commit_kind.value == expected["kind"]
    assert snapshot.schema_id == expected["schema_id"]
    assert snapshot.total_record_count == expected["total_record_count"]
    assert snapshot.delta_record_count == expected["delta_record_count"]
    assert snapshot.changelog_record_count == expected["changelog_record_count"]
    manifest_dir = case.path / "manifest"
    lists = [
        (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
        (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        (snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size),
    ]
    for name, size in lists:
        if name is not None:
            assert (manifest_dir / name).stat().st_size == size
    assert sum(e.file.row_count for e in entries_of(case, snapshot)) == expected["total_record_count"]


@pytest.mark.parametrize(("case", "expected"), snapshots())
def test_live_files_are_java_s(case: GoldenTable, expected: dict[str, Any]) -> None:
    snapshot = case.snapshot(expected["id"])
    wanted = [x for x in case.lines(f"files-{expected['id']}.jsonl") if "index_type" not in x]
    entries = {(e.partition, e.bucket, e.file.file_name): e for e in entries_of(case, snapshot)}
    assert len(entries) == len(wanted)
    by_name = {e.file.file_name: e for e in entries.values()}
    latest = case.latest_schema
    for line in wanted:
        entry = by_name[line["file"]]
        f = entry.file
        schema = case.schema(f.schema_id)
        partition_fields = [latest.field(k) for k in latest.partition_keys]
        values = row(entry.partition, partition_fields)
        assert dict(zip(latest.partition_keys, values, strict=True)) == line["partition"]
        assert (entry.bucket, entry.total_buckets) == (line["bucket"], line["total_buckets"])
        assert (f.file_size, f.level, f.row_count, f.delete_row_count) == (
            line["size"], line["level"], line["rows"], line["delete_rows"],
        )  # fmt: skip
        assert (f.min_sequence_number, f.max_sequence_number, f.schema_id) == (
            line["min_seq"], line["max_seq"], line["schema_id"],
        )  # fmt: skip
        assert row(f.min_key, schema.key_fields) == line["min_key"]
        assert row(f.max_key, schema.key_fields) == line["max_key"]
        assert (None if f.value_stats_cols is None else list(f.value_stats_cols)) == line["value_stats_cols"]
        assert list(f.extra_files) == line["extra_files"]
        assert f.file_source is not None
        assert FileSource(f.file_source).name == line["file_source"]
        if "key_stats" in line:
            check_stats(f.key_stats, schema, line["key_stats"])
            check_stats(f.value_stats, schema, line["value_stats"])
            assert (None if f.embedded_index is None else f.embedded_index.hex()) == line["embedded_index"]
        # The golden writer ran with its clock in the zone of the golden run, within a day of the snapshot.
        assert f.creation_time_ms is not None
        assert abs(f.creation_time_ms - snapshot.time_millis) < 30 * 86_400_000
        assert f.creation_epoch_ms == epoch_ms_of_local(f.creation_time_ms)
        path = TablePaths.of(str(case.path), latest).data_file(
            internal_partition(entry.partition, partition_fields), entry.bucket, f.file_name
        )
        assert Path(path).stat().st_size == f.file_size
        assert parse_bucket_dir(Path(path).parent.name) == entry.bucket
        for extra in f.extra_files:
            assert (Path(path).parent / extra).exists()


def internal_partition(data: bytes, fields: list[Field]) -> dict[str, Any]:
    _, body = split_arity(data)
    return dict(zip([f.name for f in fields], decode_row(body, [f.type for f in fields]), strict=True))


def check_stats(stats: SimpleStats, schema: TableSchema, expected: dict[str, Any]) -> None:
    fields = [schema.field(c) for c in expected["cols"]]
    if not fields:
        assert stats == EMPTY_STATS
        return
    for ours, theirs in ((stats.min_values, expected["min"]), (stats.max_values, expected["max"])):
        for field, value, wanted in zip(fields, row(ours, fields), theirs, strict=True):
            if value is None and not field.type.nullable:
                continue  # no statistics: Java's reader shows a NOT NULL column's empty slot as 0 or ''
            if field.type.root is Root.FLOAT and isinstance(value, float):
                assert np.float32(value) == np.float32(wanted)
            else:
                assert value == wanted
    assert stats.null_counts is not None
    assert list(stats.null_counts) == expected["null_counts"]


@pytest.mark.parametrize(("case", "expected"), snapshots())
def test_index_files_are_java_s(case: GoldenTable, expected: dict[str, Any]) -> None:
    snapshot = case.snapshot(expected["id"])
    wanted = {x["file"]: x for x in case.lines(f"files-{expected['id']}.jsonl") if "index_type" in x}
    entries: list[IndexEntry] = []
    if snapshot.index_manifest is not None:
        path = case.path / "manifest" / snapshot.index_manifest
        entries = decode_index_manifest(path.read_bytes(), str(path))
    assert {e.file_name for e in entries} == set(wanted)
    assert len(entries) == len(wanted)
    latest = case.latest_schema
    fields = [latest.field(k) for k in latest.partition_keys]
    for entry in entries:
        line = wanted[entry.file_name]
        assert entry.kind is FileKind.ADD
        assert entry.index_type == line["index_type"]
        assert dict(zip(latest.partition_keys, row(entry.partition, fields), strict=True)) == line["partition"]
        assert (entry.bucket, entry.file_size, entry.row_count) == (line["bucket"], line["size"], line["rows"])
        paths = TablePaths.of(str(case.path), latest)
        file = paths.index_file(internal_partition(entry.partition, fields), entry.bucket, entry.file_name)
        data = Path(file).read_bytes()
        assert len(data) == entry.file_size
        if entry.index_type == "HASH":
            assert entry.dv_ranges is None
            assert sorted(decode_hash_index(data, file).tolist()) == line["sorted_hashes"]
            assert len(data) == entry.row_count * 4
        else:
            check_vectors(entry, data, line["deletion_vectors"], file)


def check_vectors(entry: IndexEntry, data: bytes, expected: dict[str, Any], file: str) -> None:
    assert entry.dv_ranges is not None
    assert {r.data_file_name for r in entry.dv_ranges} == set(expected)
    vectors = {}
    for r in entry.dv_ranges:
        offset, size = vector_range(r)
        vectors[r.data_file_name] = decode_vector(data[offset : offset + size], r, file)
    for r in entry.dv_ranges:
        want = expected[r.data_file_name]
        assert (r.offset, r.length, r.cardinality) == (want["offset"], want["length"], want["cardinality"])
        assert list(vectors[r.data_file_name]) == want["positions"]
    assert [list(v.positions) for v in scan_deletion_vectors(data, file)] == [
        expected[r.data_file_name]["positions"] for r in sorted(entry.dv_ranges, key=lambda r: r.offset)
    ]
    in_file_order = {
        r.data_file_name: vectors[r.data_file_name] for r in sorted(entry.dv_ranges, key=lambda r: r.offset)
    }
    bitmap64 = b"\xd1\xd3\x39\x64" in data
    ours, metas = encode_deletion_vectors(in_file_order, bitmap64=bitmap64)
    assert ours == data
    assert set(metas) == set(entry.dv_ranges)


@pytest.mark.parametrize("case", TABLES, ids=lambda c: c.name)
def test_every_path_is_known(case: GoldenTable) -> None:
    """The name of each file of a table parses, and its parts make the path again."""
    root = case.path
    latest = case.latest_schema
    paths = TablePaths.of(str(root), latest)
    seen = 0
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        name = parse_file_name(path.name)
        made = {
            NameKind.SCHEMA: lambda n=name: paths.schema_path(n.number),
            NameKind.SNAPSHOT: lambda n=name: paths.snapshot_path(n.number),
            NameKind.CHANGELOG: lambda n=name: paths.changelog_path(n.number),
            NameKind.HINT: lambda n=name: f"{root}/snapshot/{n.label}",
            NameKind.TAG: lambda n=name: paths.tag_path(n.label),
            NameKind.CONSUMER: lambda n=name: paths.consumer_path(n.label),
            NameKind.MANIFEST: lambda n=name: paths.manifest_path(f"manifest-{n.uuid}-{n.number}"),
            NameKind.MANIFEST_LIST: lambda n=name: paths.manifest_path(f"manifest-list-{n.uuid}-{n.number}"),
            NameKind.INDEX_MANIFEST: lambda n=name: paths.manifest_path(f"index-manifest-{n.uuid}-{n.number}"),
            NameKind.INDEX: lambda n=name: paths.index_path(f"index-{n.uuid}-{n.number}"),
        }.get(name.kind)
        if made is not None:
            assert made() == str(path)
        else:
            assert name.kind in (NameKind.DATA, NameKind.FILE_INDEX, NameKind.LOOKUP), path
            *partition, bucket = path.parent.relative_to(root).parts
            assert parse_bucket_dir(bucket) is not None
            assert [unescape(p.partition("=")[0]) for p in partition] == list(latest.partition_keys)
        seen += 1
    assert seen


@pytest.mark.parametrize("case", TABLES, ids=lambda c: c.name)
def test_inspect_shows_what_each_file_is(case: GoldenTable) -> None:
    expected = {
        NameKind.SCHEMA: "schema", NameKind.SNAPSHOT: "snapshot", NameKind.HINT: "hint", NameKind.TAG: "tag",
        NameKind.CHANGELOG: "changelog", NameKind.CONSUMER: "consumer", NameKind.MANIFEST: "manifest",
        NameKind.MANIFEST_LIST: "manifest list", NameKind.INDEX_MANIFEST: "index manifest",
    }  # fmt: skip
    store = LocalStore()
    for path in sorted(p for p in case.path.rglob("*") if p.is_file()):
        kind = parse_file_name(path.name).kind
        if kind in expected:
            found = inspect_file(str(path), store=store)
            assert found["kind"] == expected[kind]
        elif kind is NameKind.INDEX:
            found = inspect_file(str(path), store=store)
            wanted = next(
                x
                for n in case.info["snapshots"]
                for x in [*case.lines(f"files-{n['id']}.jsonl"), {"file": path.name, "index_type": None}]
                if x["file"] == path.name
            )["index_type"]
            assert (
                wanted is None
                or found["kind"] == {"HASH": "hash index", "DELETION_VECTORS": "deletion vectors"}[wanted]
            )
        elif path.suffix in (".parquet", ".orc", ".avro"):
            found = inspect_file(str(path), store=store)
            assert found["kind"] == f"{path.suffix[1:]} data file"
        else:
            found = inspect_file(str(path), store=store)
            assert kind in (NameKind.FILE_INDEX, NameKind.LOOKUP, NameKind.STATISTICS, NameKind.OTHER), path
            assert found["kind"] == {NameKind.FILE_INDEX: "file index", NameKind.LOOKUP: "lookup store, sort"}.get(
                kind, found["kind"]
            )
        assert found["size"] == path.stat().st_size
        json.dumps(found, allow_nan=False)
