"""Reading of Iceberg metadata as its readers do, for verification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeidx.errors import CorruptFileError
from lakeidx.format.json_text import JsonObject
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.table.iceberg.files import DELETED, IDENTITY, MetadataDir
from lakeidx.table.metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class Published:
    """Metadata that Iceberg readers find.

    snapshot_id   the snapshot that it is of; None where there is none
    identity      `Snapshot.identity` of that, as far as it says
    files         path -> (rows, bytes) of each data file that it lists; of a vector's file -> None
    """

    snapshot_id: int | None
    identity: str | None
    files: Mapping[str, tuple[int, int] | None]


def read_published(metadata: TableMetadata, schema: TableSchema, *, files: bool = True) -> Published:
    """Read what Iceberg readers find.

    files    whether to read what it lists, too
    errors   CorruptFileError, NotFoundError naming the file that the hint, the metadata or its manifest list leads to
    """
    place = MetadataDir(metadata.store, metadata.paths.root, schema)
    named = place.named()
    if named is None:
        return Published(None, None, {})
    path = place.version_path(named)
    content = JsonObject.parse(metadata.store.get(path), path).value
    try:
        newest = content["snapshots"][-1]
        manifests = place.read_avro(newest["manifest-list"]) if files else []
        entries = [e for m in manifests for e in place.read_avro(m["manifest_path"]) if e["status"] != DELETED]
        listed = {
            f["file_path"]: None if f["content"] else (f["record_count"], f["file_size_in_bytes"])
            for f in (e["data_file"] for e in entries)
        }
        return Published(int(newest["snapshot-id"]), newest["summary"].get(IDENTITY), listed)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise CorruptFileError(f"it is no Iceberg metadata: {error!r}", path=path) from error
