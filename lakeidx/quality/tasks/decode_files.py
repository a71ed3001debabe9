"""Decodes data files to their last page, so that damage shows before someone reads the rows it hit.

Of a bucket of small files the keys are read in the same task, from the bytes that were decoded: each file is fetched once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeidx.data.engines.untaken import untaken_rows
from lakeidx.data.row_kinds import DELETE, UPDATE_BEFORE
from lakeidx.data.verify_data_file import verify_data_file
from lakeidx.errors import CorruptFileError, InvalidInputError, LakeIdxError, NotFoundError, UnavailableError
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.quality.result import BucketId
from lakeidx.quality.tasks.bucket_keys import LiveKeys, read_keys
from lakeidx.storage.overlay import OverlayStore
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan.plan import BucketFiles, ScanPlan
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
    """The files of one task, with their paths; `plan`: of a bucket whose keys are read, too, and `held` paths of all its files."""

    metadata: TableMetadata
    files: tuple[tuple[ManifestEntry, str], ...]
    plan: ScanPlan | None = None
    held: tuple[str, ...] = ()


def decode_files(
    metadata: TableMetadata,
    entries: Sequence[ManifestEntry],
    runner: Runner,
    *,
    skip: Collection[str] = (),
    plans: Mapping[BucketId, ScanPlan] | None = None,
) -> tuple[list[DecodedFile], list[LiveKeys]]:
    """Decode every page of every column of some data files, side by side.

    skip     paths of files that are known to be missing or cut
    plans    of buckets that fit into memory, to read their keys when all of their files can be read
    returns  what was found of each file, and the keys of these buckets
    errors   UnavailableError; what is wrong with a file is in its result
    memory   the compressed columns of a row group and a decoded batch per thread, or the files of a bucket in `plans`
    """
    schema, plans = metadata.latest_schema(), plans or {}
    work: list[_Decode] = []
    together: dict[BucketId, list[tuple[ManifestEntry, str]]] = {}
    for entry in entries:
        partition = decode_partition_dict(entry.partition, schema)
        path = metadata.paths.data_file(
            partition, entry.bucket, entry.file.file_name, external_path=entry.file.external_path
        )
        if path in skip:
            continue
        if (entry.partition, entry.bucket) in plans:
            together.setdefault((entry.partition, entry.bucket), []).append((entry, path))
        else:
            work.append(_Decode(metadata, ((entry, path),)))
    for place, files in together.items():
        (bucket,) = plans[place].buckets
        held = {*paths_of_bucket(metadata, schema, bucket), *(path for _, path in files)}
        work.append(_Decode(metadata, tuple(files), plans[place], tuple(held)))
    found = runner.map(_decode, work, label=f"verify: {metadata.paths.root}") if work else []
    return [file for files, _ in found for file in files], [keys for _, keys in found if keys is not None]


def paths_of_bucket(metadata: TableMetadata, schema: TableSchema, bucket: BucketFiles) -> list[str]:
    """Return the paths of the data files that a scan reads of a bucket."""
    partition = decode_partition_dict(bucket.partition, schema)
    return [
        metadata.paths.data_file(partition, bucket.bucket, f.file_name, external_path=f.external_path)
        for f in bucket.files()
    ]


def _decode(work: _Decode) -> tuple[list[DecodedFile], LiveKeys | None]:
    metadata = work.metadata
    if work.plan is not None:
        metadata = metadata.over(OverlayStore(metadata.store, _fetched(metadata, work.held)))
    found = [_decode_file(metadata, *file) for file in work.files]
    if work.plan is None or any(file.fault is not None for file in found):
        return found, None
    return found, read_keys(metadata, work.plan)


def _fetched(metadata: TableMetadata, paths: Sequence[str]) -> list[tuple[str, bytes]]:
    found = []
    for path in paths:
        # What is missing or refused is a fault of that file, when it is opened.
        with contextlib.suppress(NotFoundError, InvalidInputError):
            found.append((path, metadata.store.get(path)))
    return found


def _decode_file(metadata: TableMetadata, entry: ManifestEntry, path: str) -> DecodedFile:
    file = entry.file
    try:
        schema = metadata.load_schema(file.schema_id)
        rows, deletes = verify_data_file(metadata.store, path, file, schema)
        why = _why_untaken(metadata.latest_schema()) if deletes else None
        if why is not None:
            raise CorruptFileError(f"{deletes} rows of kind -U or -D, which the table cannot merge: {why}", path=path)
        said = file.delete_row_count
        wrong = {"file": path, "level": file.level, "deletes": deletes, "manifest_deletes": said}
        return DecodedFile(path, rows, file.file_size, miscounted=wrong if said not in (None, deletes) else None)
    except UnavailableError:
        raise
    except LakeIdxError as error:
        fault = {"file": error.path or path, "offset": error.offset, "fault": error.message}
        return DecodedFile(path, 0, file.file_size, fault)


def _why_untaken(schema: TableSchema) -> str | None:
    """Return why no row of kind -U or -D can be merged, and what to set; None when some can."""
    return next(
        (r.why for r in untaken_rows(schema) if len(r.kinds) == len(_RETRACTS) and not r.with_any and r.zero is None),
        None,
    )
