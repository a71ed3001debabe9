"""Manifest files: ADD and DELETE entries of data files, ``manifest/manifest-<uuid>-<n>``.

An Avro file (see `lakeidx.codec.containers.avro`) of records named ``record`` in ``org.apache.paimon.avro.generated``:

===============  ======  ==============================================================
field            type    value
===============  ======  ==============================================================
_VERSION         int     2, always
_KIND            int     0 ADD, 1 DELETE
_PARTITION       bytes   i32 **big**-endian arity + BinaryRow of the partition columns
_BUCKET          int
_TOTAL_BUCKETS   int     option ``bucket`` when the file was written: n, -1 or -2
_FILE            record  `lakeidx.format.data_file.DataFileMeta`
===============  ======  ==============================================================

source   org.apache.paimon.manifest.ManifestEntry, ManifestEntrySerializer, release 1.4.2
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from lakeidx.codec.containers.avro import Record, decode_records, open_blocks
from lakeidx.codec.containers.avro_schemas import plain_schema
from lakeidx.codec.containers.avro_unknown import (
    Definitions,
    Path,
    Unknown,
    extended,
    keep,
    put_back,
    unknown_definitions,
    with_fields_of,
)
from lakeidx.codec.containers.avro_write import RecordSchema, encode_container
from lakeidx.errors import CorruptFileError
from lakeidx.format.data_file import (
    FILE_FIELDS,
    FILE_PATH,
    KEY_STATS_PATH,
    VALUE_STATS_PATH,
    DataFileMeta,
    file_from_record,
    file_to_record,
)

_NAMESPACE = "org.apache.paimon.avro.generated"
MANIFEST_VERSION = 2

Identifier = tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]


class FileKind(IntEnum):
    """Kind of a manifest or index manifest entry."""

    ADD = 0
    DELETE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """One data file added to or deleted from a (partition, bucket).

    partition      prefixed BinaryRow; `lakeidx.format.data_file.EMPTY_ROW` when the table has no partition columns
    total_buckets  option ``bucket`` at the time of writing: n, -1 (dynamic or bucket-unaware) or -2 (postpone)
    unknown        fields of a later release, kept for when the entry is written again
    """

    kind: FileKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta
    unknown: Unknown = field(default=(), hash=False)

    @property
    def identifier(self) -> Identifier:
        """What an ADD and its DELETE agree in; level is part of it, so an upgrade is a DELETE and an ADD of one name."""
        f = self.file
        return (self.partition, self.bucket, f.level, f.file_name, f.extra_files, f.embedded_index, f.external_path)


def record_schema(fields: list[dict[str, Any]]) -> RecordSchema:
    """Return the schema of the records of a manifest, manifest list or index manifest."""
    return RecordSchema({"type": "record", "name": "record", "namespace": _NAMESPACE, "fields": fields})


MANIFEST_SCHEMA = record_schema(
    [
        {"name": "_VERSION", "type": "int"},
        {"name": "_KIND", "type": "int"},
        {"name": "_PARTITION", "type": "bytes"},
        {"name": "_BUCKET", "type": "int"},
        {"name": "_TOTAL_BUCKETS", "type": "int"},
        {"name": "_FILE", "type": {"type": "record", "name": "record__FILE", "fields": FILE_FIELDS}},
    ]
)

_KINDS = (FileKind.ADD, FileKind.DELETE)


def encode_manifest(entries: Sequence[ManifestEntry], codec: str = "zstandard") -> bytes:
    """Write a manifest file.

    codec    Avro codec: option ``manifest.compression`` (zstd, null, deflate, snappy)
    """
    kept = [found for found in _unknown_in(entries) if found[1]]
    schema = extended(MANIFEST_SCHEMA, kept) if kept else MANIFEST_SCHEMA
    return encode_container(entries, schema, _to_record, codec=codec, level=1)


def _unknown_in(entries: Sequence[ManifestEntry]) -> Iterator[tuple[Path, Unknown]]:
    for entry in entries:
        if entry.unknown:
            yield (), entry.unknown
        file = entry.file
        if file.unknown:
            yield FILE_PATH, file.unknown
        if file.key_stats.unknown:
            yield KEY_STATS_PATH, file.key_stats.unknown
        if file.value_stats.unknown:
            yield VALUE_STATS_PATH, file.value_stats.unknown


def decode_manifest(data: bytes, path: str | None = None) -> list[ManifestEntry]:
    """Read a manifest file, in file order.

    errors   CorruptFileError
    """
    writer, blocks = open_blocks(data, path)
    return _entries(writer, itertools.chain.from_iterable(blocks), path)


def entries_of_records(writer: bytes, records: Sequence[bytes], path: str | None = None) -> list[ManifestEntry]:
    """Make entries of single records that were cut out of a manifest.

    writer   JSON text of the schema in the manifest's header
    errors   CorruptFileError
    """
    return _entries(writer, decode_records(writer, records, path), path)


def _entries(writer: bytes, records: Iterable[Record], path: str | None) -> list[ManifestEntry]:
    try:
        unknown = unknown_definitions(writer, MANIFEST_SCHEMA)
        return [_from_record(r, path, unknown) for r in records]
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as e:
        raise CorruptFileError(f"an entry is not a manifest entry: {e!r}", path=path) from e


@functools.lru_cache(maxsize=64)
def same_records(writer: bytes, schema: RecordSchema = MANIFEST_SCHEMA) -> bool:
    """Return True when records of a writer's schema are, byte for byte, those of a schema of ours."""
    return bool(_unnamed(plain_schema(writer)) == _unnamed(plain_schema(schema.raw)))


def ours_and_more(writer: bytes) -> bool:
    """Return True when records of a writer's schema are, byte for byte, those that we write with its further fields."""
    return same_records(writer, with_fields_of(writer, MANIFEST_SCHEMA))


def _unnamed(node: Any) -> Any:
    """Drop the names of records: they do not change the bytes."""
    if isinstance(node, list):
        return [_unnamed(n) for n in node]
    if not isinstance(node, dict):
        return node
    if node["type"] == "record":
        return [(f["name"], _unnamed(f["type"])) for f in node["fields"]]
    return {k: _unnamed(v) for k, v in node.items()}


def _to_record(entry: ManifestEntry) -> Record:
    out: Record = {
        "_VERSION": MANIFEST_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": file_to_record(entry.file),
    }
    return put_back(out, entry.unknown) if entry.unknown else out


def _from_record(record: Record, path: str | None, unknown: Mapping[Path, Definitions]) -> ManifestEntry:
    if record["_VERSION"] != MANIFEST_VERSION:
        raise CorruptFileError(f"_VERSION: expected {MANIFEST_VERSION}, found {record['_VERSION']}", path=path)
    kind = record["_KIND"]
    if kind not in (0, 1):
        raise CorruptFileError(f"_KIND: expected 0 (ADD) or 1 (DELETE), found {kind!r}", path=path)
    return ManifestEntry(
        kind=_KINDS[kind],
        partition=record["_PARTITION"],
        bucket=record["_BUCKET"],
        total_buckets=record["_TOTAL_BUCKETS"],
        file=file_from_record(record["_FILE"], unknown),
        unknown=keep(record, unknown.get((), ())) if unknown else (),
    )
