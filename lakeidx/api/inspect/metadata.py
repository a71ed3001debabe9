"""Descriptions of JSON and Avro metadata files for ``lakeidx inspect``."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from pydantic.alias_generators import to_camel

from lakeidx.api.inspect.table_at import TableAt, readable_row
from lakeidx.codec.containers import avro
from lakeidx.errors import CorruptFileError, UnsupportedError
from lakeidx.format.consumer import decode_consumer, decode_hint
from lakeidx.format.data_file import EMPTY_ROW, DataFileMeta, SimpleStats
from lakeidx.format.file_names import NameKind, parse_file_name
from lakeidx.format.index_manifest import IndexEntry, decode_index_manifest
from lakeidx.format.json_text import JsonObject
from lakeidx.format.manifest import ManifestEntry, decode_manifest
from lakeidx.format.manifest_list import ManifestFileMeta, decode_manifest_list
from lakeidx.format.schema.schema_file import decode_schema, schema_to_json
from lakeidx.format.snapshot import decode_snapshot, snapshot_to_json
from lakeidx.format.statistics import decode_statistics
from lakeidx.format.tag import decode_tag, tag_to_json
from lakeidx.storage.files import name_of
from lakeidx.types import Field

_MORE = "not shown"


def describe_json(data: bytes, path: str) -> dict[str, Any]:
    """Show a schema, snapshot, tag, long-lived changelog, consumer or statistics file."""
    o = JsonObject.parse(data, path)
    named = parse_file_name(name_of(path)).kind
    if o.has("fields") and not o.has("baseManifestList"):
        return {"kind": "schema", **schema_to_json(decode_schema(data, path))}
    if o.has("baseManifestList"):
        if named is NameKind.TAG or o.has("tagCreateTime") or o.has("tagTimeRetained"):
            return {"kind": "tag", **_plain(tag_to_json(decode_tag(data, path)))}
        kind = "changelog" if named is NameKind.CHANGELOG else "snapshot"
        return {"kind": kind, **snapshot_to_json(decode_snapshot(data, path))}
    if o.has("nextSnapshot"):
        return {"kind": "consumer", "nextSnapshot": decode_consumer(data, path)}
    if o.has("snapshotId"):
        decode_statistics(data, path)
        return {"kind": "statistics", **_plain(o.value)}
    if named in (NameKind.SCHEMA, NameKind.SNAPSHOT, NameKind.TAG, NameKind.CONSUMER, NameKind.CHANGELOG):
        raise CorruptFileError(f"by its name a {named.value} file, but it lacks that kind's keys", path=path)
    raise UnsupportedError("a JSON file, but none of a table's kinds", path=path)


def describe_hint(data: bytes, path: str) -> dict[str, Any]:
    """Describe a LATEST or EARLIEST hint file."""
    found = decode_hint(data)
    if found is None:
        raise CorruptFileError(f"expected a number, found {bytes(data[:40])!r}", path=path, offset=0)
    return {"id": found}


def describe_avro(data: bytes, path: str, table: TableAt | None, limit: int) -> dict[str, Any]:
    """Show a manifest, manifest list, index manifest, or any other Avro file (records as they are)."""
    schema = avro.header_schema(data, path)
    columns = {f.get("name") for f in schema.get("fields", ()) if isinstance(f, dict)}
    if "_FILE" in columns and "_TOTAL_BUCKETS" in columns:
        entries = decode_manifest(data, path)
        return {"kind": "manifest", **_listed([_manifest_entry(e, table) for e in entries[:limit]], len(entries))}
    if "_NUM_ADDED_FILES" in columns:
        metas = decode_manifest_list(data, path)
        return {"kind": "manifest list", **_listed([_manifest_file(m, table) for m in metas[:limit]], len(metas))}
    if "_INDEX_TYPE" in columns:
        indexes = decode_index_manifest(data, path)
        return {"kind": "index manifest", **_listed([_index_entry(e, table) for e in indexes[:limit]], len(indexes))}
    records = avro.decode_container(data, path)
    shown = [_plain(r) for r in records[:limit]]
    return {"kind": "avro data file", "fields": sorted(str(c) for c in columns), **_listed(shown, len(records), "rows")}


def _listed(shown: list[Any], count: int, name: str = "entries") -> dict[str, Any]:
    out: dict[str, Any] = {"count": count, name: shown}
    if count > len(shown):
        out[_MORE] = count - len(shown)
    return out


def _partition(data: bytes, table: TableAt | None) -> Any:
    return {} if data == EMPTY_ROW else _row(data, table.partition_fields if table is not None else ())


def _row(data: bytes, fields: tuple[Field, ...]) -> Any:
    readable = readable_row(data, fields) if fields else None
    return data.hex() if readable is None else readable


def _stats(stats: SimpleStats, fields: tuple[Field, ...]) -> dict[str, Any]:
    return {
        "min": _row(stats.min_values, fields),
        "max": _row(stats.max_values, fields),
        "nullCounts": None if stats.null_counts is None else list(stats.null_counts),
    }


def _data_file(f: DataFileMeta, table: TableAt | None) -> dict[str, Any]:
    keys: tuple[Field, ...] = table.schema.key_fields if table is not None else ()
    values: tuple[Field, ...] = ()
    if table is not None and f.schema_id == table.schema.id:
        by_name = table.schema.fields_by_name
        names = table.schema.field_names if f.value_stats_cols is None else f.value_stats_cols
        values = tuple(by_name[n] for n in names if n in by_name)
    return {
        **_camel_case(f, "key_stats", "value_stats", "creation_time_ms"),
        "minKey": _row(f.min_key, keys),
        "maxKey": _row(f.max_key, keys),
        "keyStats": _stats(f.key_stats, keys),
        "valueStats": _stats(f.value_stats, values),
        "creationTime": f.creation_time_ms,
        "fileSource": {None: None, 0: "APPEND", 1: "COMPACT"}.get(f.file_source, f.file_source),
    }


def _camel_case(record: Any, *left_out: str) -> dict[str, Any]:
    """Return fields of a dataclass under the names that JSON gives them; not those that lakeidx only keeps."""
    names = [f.name for f in fields(record) if f.name not in ("unknown", *left_out)]
    return {to_camel(n): _plain(getattr(record, n)) for n in names}


def _manifest_entry(e: ManifestEntry, table: TableAt | None) -> dict[str, Any]:
    return {
        "kind": e.kind.name,
        "partition": _partition(e.partition, table),
        "bucket": e.bucket,
        "totalBuckets": e.total_buckets,
        "file": _data_file(e.file, table),
    }


def _manifest_file(m: ManifestFileMeta, table: TableAt | None) -> dict[str, Any]:
    partitions = table.partition_fields if table is not None else ()
    return {**_camel_case(m, "partition_stats"), "partitionStats": _stats(m.partition_stats, partitions)}


def _index_entry(e: IndexEntry, table: TableAt | None) -> dict[str, Any]:
    vectors = [
        {"dataFile": r.data_file_name, "offset": r.offset, "length": r.length, "cardinality": r.cardinality}
        for r in e.dv_ranges or ()
    ]
    return {
        **_camel_case(e, "dv_ranges", "global_index"),
        "kind": e.kind.name,
        "partition": _partition(e.partition, table),
        "deletionVectors": None if e.dv_ranges is None else vectors,
        "globalIndex": None if e.global_index is None else _camel_case(e.global_index),
    }


def _plain(value: Any) -> Any:
    """Convert to JSON values: bytes as hex, decimals as text, mappings and sequences inside out."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if value is None or isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)
