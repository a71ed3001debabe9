"""Manifest lists: the manifests of a snapshot, ``manifest/manifest-list-<uuid>-<n>``.

An Avro file (see `lakeidx.codec.containers.avro`) of records named ``record``:

=======================================  =========  =====================================================================
field                                    type       value
=======================================  =========  =====================================================================
_VERSION                                 int        2, always
_FILE_NAME                               string     manifest file name
_FILE_SIZE                               long       bytes
_NUM_ADDED_FILES, _NUM_DELETED_FILES     long       entries of the manifest by kind
_PARTITION_STATS                         record     `lakeidx.format.data_file.SimpleStats` over the partition columns
_SCHEMA_ID                               long       greatest schema id of the manifest's files
_MIN_BUCKET, _MAX_BUCKET                 null/int
_MIN_LEVEL, _MAX_LEVEL                   null/int
_MIN_ROW_ID, _MAX_ROW_ID                 null/long  only when every entry has a first row id
=======================================  =========  =====================================================================

source   org.apache.paimon.manifest.ManifestFileMeta, ManifestFileMetaSerializer, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakeidx.codec.containers.avro import Record, open_blocks
from lakeidx.codec.containers.avro_unknown import (
    Definitions,
    Path,
    Unknown,
    extended,
    keep,
    put_back,
    unknown_definitions,
)
from lakeidx.codec.containers.avro_write import encode_container
from lakeidx.errors import CorruptFileError
from lakeidx.format.data_file import SimpleStats, nullable, stats_from_record, stats_schema, stats_to_record
from lakeidx.format.manifest import MANIFEST_VERSION, record_schema
from lakeidx.storage.files import plain_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFileMeta:
    """One manifest file as a manifest list describes it; the bounds are None in lists of old writers.

    unknown   fields of a later release, kept for when the entry is written again

    Hashed by its name, which no other manifest has.
    """

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None
    unknown: Unknown = ()

    def __hash__(self) -> int:
        return hash(self.file_name)


_MANIFEST_LIST_SCHEMA = record_schema(
    [
        {"name": "_VERSION", "type": "int"},
        {"name": "_FILE_NAME", "type": "string"},
        {"name": "_FILE_SIZE", "type": "long"},
        {"name": "_NUM_ADDED_FILES", "type": "long"},
        {"name": "_NUM_DELETED_FILES", "type": "long"},
        {"name": "_PARTITION_STATS", "type": stats_schema("record__PARTITION_STATS")},
        {"name": "_SCHEMA_ID", "type": "long"},
        nullable("_MIN_BUCKET", "int"),
        nullable("_MAX_BUCKET", "int"),
        nullable("_MIN_LEVEL", "int"),
        nullable("_MAX_LEVEL", "int"),
        nullable("_MIN_ROW_ID", "long"),
        nullable("_MAX_ROW_ID", "long"),
    ]
)


_STATS_PATH: Path = ("_PARTITION_STATS",)


def encode_manifest_list(metas: Sequence[ManifestFileMeta], codec: str = "zstandard", level: int = 1) -> bytes:
    """Write a manifest list; an empty one is a file without records."""
    kept: list[tuple[Path, Unknown]] = [((), m.unknown) for m in metas if m.unknown]
    kept += [(_STATS_PATH, m.partition_stats.unknown) for m in metas if m.partition_stats.unknown]
    schema = extended(_MANIFEST_LIST_SCHEMA, kept) if kept else _MANIFEST_LIST_SCHEMA
    return encode_container(metas, schema, _to_record, codec=codec, level=level)


def decode_manifest_list(data: bytes, path: str | None = None) -> list[ManifestFileMeta]:
    """Read a manifest list, in file order.

    errors   CorruptFileError
    """
    try:
        writer, blocks = open_blocks(data, path)
        unknown = unknown_definitions(writer, _MANIFEST_LIST_SCHEMA)
        return [_from_record(r, path, unknown) for block in blocks for r in block]
    except (KeyError, TypeError, AttributeError, ValueError) as e:
        raise CorruptFileError(f"an entry is not a manifest list entry: {e!r}", path=path) from e


def _to_record(meta: ManifestFileMeta) -> Record:
    out: Record = {
        "_VERSION": MANIFEST_VERSION,
        "_FILE_NAME": meta.file_name,
        "_FILE_SIZE": meta.file_size,
        "_NUM_ADDED_FILES": meta.num_added_files,
        "_NUM_DELETED_FILES": meta.num_deleted_files,
        "_PARTITION_STATS": stats_to_record(meta.partition_stats),
        "_SCHEMA_ID": meta.schema_id,
        "_MIN_BUCKET": meta.min_bucket,
        "_MAX_BUCKET": meta.max_bucket,
        "_MIN_LEVEL": meta.min_level,
        "_MAX_LEVEL": meta.max_level,
        "_MIN_ROW_ID": meta.min_row_id,
        "_MAX_ROW_ID": meta.max_row_id,
    }
    return put_back(out, meta.unknown) if meta.unknown else out


def _from_record(record: Record, path: str | None, unknown: Mapping[Path, Definitions]) -> ManifestFileMeta:
    if record["_VERSION"] != MANIFEST_VERSION:
        raise CorruptFileError(f"_VERSION: expected {MANIFEST_VERSION}, found {record['_VERSION']}", path=path)
    get = record.get
    return ManifestFileMeta(
        file_name=plain_name(record["_FILE_NAME"]),
        file_size=record["_FILE_SIZE"],
        num_added_files=record["_NUM_ADDED_FILES"],
        num_deleted_files=record["_NUM_DELETED_FILES"],
        partition_stats=stats_from_record(record["_PARTITION_STATS"], unknown.get(_STATS_PATH, ())),
        schema_id=record["_SCHEMA_ID"],
        min_bucket=get("_MIN_BUCKET"),
        max_bucket=get("_MAX_BUCKET"),
        min_level=get("_MIN_LEVEL"),
        max_level=get("_MAX_LEVEL"),
        min_row_id=get("_MIN_ROW_ID"),
        max_row_id=get("_MAX_ROW_ID"),
        unknown=keep(record, unknown.get((), ())),
    )
