"""Decodes data files to their last page, so that damage shows before someone reads the rows it hit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from lakeidx.data.engines.untaken import untaken_rows
from lakeidx.data.row_kinds import DELETE, UPDATE_BEFORE
from lakeidx.data.verify_data_file import verify_data_file
from lakeidx.errors import CorruptFileError, LakeIdxError, UnavailableError
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import decode_partition_dict
from lakeidx.tasks.runner import Runner

_RETRACTS = (UPDATE_BEFORE, DELETE)


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
        schema = work.metadata.load_schema(file.schema_id)
        rows, deletes = verify_data_file(work.metadata.store, work.path, file, schema)
        why = _why_untaken(work.metadata.latest_schema()) if deletes else None
        if why is not None:
            raise CorruptFileError(
                f"{deletes} rows of kind -U or -D, which the table cannot merge: {why}", path=work.path
            )
        said = file.delete_row_count
        wrong = {"file": work.path, "level": file.level, "deletes": deletes, "manifest_deletes": said}
        return DecodedFile(work.path, rows, file.file_size, miscounted=wrong if said not in (None, deletes) else None)
    except UnavailableError:
        raise
    except LakeIdxError as error:
        fault = {"file": error.path or work.path, "offset": error.offset, "fault": error.message}
        return DecodedFile(work.path, 0, file.file_size, fault)


def _why_untaken(schema: TableSchema) -> str | None:
    """Return why no row of kind -U or -D can be merged, and what to set; None when some can."""
    return next(
        (r.why for r in untaken_rows(schema) if len(r.kinds) == len(_RETRACTS) and not r.with_any and r.zero is None),
        None,
    )
