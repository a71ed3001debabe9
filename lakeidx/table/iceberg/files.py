"""Files of Iceberg metadata: manifests, manifest lists, and the place that they are in.

source   org.apache.paimon.iceberg.IcebergPathFactory, org.apache.paimon.iceberg.manifest.{IcebergManifestEntry,
         IcebergDataFileMeta, IcebergManifestFileMeta}, release 1.4.2
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from lakeidx.codec.containers.avro import Record, decode_container
from lakeidx.codec.containers.avro_write import RecordSchema, encode_container
from lakeidx.errors import CorruptFileError, InvalidInputError, NotFoundError
from lakeidx.format.json_text import JsonObject
from lakeidx.format.paths import split_table_uri
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.storage.base import FileInfo, ObjectStore
from lakeidx.storage.files import name_of
from lakeidx.table.iceberg.values import bound_of_partition, order_of_bound, partition_type

EXISTING, ADDED, DELETED = 0, 1, 2
"""Status of an entry of a manifest."""
DATA, DELETES = 0, 1
"""Content of a manifest."""
IDENTITY = "paimon-commit-identity"
"""Key of a snapshot's summary: the uuid of Paimon's snapshot."""
_VERSION_FILE = re.compile(r"v([0-9]{1,18})\.metadata\.json")


def _optional(name: str, kind: Any, field_id: int) -> Record:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}


def _plain(name: str, kind: Any, field_id: int) -> Record:
    return {"name": name, "type": kind, "field-id": field_id}


def _map(name: str, value: str, field_id: int, key_id: int) -> Record:
    pair = [_plain("key", "int", key_id), _plain("value", value, key_id + 1)]
    items = {"type": "record", "name": f"k{key_id}_v{key_id + 1}", "fields": pair}
    return _optional(name, {"type": "array", "items": items, "logicalType": "map"}, field_id)


_SUMMARY = {
    "type": "record",
    "name": "r508",
    "fields": [
        _plain("contains_null", "boolean", 509),
        _optional("contains_nan", "boolean", 518),
        _optional("lower_bound", "bytes", 510),
        _optional("upper_bound", "bytes", 511),
    ],
}
_LIST_FIELDS = [
    _plain("manifest_path", "string", 500),
    _plain("manifest_length", "long", 501),
    _plain("partition_spec_id", "int", 502),
    _plain("content", "int", 517),
    _plain("sequence_number", "long", 515),
    _plain("min_sequence_number", "long", 516),
    _optional("added_snapshot_id", "long", 503),
    *(_plain(f"{kind}_files_count", "int", 504 + i) for i, kind in enumerate(("added", "existing", "deleted"))),
    *(_plain(f"{kind}_rows_count", "long", 512 + i) for i, kind in enumerate(("added", "existing", "deleted"))),
    _optional("partitions", {"type": "array", "items": _SUMMARY, "element-id": 508}, 507),
]


@functools.cache
def _list_schema(version: int) -> RecordSchema:
    more = [_optional("first_row_id", "long", 520)] if version > 2 else []
    return RecordSchema({"type": "record", "name": "manifest_file", "fields": [*_LIST_FIELDS, *more]})


def _manifest_schema(schema: TableSchema, version: int) -> RecordSchema:
    partition = [
        _plain(key, partition_type(t), 1000 + i)
        for i, (key, t) in enumerate(zip(schema.partition_keys, schema.partition_types, strict=True))
    ]
    file = [
        _plain("content", "int", 134),
        _plain("file_path", "string", 100),
        _plain("file_format", "string", 101),
        _plain("partition", {"type": "record", "name": "r102", "fields": partition}, 102),
        _plain("record_count", "long", 103),
        _plain("file_size_in_bytes", "long", 104),
        _map("null_value_counts", "long", 110, 121),
        _map("lower_bounds", "bytes", 125, 126),
        _map("upper_bounds", "bytes", 128, 129),
        _optional("referenced_data_file", "string", 143),
        _optional("content_offset", "long", 144),
        _optional("content_size_in_bytes", "long", 145),
        *([_optional("first_row_id", "long", 142)] if version > 2 else []),
    ]
    return RecordSchema(
        {
            "type": "record",
            "name": "manifest_entry",
            "fields": [
                _plain("status", "int", 0),
                _optional("snapshot_id", "long", 1),
                _optional("sequence_number", "long", 3),
                _optional("file_sequence_number", "long", 4),
                _plain("data_file", {"type": "record", "name": "r2", "fields": file}, 2),
            ],
        }
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a manifest, and the values of its partition as manifests have them, which the list sums up."""

    record: Record
    partition: tuple[Any, ...]


def metadata_dir(root: str, schema: TableSchema) -> str:
    """Return the directory of the Iceberg metadata of a table.

    errors   InvalidInputError for a table outside of a ``<db>.db`` directory whose metadata is to be in a catalog's
    """
    options = schema.table_options
    where = options.metadata_iceberg_storage_location or (
        "table-location" if options.metadata_iceberg_storage == "table-location" else "catalog-storage"
    )
    if where == "table-location":
        return f"{root}/metadata"
    if where != "catalog-storage":
        raise InvalidInputError(
            f"metadata.iceberg.storage-location is table-location or catalog-storage, not {where!r}", path=root
        )
    place = split_table_uri(root)
    if place.database is None:
        raise InvalidInputError(
            f"metadata.iceberg.storage={options.metadata_iceberg_storage} needs a table in a directory <warehouse>/<db>.db; "
            "set metadata.iceberg.storage-location to table-location",
            path=root,
        )
    return f"{place.warehouse.rstrip('/')}/iceberg/{place.database}/{place.table}/metadata"


class MetadataDir:
    """The directory of Iceberg metadata; what one commit writes has one random name."""

    def __init__(self, store: ObjectStore, root: str, schema: TableSchema) -> None:
        self.store = store
        self.root = metadata_dir(root, schema)
        self.schema = schema
        self.version = schema.table_options.metadata_iceberg_format_version
        self._codec = schema.table_options.metadata_iceberg_manifest_compression
        self._uuid = str(uuid4())
        self.written: list[str] = []

    @property
    def hint(self) -> str:
        """Path of the file that names the newest version."""
        return f"{self.root}/version-hint.text"

    def version_path(self, snapshot_id: int) -> str:
        """Return the path of the metadata of a snapshot."""
        return f"{self.root}/v{snapshot_id}.metadata.json"

    def named(self) -> int | None:
        """Return the version that the hint names; None without a hint, and for one that is no number."""
        try:
            text = self.store.get(self.hint).decode("ascii", "replace").strip()
        except NotFoundError:
            return None
        return int(text) if text.isdigit() else None

    def files(self) -> list[FileInfo]:
        """Return all files that are there."""
        return [f for f in self.store.list(self.root) if not f.is_dir]

    def read(self, snapshot_id: int) -> dict[str, Any] | None:
        """Read the metadata of a snapshot; None when it is missing, or cannot be read: then it is made anew."""
        path = self.version_path(snapshot_id)
        try:
            return dict(JsonObject.parse(self.store.get(path), path).value)
        except (NotFoundError, CorruptFileError):
            return None

    def write_version(self, snapshot_id: int, content: Any) -> None:
        """Write the metadata of a snapshot."""
        self._put(self.version_path(snapshot_id), json.dumps(content).encode(), durable=False)

    def write_hint(self, snapshot_id: int) -> None:
        """Name the newest version."""
        self.store.put(self.hint, str(snapshot_id).encode(), durable=False)

    def read_avro(self, path: str) -> list[Record]:
        """Read a manifest, or a list, by the path that metadata has."""
        path = f"{self.root}/{name_of(path)}"
        return decode_container(self.store.get(path), path)

    def write_list(self, manifests: Sequence[Record]) -> str:
        """Write a manifest list; return its path."""
        path = f"{self.root}/snap-1-{self._uuid}.avro"
        content = encode_container(manifests, _list_schema(self.version), dict, codec=self._codec)
        self._put(path, content, durable=False)
        return path

    def write_manifest(self, entries: Sequence[Entry], snapshot_id: int, content: int = DATA) -> Record:
        """Write a manifest; return its record for the list."""
        schema = self.schema.once(
            f"iceberg manifest {self.version}", lambda: _manifest_schema(self.schema, self.version)
        )
        path = f"{self.root}/{self._uuid}-m{len(self.written) + 1}.avro"
        data = encode_container(entries, schema, lambda e: e.record, codec=self._codec)
        self._put(path, data, durable=True)
        counts: Record = {}
        for status, kind in ((ADDED, "added"), (EXISTING, "existing"), (DELETED, "deleted")):
            rows = [e.record["data_file"]["record_count"] for e in entries if e.record["status"] == status]
            counts |= {f"{kind}_files_count": len(rows), f"{kind}_rows_count": sum(rows)}
        live = [e.record["sequence_number"] for e in entries if e.record["status"] != DELETED]
        return {
            "manifest_path": path,
            "manifest_length": len(data),
            "partition_spec_id": 0,
            "content": content,
            "sequence_number": snapshot_id,
            "min_sequence_number": min(live, default=snapshot_id),
            "added_snapshot_id": snapshot_id,
            **counts,
            "partitions": self._summaries([e.partition for e in entries]),
        }

    def forget(self) -> None:
        """Delete what was written: nothing names it."""
        self.store.delete_many(self.written)
        self.written.clear()

    def _summaries(self, partitions: Sequence[tuple[Any, ...]]) -> list[Record]:
        out = []
        for i, t in enumerate(self.schema.partition_types):
            values = {p[i] for p in partitions}
            known = [bound_of_partition(v, t) for v in values if v is not None]
            known.sort(key=partial(order_of_bound, t=t))
            low, high = (known[0], known[-1]) if known else (None, None)
            out.append(
                {"contains_null": None in values, "contains_nan": False, "lower_bound": low, "upper_bound": high}
            )
        return out

    def _put(self, path: str, data: bytes, *, durable: bool) -> None:
        # What the next commit reads, it makes anew when it is broken; manifests it may only name again.
        self.written.append(path)
        self.store.put(path, data, durable=durable)


def version_of(name: str) -> int | None:
    """Return N of ``vN.metadata.json``; None for another name."""
    found = _VERSION_FILE.fullmatch(name)
    return int(found[1]) if found else None
