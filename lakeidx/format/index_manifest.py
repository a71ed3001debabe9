"""Index manifests: the index files of a snapshot, ``manifest/index-manifest-<uuid>-<n>``.

An Avro file (see `lakeidx.codec.avro`) of records named ``record``:

===========================  ==================================================================================================
field                        type
===========================  ==================================================================================================
_VERSION                     int, always **1** (manifests and manifest lists say 2)
_KIND                        int, 0 ADD, 1 DELETE
_PARTITION                   bytes, i32 **big**-endian arity + BinaryRow
_BUCKET                      int
_INDEX_TYPE                  string: ``HASH``, ``DELETION_VECTORS`` or a global index type
_FILE_NAME                   string
_FILE_SIZE, _ROW_COUNT       long
_DELETIONS_VECTORS_RANGES    null/array of **null/record** (the name is spelt so; the element is a union too): ``f0`` string
                             data file name, ``f1`` int offset, ``f2`` int length, ``_CARDINALITY`` null/long
_EXTERNAL_PATH               null/string
_GLOBAL_INDEX                null/record: _ROW_RANGE_START long, _ROW_RANGE_END long, _INDEX_FIELD_ID int,
                             _EXTRA_FIELD_IDS null/array of int, _INDEX_META null/bytes
===========================  ==================================================================================================

source   org.apache.paimon.manifest.IndexManifestEntry, IndexManifestEntrySerializer, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakeidx.codec.avro import Record, RecordSchema, decode_blocks, encode_container
from lakeidx.errors import CorruptFileError
from lakeidx.format.manifest import NAMESPACE, FileKind

INDEX_MANIFEST_VERSION = 1
HASH_INDEX = "HASH"
DELETION_VECTORS_INDEX = "DELETION_VECTORS"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorMeta:
    """Where the deletion vector of one data file lies inside an index file.

    offset, length   as stored: for 32-bit vectors `length` is the size field's value, for 64-bit ones the total bytes
    cardinality      deleted rows; None in files of old writers
    """

    data_file_name: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalIndexMeta:
    """What a global index file covers. Read and kept; lakeidx itself writes none."""

    row_range_start: int
    row_range_end: int
    index_field_id: int
    extra_field_ids: tuple[int, ...] | None = None
    index_meta: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """One index file of a (partition, bucket).

    row_count   HASH: number of hashes; DELETION_VECTORS: number of vectors
    dv_ranges   DELETION_VECTORS: one item per data file, in file order; None for other types
    """

    kind: FileKind
    partition: bytes
    bucket: int
    index_type: str
    file_name: str
    file_size: int
    row_count: int
    dv_ranges: tuple[DeletionVectorMeta, ...] | None = None
    external_path: str | None = None
    global_index: GlobalIndexMeta | None = None


def _nullable(name: str, of: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", of], "default": None}


_DV_FIELDS = [
    {"name": "f0", "type": "string"},
    {"name": "f1", "type": "int"},
    {"name": "f2", "type": "int"},
    _nullable("_CARDINALITY", "long"),
]
_GLOBAL_FIELDS = [
    {"name": "_ROW_RANGE_START", "type": "long"},
    {"name": "_ROW_RANGE_END", "type": "long"},
    {"name": "_INDEX_FIELD_ID", "type": "int"},
    _nullable("_EXTRA_FIELD_IDS", {"type": "array", "items": "int"}),
    _nullable("_INDEX_META", "bytes"),
]
INDEX_MANIFEST_SCHEMA = RecordSchema(
    {
        "type": "record",
        "name": "record",
        "namespace": NAMESPACE,
        "fields": [
            {"name": "_VERSION", "type": "int"},
            {"name": "_KIND", "type": "int"},
            {"name": "_PARTITION", "type": "bytes"},
            {"name": "_BUCKET", "type": "int"},
            {"name": "_INDEX_TYPE", "type": "string"},
            {"name": "_FILE_NAME", "type": "string"},
            {"name": "_FILE_SIZE", "type": "long"},
            {"name": "_ROW_COUNT", "type": "long"},
            _nullable(
                "_DELETIONS_VECTORS_RANGES",
                {
                    "type": "array",
                    "items": [
                        "null",
                        {"type": "record", "name": "record__DELETIONS_VECTORS_RANGES", "fields": _DV_FIELDS},
                    ],
                },
            ),
            _nullable("_EXTERNAL_PATH", "string"),
            _nullable("_GLOBAL_INDEX", {"type": "record", "name": "record__GLOBAL_INDEX", "fields": _GLOBAL_FIELDS}),
        ],
    }
)


def encode_index_manifest(entries: Sequence[IndexEntry], codec: str = "zstandard", level: int = 1) -> bytes:
    """Write an index manifest."""
    return encode_container(entries, INDEX_MANIFEST_SCHEMA, _to_record, codec=codec, level=level)


def decode_index_manifest(data: bytes, path: str | None = None) -> list[IndexEntry]:
    """Read an index manifest, in file order (which means nothing: a Java hash map decides it).

    errors   CorruptFileError
    """
    try:
        return [_from_record(r, path) for block in decode_blocks(data, path) for r in block]
    except (KeyError, TypeError, AttributeError) as e:
        raise CorruptFileError(f"an entry is not an index manifest entry: {e!r}", path=path) from e


def _to_record(entry: IndexEntry) -> Record:
    ranges, index = entry.dv_ranges, entry.global_index
    return {
        "_VERSION": INDEX_MANIFEST_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": entry.index_type,
        "_FILE_NAME": entry.file_name,
        "_FILE_SIZE": entry.file_size,
        "_ROW_COUNT": entry.row_count,
        "_DELETIONS_VECTORS_RANGES": None
        if ranges is None
        else [{"f0": r.data_file_name, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality} for r in ranges],
        "_EXTERNAL_PATH": entry.external_path,
        "_GLOBAL_INDEX": None
        if index is None
        else {
            "_ROW_RANGE_START": index.row_range_start,
            "_ROW_RANGE_END": index.row_range_end,
            "_INDEX_FIELD_ID": index.index_field_id,
            "_EXTRA_FIELD_IDS": None if index.extra_field_ids is None else list(index.extra_field_ids),
            "_INDEX_META": index.index_meta,
        },
    }


def _from_record(record: Record, path: str | None) -> IndexEntry:
    if record["_VERSION"] != INDEX_MANIFEST_VERSION:
        raise CorruptFileError(f"_VERSION: expected {INDEX_MANIFEST_VERSION}, found {record['_VERSION']}", path=path)
    if record["_KIND"] not in (0, 1):
        raise CorruptFileError(f"_KIND: expected 0 (ADD) or 1 (DELETE), found {record['_KIND']!r}", path=path)
    get = record.get
    ranges, index = get("_DELETIONS_VECTORS_RANGES"), get("_GLOBAL_INDEX")
    return IndexEntry(
        kind=FileKind(record["_KIND"]),
        partition=record["_PARTITION"],
        bucket=record["_BUCKET"],
        index_type=record["_INDEX_TYPE"],
        file_name=record["_FILE_NAME"],
        file_size=record["_FILE_SIZE"],
        row_count=record["_ROW_COUNT"],
        dv_ranges=None if ranges is None else tuple(_dv_range(r) for r in ranges if r is not None),
        external_path=get("_EXTERNAL_PATH"),
        global_index=None if index is None else _global_index(index),
    )


def _dv_range(record: Record) -> DeletionVectorMeta:
    return DeletionVectorMeta(
        data_file_name=record["f0"], offset=record["f1"], length=record["f2"], cardinality=record.get("_CARDINALITY")
    )


def _global_index(record: Record) -> GlobalIndexMeta:
    extra = record.get("_EXTRA_FIELD_IDS")
    return GlobalIndexMeta(
        row_range_start=record["_ROW_RANGE_START"],
        row_range_end=record["_ROW_RANGE_END"],
        index_field_id=record["_INDEX_FIELD_ID"],
        extra_field_ids=None if extra is None else tuple(extra),
        index_meta=record.get("_INDEX_META"),
    )
