"""Decodes data files to their last page, so that damage shows before someone reads the rows it hit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from lakeidx.data.verify_data_file import verify_data_file
from lakeidx.errors import LakeIdxError, UnavailableError
from lakeidx.format.manifest import ManifestEntry
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import decode_partition_dict
from lakeidx.tasks.runner import Runner


@dataclass(frozen=True, slots=True)
class DecodedFile:
    """Result of decoding one data file.

    fault       why it could not be read
    miscounted  the deletes in it, where the manifest says another number
    """

    path: str
    rows: int
    bytes: int
    fault: dict[str, Any] | None = None
    miscounted: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _Decode:
    """One file for one task."""

    metadata: TableMetadata
    entry: ManifestEntry
    path: str


def decode_files(
    metadata: TableMetadata, entries: Sequence[ManifestEntry], runner: Runner, *, skip: Collection[str] = ()
) -> list[DecodedFile]:
    """Decode every page of every column of some data files, side by side.

    skip     paths of files that are known to be missing or cut
    errors   UnavailableError; what is wrong with a file is in its result
    memory   the compressed columns of a row group and a decoded batch per thread
    """
    schema = metadata.latest_schema()
    work = []
    for entry in entries:
        partition = decode_partition_dict(entry.partition, schema)
        path = metadata.paths.data_file(
            partition, entry.bucket, entry.file.file_name, external_path=entry.file.external_path
        )
        if path not in skip:
            work.append(_Decode(metadata, entry, path))
    return runner.map(_decode, work, label=f"verify: {metadata.paths.root}") if work else []


def _decode(work: _Decode) -> DecodedFile:
    file = work.entry.file
    try:
        schema = work.metadata.schema(file.schema_id)
        rows, deletes = verify_data_file(work.metadata.store, work.path, file, schema)
        said = file.delete_row_count
        wrong = {"file": work.path, "level": file.level, "deletes": deletes, "manifest_deletes": said}
        return DecodedFile(work.path, rows, file.file_size, miscounted=wrong if said not in (None, deletes) else None)
    except UnavailableError:
        raise
    except LakeIdxError as error:
        fault = {"file": error.path or work.path, "offset": error.offset, "fault": error.message}
        return DecodedFile(work.path, 0, file.file_size, fault)
