"""Index manifests: the index files of a snapshot, ``manifest/index-manifest-<uuid>-<n>``.

An Avro file (see `lakeidx.codec.containers.avro`) of records named ``record``:

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
                             _EXTRA_FIELD_IDS null/array of int, _INDEX_META null/bytes; since 2.0 _SOURCE_META null/bytes
===========================  ==================================================================================================

source   org.apache.paimon.manifest.IndexManifestEntry, IndexManifestEntrySerializer, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.containers.avro import Record, decode_records, open_blocks, packed_blocks
from lakeidx.codec.containers.avro_codecs import INFLATE_ERRORS
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
from lakeidx.format.data_file import nullable
from lakeidx.format.manifest import FileKind, record_schema
from lakeidx.storage.files import plain_name

_INDEX_MANIFEST_VERSION = 1
HASH_INDEX = "HASH"
DELETION_VECTORS_INDEX = "DELETION_VECTORS"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorMeta:
    """Location of a data file's deletion vector inside an index file.

    offset, length   as stored: for 32-bit vectors `length` is the size field's value, for 64-bit ones the total bytes
    cardinality      deleted rows; None in files of old writers
    """

    data_file_name: str
    offset: int
    length: int
    cardinality: int | None = None
    unknown: Unknown = field(default=(), hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalIndexMeta:
    """Rows and columns of a global index file. Read and kept; lakeidx itself writes none. ``_SOURCE_META`` is kept in `unknown`."""

    row_range_start: int
    row_range_end: int
    index_field_id: int
    extra_field_ids: tuple[int, ...] | None = None
    index_meta: bytes | None = None
    unknown: Unknown = field(default=(), hash=False)


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
    unknown: Unknown = field(default=(), hash=False)


_DV_FIELDS = [
    {"name": "f0", "type": "string"},
    {"name": "f1", "type": "int"},
    {"name": "f2", "type": "int"},
    nullable("_CARDINALITY", "long"),
]
_GLOBAL_FIELDS = [
    {"name": "_ROW_RANGE_START", "type": "long"},
    {"name": "_ROW_RANGE_END", "type": "long"},
    {"name": "_INDEX_FIELD_ID", "type": "int"},
    nullable("_EXTRA_FIELD_IDS", {"type": "array", "items": "int"}),
    nullable("_INDEX_META", "bytes"),
]
_INDEX_MANIFEST_SCHEMA = record_schema(
    [
        {"name": "_VERSION", "type": "int"},
        {"name": "_KIND", "type": "int"},
        {"name": "_PARTITION", "type": "bytes"},
        {"name": "_BUCKET", "type": "int"},
        {"name": "_INDEX_TYPE", "type": "string"},
        {"name": "_FILE_NAME", "type": "string"},
        {"name": "_FILE_SIZE", "type": "long"},
        {"name": "_ROW_COUNT", "type": "long"},
        nullable(
            "_DELETIONS_VECTORS_RANGES",
            {
                "type": "array",
                "items": [
                    "null",
                    {"type": "record", "name": "record__DELETIONS_VECTORS_RANGES", "fields": _DV_FIELDS},
                ],
            },
        ),
        nullable("_EXTERNAL_PATH", "string"),
        nullable("_GLOBAL_INDEX", {"type": "record", "name": "record__GLOBAL_INDEX", "fields": _GLOBAL_FIELDS}),
    ]
)


_KINDS = (FileKind.ADD, FileKind.DELETE)
_LOOKED_AT = ((("_PARTITION",), "bytes"),)
_RANGES_PATH: Path = ("_DELETIONS_VECTORS_RANGES",)
_GLOBAL_PATH: Path = ("_GLOBAL_INDEX",)


def encode_index_manifest(entries: Sequence[IndexEntry], codec: str = "zstandard", level: int = 1) -> bytes:
    """Write an index manifest."""
    kept = [found for found in _unknown_in(entries) if found[1]]
    schema = extended(_INDEX_MANIFEST_SCHEMA, kept) if kept else _INDEX_MANIFEST_SCHEMA
    return encode_container(entries, schema, _to_record, codec=codec, level=level)


def _unknown_in(entries: Sequence[IndexEntry]) -> Iterator[tuple[Path, Unknown]]:
    for entry in entries:
        yield (), entry.unknown
        for vector in entry.dv_ranges or ():
            yield _RANGES_PATH, vector.unknown
        if entry.global_index is not None:
            yield _GLOBAL_PATH, entry.global_index.unknown


def decode_index_manifest(
    data: bytes, path: str | None = None, *, partitions: Collection[bytes] | None = None
) -> list[IndexEntry]:
    """Read an index manifest, in file order (which means nothing: a Java hash map decides it).

    partitions   only the entries of these; objects are made of no others
    errors       CorruptFileError
    """
    try:
        writer, blocks = open_blocks(data, path)
        unknown = unknown_definitions(writer, _INDEX_MANIFEST_SCHEMA)
        if partitions is not None:
            mine = _records_of(data, path, partitions)
            if mine is not None:
                blocks = iter([decode_records(writer, mine, path)])
        read = (_from_record(r, path, unknown) for block in blocks for r in block)
        return [e for e in read if partitions is None or e.partition in partitions]
    except (KeyError, TypeError, AttributeError, ValueError) as e:
        raise CorruptFileError(f"an entry is not an index manifest entry: {e!r}", path=path) from e


def _records_of(data: bytes, path: str | None, partitions: Collection[bytes]) -> list[bytes] | None:
    """Cut the records of some partitions out of an index manifest; None when a walk cannot read it."""
    from lakeidx.codec.containers.avro_walk import ABSENT, compiled, copy_out

    writer, _, blocks = packed_blocks(data, path)
    walk = compiled(writer, _LOOKED_AT)
    first = walk.first[("_PARTITION",)]
    wanted = pa.array(sorted(partitions), pa.binary())
    found: list[bytes] = []
    for block in blocks:
        try:
            raw = block.unpack(block.packed)
        except INFLATE_ERRORS:
            return None
        slots = walk.records(raw, block.count) if block.count <= len(raw) else None
        if slots is None or (slots[first] == ABSENT).any():
            return None
        rows = np.flatnonzero(pc.is_in(copy_out(raw, slots[first], slots[first + 1]), value_set=wanted))
        found += [raw[a:b] for a, b in slots[:2, rows].T.tolist()]
    return found


def _to_record(entry: IndexEntry) -> Record:
    ranges, index = entry.dv_ranges, entry.global_index
    out: Record = {
        "_VERSION": _INDEX_MANIFEST_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": entry.index_type,
        "_FILE_NAME": entry.file_name,
        "_FILE_SIZE": entry.file_size,
        "_ROW_COUNT": entry.row_count,
        "_DELETIONS_VECTORS_RANGES": None if ranges is None else [_dv_record(r) for r in ranges],
        "_EXTERNAL_PATH": entry.external_path,
        "_GLOBAL_INDEX": None if index is None else _global_record(index),
    }
    return put_back(out, entry.unknown) if entry.unknown else out


def _dv_record(vector: DeletionVectorMeta) -> Record:
    out: Record = {
        "f0": vector.data_file_name,
        "f1": vector.offset,
        "f2": vector.length,
        "_CARDINALITY": vector.cardinality,
    }
    return put_back(out, vector.unknown)


def _global_record(index: GlobalIndexMeta) -> Record:
    out: Record = {
        "_ROW_RANGE_START": index.row_range_start,
        "_ROW_RANGE_END": index.row_range_end,
        "_INDEX_FIELD_ID": index.index_field_id,
        "_EXTRA_FIELD_IDS": None if index.extra_field_ids is None else list(index.extra_field_ids),
        "_INDEX_META": index.index_meta,
    }
    return put_back(out, index.unknown)


def _from_record(record: Record, path: str | None, unknown: Mapping[Path, Definitions]) -> IndexEntry:
    if record["_VERSION"] != _INDEX_MANIFEST_VERSION:
        raise CorruptFileError(f"_VERSION: expected {_INDEX_MANIFEST_VERSION}, found {record['_VERSION']}", path=path)
    if record["_KIND"] not in (0, 1):
        raise CorruptFileError(f"_KIND: expected 0 (ADD) or 1 (DELETE), found {record['_KIND']!r}", path=path)
    get = record.get
    ranges, index = get("_DELETIONS_VECTORS_RANGES"), get("_GLOBAL_INDEX")
    of_ranges = unknown.get(_RANGES_PATH, ())
    return IndexEntry(
        kind=_KINDS[record["_KIND"]],
        partition=record["_PARTITION"],
        bucket=record["_BUCKET"],
        index_type=record["_INDEX_TYPE"],
        file_name=plain_name(record["_FILE_NAME"]),
        file_size=record["_FILE_SIZE"],
        row_count=record["_ROW_COUNT"],
        dv_ranges=None if ranges is None else tuple(_dv_range(r, of_ranges) for r in ranges if r is not None),
        external_path=get("_EXTERNAL_PATH"),
        global_index=None if index is None else _global_index(index, unknown.get(_GLOBAL_PATH, ())),
        unknown=keep(record, unknown.get((), ())) if unknown else (),
    )


def _dv_range(record: Record, unknown: Definitions) -> DeletionVectorMeta:
    return DeletionVectorMeta(
        data_file_name=record["f0"],
        offset=record["f1"],
        length=record["f2"],
        cardinality=record.get("_CARDINALITY"),
        unknown=keep(record, unknown),
    )


def _global_index(record: Record, unknown: Definitions) -> GlobalIndexMeta:
    extra = record.get("_EXTRA_FIELD_IDS")
    return GlobalIndexMeta(
        row_range_start=record["_ROW_RANGE_START"],
        row_range_end=record["_ROW_RANGE_END"],
        index_field_id=record["_INDEX_FIELD_ID"],
        extra_field_ids=None if extra is None else tuple(extra),
        index_meta=record.get("_INDEX_META"),
        unknown=keep(record, unknown),
    )
