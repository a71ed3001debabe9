"""Manifest files: ADD and DELETE entries of data files, ``manifest/manifest-<uuid>-<n>``.

An Avro file (see `lakeidx.codec.avro`) of records named ``record`` in ``org.apache.paimon.avro.generated``:

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

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from lakeidx.codec.avro import Record, RecordSchema, decode_blocks, encode_container
from lakeidx.errors import CorruptFileError
from lakeidx.format.data_file import FILE_FIELDS, DataFileMeta, file_from_record, file_to_record, open_twin, sealed

NAMESPACE = "org.apache.paimon.avro.generated"
MANIFEST_VERSION = 2

Identifier = tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]


class FileKind(IntEnum):
    """What a manifest or index manifest entry does."""

    ADD = 0
    DELETE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """One data file added to or deleted from a (partition, bucket).

    partition      prefixed BinaryRow; `lakeidx.format.data_file.EMPTY_ROW` when the table has no partition columns
    total_buckets  option ``bucket`` at the time of writing: n, -1 (dynamic or bucket-unaware) or -2 (postpone)
    """

    kind: FileKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta

    @property
    def identifier(self) -> Identifier:
        """What an ADD and its DELETE agree in; level is part of it, so an upgrade is a DELETE and an ADD of one name."""
        f = self.file
        return (self.partition, self.bucket, f.level, f.file_name, f.extra_files, f.embedded_index, f.external_path)


MANIFEST_SCHEMA = RecordSchema(
    {
        "type": "record",
        "name": "record",
        "namespace": NAMESPACE,
        "fields": [
            {"name": "_VERSION", "type": "int"},
            {"name": "_KIND", "type": "int"},
            {"name": "_PARTITION", "type": "bytes"},
            {"name": "_BUCKET", "type": "int"},
            {"name": "_TOTAL_BUCKETS", "type": "int"},
            {"name": "_FILE", "type": {"type": "record", "name": "record__FILE", "fields": FILE_FIELDS}},
        ],
    }
)

_KINDS = (FileKind.ADD, FileKind.DELETE)
_OpenEntry = open_twin(ManifestEntry)


def encode_manifest(entries: Sequence[ManifestEntry], codec: str = "zstandard", level: int = 1) -> bytes:
    """Write a manifest file.

    codec    Avro codec: option ``manifest.compression`` (zstd, null, deflate, snappy)
    """
    return encode_container(entries, MANIFEST_SCHEMA, _to_record, codec=codec, level=level)


def decode_manifest(data: bytes, path: str | None = None) -> list[ManifestEntry]:
    """Read a manifest file, in file order.

    errors   CorruptFileError
    """
    try:
        return [_from_record(r, path) for block in decode_blocks(data, path) for r in block]
    except (KeyError, TypeError, AttributeError, IndexError) as e:
        raise CorruptFileError(f"an entry is not a manifest entry: {e!r}", path=path) from e


def _to_record(entry: ManifestEntry) -> Record:
    return {
        "_VERSION": MANIFEST_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": file_to_record(entry.file),
    }


def _from_record(record: Record, path: str | None) -> ManifestEntry:
    if record["_VERSION"] != MANIFEST_VERSION:
        raise CorruptFileError(f"_VERSION: expected {MANIFEST_VERSION}, found {record['_VERSION']}", path=path)
    kind = record["_KIND"]
    if kind not in (0, 1):
        raise CorruptFileError(f"_KIND: expected 0 (ADD) or 1 (DELETE), found {kind!r}", path=path)
    out = _OpenEntry()
    out.kind = _KINDS[kind]
    out.partition = record["_PARTITION"]
    out.bucket = record["_BUCKET"]
    out.total_buckets = record["_TOTAL_BUCKETS"]
    out.file = file_from_record(record["_FILE"])
    return sealed(out, ManifestEntry)
