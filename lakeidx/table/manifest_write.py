"""Writes manifests, manifest lists and index manifests of one commit, and combines index entries.

source   org.apache.paimon.manifest.ManifestFile, ManifestList, IndexManifestFileHandler, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakeidx.codec.binary_row import decode_row, encode_row, split_arity, with_arity
from lakeidx.errors import CommitConflictError
from lakeidx.format.data_file import SimpleStats
from lakeidx.format.index_manifest import IndexEntry, encode_index_manifest
from lakeidx.format.manifest import FileKind, ManifestEntry, encode_manifest
from lakeidx.format.manifest_list import ManifestFileMeta, encode_manifest_list
from lakeidx.format.paths import NewFileNames, TablePaths
from lakeidx.format.schema import BucketMode, TableSchema
from lakeidx.storage.base import ObjectStore
from lakeidx.table.view import DELETION_VECTORS, HASH_INDEX
from lakeidx.types import DataType

#: Entries encoded at a time before the size of the manifest is looked at, as Paimon checks every 1000 records.
_ROLL_CHECK_ENTRIES = 1000


class ManifestWriter:
    """Writes the metadata files of one commit; remembers their names so that a lost try can be cleaned up.

    names   one factory per commit: one UUID, one counter per kind of file
    """

    def __init__(self, store: ObjectStore, paths: TablePaths, schema: TableSchema, names: NewFileNames) -> None:
        self.store = store
        self.paths = paths
        self.schema = schema
        self.names = names
        self.written: list[str] = []
        options = schema.table_options
        self._codec = options.manifest_codec
        self._level = options.file_compression_zstd_level
        self._target_bytes = options.manifest_target_file_size

    def manifests(self, entries: Sequence[ManifestEntry]) -> list[ManifestFileMeta]:
        """Write entries as manifests that roll at the target size; none for no entries."""
        out: list[ManifestFileMeta] = []
        pending = list(entries)
        while pending:
            data, taken = self._encode_until_target(pending)
            part, pending = pending[:taken], pending[taken:]
            name = self.names.manifest()
            self._put(self.paths.manifest(name), data)
            out.append(self._describe(name, len(data), part))
        return out

    def manifest_list(self, metas: Sequence[ManifestFileMeta]) -> tuple[str, int]:
        """Write a manifest list (an empty one is a file, too); gives its name and bytes."""
        name = self.names.manifest_list()
        data = encode_manifest_list(list(metas), codec=self._codec, level=self._level)
        self._put(self.paths.manifest(name), data)
        return name, len(data)

    def index_manifest(self, entries: Sequence[IndexEntry]) -> str:
        """Write a complete index manifest; gives its name."""
        name = self.names.index_manifest()
        self._put(self.paths.manifest(name), encode_index_manifest(list(entries), codec=self._codec, level=self._level))
        return name

    def forget(self) -> None:
        """Take back what was written since the last publish: the try was lost, nobody refers to these files."""
        self.store.delete_many(self.written)
        self.written = []

    def _put(self, path: str, data: bytes) -> None:
        self.written.append(path)
        self.store.put(path, data)

    def _encode_until_target(self, entries: list[ManifestEntry]) -> tuple[bytes, int]:
        data = encode_manifest(entries, codec=self._codec, level=self._level)
        if len(data) <= self._target_bytes or len(entries) <= _ROLL_CHECK_ENTRIES:
            return data, len(entries)
        # Entries of one table are of like size, so the share that fits is known well enough from the whole.
        share = int(len(entries) * self._target_bytes / len(data))
        taken = max(_ROLL_CHECK_ENTRIES, share // _ROLL_CHECK_ENTRIES * _ROLL_CHECK_ENTRIES)
        return encode_manifest(entries[:taken], codec=self._codec, level=self._level), taken

    def _describe(self, name: str, size: int, entries: Sequence[ManifestEntry]) -> ManifestFileMeta:
        buckets = [e.bucket for e in entries]
        levels = [e.file.level for e in entries]
        return ManifestFileMeta(
            file_name=name,
            file_size=size,
            num_added_files=sum(e.kind is FileKind.ADD for e in entries),
            num_deleted_files=sum(e.kind is FileKind.DELETE for e in entries),
            partition_stats=partition_stats([e.partition for e in entries], self.schema.partition_types),
            schema_id=max(e.file.schema_id for e in entries),
            min_bucket=min(buckets),
            max_bucket=max(buckets),
            min_level=min(levels),
            max_level=max(levels),
        )


def partition_stats(partitions: Sequence[bytes], types: Sequence[DataType]) -> SimpleStats:
    """Min, max and null count per partition column over manifest entries (one count per entry, as Paimon does)."""
    counts: dict[bytes, int] = {}
    for partition in partitions:
        counts[partition] = counts.get(partition, 0) + 1
    rows = [(decode_row(split_arity(p)[1], types), n) for p, n in counts.items()]
    low: list[Any] = []
    high: list[Any] = []
    nulls: list[int | None] = []
    for i in range(len(types)):
        values = [row[i] for row, _ in rows if row[i] is not None]
        low.append(min(values) if values else None)
        high.append(max(values) if values else None)
        nulls.append(sum(n for row, n in rows if row[i] is None))
    arity = len(types)
    return SimpleStats(
        min_values=with_arity(encode_row(low, types), arity),
        max_values=with_arity(encode_row(high, types), arity),
        null_counts=tuple(nulls),
    )


def combine_index(old: Sequence[IndexEntry], changes: Sequence[IndexEntry], mode: BucketMode) -> list[IndexEntry]:
    """Live index entries after a commit.

    HASH, and deletion vectors of bucketed tables: one per (partition, bucket); deletes first, then a new one replaces.
    Everything else is kept by file name.
    errors   CommitConflictError when an index file to be removed is not there
    """

    def identity(entry: IndexEntry) -> tuple[object, ...]:
        per_bucket = entry.index_type == HASH_INDEX or (
            entry.index_type == DELETION_VECTORS and mode is not BucketMode.BUCKET_UNAWARE
        )
        if per_bucket:
            return entry.index_type, entry.partition, entry.bucket
        return entry.index_type, entry.file_name

    live = {identity(e): e for e in old}
    for entry in changes:
        if entry.kind is FileKind.DELETE:
            found = live.get(identity(entry))
            if found is not None and found.file_name == entry.file_name:
                del live[identity(entry)]
            elif entry.index_type not in (HASH_INDEX, DELETION_VECTORS):
                raise CommitConflictError(f"index file {entry.file_name} is not live any more")
    for entry in changes:
        if entry.kind is FileKind.ADD:
            live[identity(entry)] = entry
    return list(live.values())
