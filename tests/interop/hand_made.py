"""A one-bucket table put together from single files, and the released Java Paimon to read it."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeidx.codec.java_text import double_text, float_text
from lakeidx.codec.values import internal_to_arrow
from lakeidx.format.data_file import EMPTY_ROW, DataFileMeta, SimpleStats
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.manifest import FileKind, ManifestEntry, encode_manifest
from lakeidx.format.manifest_list import ManifestFileMeta, encode_manifest_list
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.schema_file import TableSchema, encode_schema
from lakeidx.format.snapshot import CommitKind, Snapshot, encode_snapshot
from lakeidx.storage import LocalStore
from lakeidx.types import DataType, Root
from tests.kit.java_tools import witness

ROOT = Path(__file__).resolve().parents[2]
STORE = LocalStore(sync=False)


def oracle(command: str, warehouse: Path, *args: str) -> list[dict[str, Any]]:
    lines = witness([command, str(warehouse), "db.t", *args], {"TZ": "UTC"})
    return [json.loads(line) for line in lines if line.startswith("{")]


def java_json(value: Any, t: DataType) -> Any:
    """A value as the oracle prints it."""
    if value is None:
        return None
    if t.root is Root.DATE:
        return str(arrow_of(value, t))
    if t.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        return java_timestamp(value)
    if t.root is Root.ARRAY:
        assert t.element is not None
        return [java_json(v, t.element) for v in value]
    if t.root is Root.MAP:
        assert t.key is not None
        assert t.element is not None
        return {str(k): java_json(v, t.element) for k, v in value}
    if t.root is Root.ROW:
        return {f.name: java_json(v, f.type) for f, v in zip(t.fields, value, strict=True)}
    if t.root in (Root.BINARY, Root.VARBINARY):
        return value.hex()
    if t.root is Root.FLOAT:
        return float(float_text(value))
    if t.root is Root.DOUBLE:
        return float(double_text(value))
    if t.root is Root.TIME or t.root is Root.DECIMAL:
        return str(value) if t.root is Root.TIME else f"{value:f}"
    return value


def arrow_of(value: Any, t: DataType) -> Any:
    return internal_to_arrow([value], t)[0].as_py()


def java_timestamp(value: tuple[int, int]) -> str:
    """``LocalDateTime.toString``: seconds left out when there are none, the fraction in groups of three digits."""
    seconds, milli = divmod(value[0], 1000)
    text = pa.scalar(seconds, pa.timestamp("s")).as_py().isoformat()
    fraction = f"{milli:03d}{value[1]:06d}"
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    if not fraction:
        return str(text[:-3] if text.endswith(":00") else text)
    return f"{text}.{fraction}"


def commit(paths: TablePaths, schema: TableSchema, files: list[DataFileMeta]) -> None:
    """Schema, manifests and snapshot 1 for the files, without the table layer."""
    names = NewFileNames()
    no_stats = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())
    entries = [ManifestEntry(kind=FileKind.ADD, partition=EMPTY_ROW, bucket=0, total_buckets=1, file=f) for f in files]
    manifest, base, delta = names.manifest_name(), names.manifest_list_name(), names.manifest_list_name()
    encoded = encode_manifest(entries)
    meta = ManifestFileMeta(
        file_name=manifest,
        file_size=len(encoded),
        num_added_files=len(files),
        num_deleted_files=0,
        partition_stats=no_stats,
        schema_id=0,
    )
    rows = sum(f.row_count for f in files)
    snapshot = Snapshot(
        id=1,
        schema_id=0,
        base_manifest_list=base,
        delta_manifest_list=delta,
        commit_user="test",
        commit_identifier=1,
        commit_kind=CommitKind.APPEND,
        time_millis=1_700_000_000_000,
        total_record_count=rows,
        delta_record_count=rows,
        uuid=str(uuid.uuid4()),
    )
    STORE.put(f"{paths.schema_dir}/schema-0", encode_schema(schema))
    STORE.put(f"{paths.manifest_dir}/{manifest}", encoded)
    STORE.put(f"{paths.manifest_dir}/{base}", encode_manifest_list([]))
    STORE.put(f"{paths.manifest_dir}/{delta}", encode_manifest_list([meta]))
    STORE.put(f"{paths.snapshot_dir}/snapshot-1", encode_snapshot(snapshot))
