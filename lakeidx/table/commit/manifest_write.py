"""Writes manifests, manifest lists and index manifests of one commit, and combines index entries.

source   org.apache.paimon.manifest.ManifestFile, ManifestList, IndexManifestFileHandler, release 1.4.2
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from operator import attrgetter
from typing import Any

import numpy as np

from lakeidx.codec.containers.avro_write import RecordCopier
from lakeidx.codec.rows.binary_row import split_arity, with_arity
from lakeidx.codec.rows.binary_row_read import decode_row
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.errors import CommitConflictError
from lakeidx.format.data_file import EMPTY_STATS, SimpleStats
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.index_manifest import IndexEntry, encode_index_manifest
from lakeidx.format.manifest import MANIFEST_SCHEMA, FileKind, ManifestEntry, ours_and_more, same_records
from lakeidx.format.manifest_list import ManifestFileMeta, encode_manifest_list
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.table.commit.conflicts import index_identity
from lakeidx.table.entries import Entries
from lakeidx.table.entry_decoder import entries_of
from lakeidx.table.entry_kernels import found_in, uncancelled_entries
from lakeidx.table.intervals import key_order
from lakeidx.table.manifest_files import ManifestFiles
from lakeidx.table.view import DELETION_VECTORS, HASH_INDEX
from lakeidx.types import DataType

#: Bytes of files that wait to be written together.
_WAITING_BYTES = 32 << 20
#: NumPy asks an enumeration for a dozen attributes that it does not have.
_DELETE = int(FileKind.DELETE)
_SIZE = attrgetter("file_size")


class ManifestWriter:
    """Writes the metadata files of one commit, all together in `finish`; a lost try can be cleaned up, for their names are kept.

    files    the table's manifests, which hold on to what is written: the next commit reads it
    names    one factory per commit: one UUID, one counter per kind of file
    """

    def __init__(self, files: ManifestFiles, schema: TableSchema, names: NewFileNames) -> None:
        self.files = files
        self.store = files.store
        self.paths = files.paths
        self.schema = schema
        self.names = names
        self.written: list[str] = []
        self._waiting: list[tuple[str, bytes]] = []
        self._waiting_bytes = 0
        options = schema.table_options
        self._codec = options.manifest_codec
        self._level = options.file_compression_zstd_level
        self._target_bytes = options.manifest_target_file_size

    def write_manifests(self, entries: Sequence[ManifestEntry]) -> list[ManifestFileMeta]:
        """Write entries as manifests that roll at the target size; none for no entries."""
        out: list[ManifestFileMeta] = []
        for data, part in self._rolled(entries_of(entries)):
            name = self.names.manifest_name()
            self._put(self.paths.manifest_path(name), data)
            self.files.keep_manifest(name, part.compact(), len(data))
            out.append(self._describe(name, len(data), part))
        return out

    def write_manifest_list(self, metas: Sequence[ManifestFileMeta]) -> tuple[str, int]:
        """Write a manifest list (an empty one is a file, too); return its name and bytes."""
        name = self.names.manifest_list_name()
        data = encode_manifest_list(list(metas), codec=self._codec, level=self._level)
        self._put(self.paths.manifest_path(name), data)
        self.files.keep_manifest_list(name, list(metas), len(data))
        return name, len(data)

    def write_index_manifest(self, entries: Sequence[IndexEntry]) -> str:
        """Write a complete index manifest; return its name."""
        name = self.names.index_manifest_name()
        data = encode_index_manifest(entries, codec=self._codec, level=self._level)
        self._put(self.paths.manifest_path(name), data)
        self.files.keep_index_manifest(name, data, entries)
        return name

    def merge_manifests(self, manifests: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """Write the base list of the next snapshot: the same live files in fewer manifests where that pays."""
        options, target = self.schema.table_options, self._target_bytes
        threshold = options.manifest_full_compaction_threshold_size
        if _wants_full_merge(manifests, target_bytes=target, threshold_bytes=threshold):
            return self._full_merge(manifests)
        out: list[ManifestFileMeta] = []
        for run, rewrite in _runs_to_merge(manifests, target_bytes=target, min_count=options.manifest_merge_min_count):
            out += self.write_manifests(cancel_pairs(self.files.load_manifests(run))) if rewrite else run
        return out

    def _full_merge(self, manifests: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
        read = self.files.load_manifests
        deletes = read([m for m in manifests if m.num_deleted_files > 0], hold=False)
        deletes = deletes.select(deletes.column("kind") == FileKind.DELETE)
        kept: list[ManifestFileMeta] = []
        rest: list[ManifestFileMeta] = []
        for meta in manifests:
            changes = meta.num_deleted_files > 0 or meta.file_size < self._target_bytes
            if not changes and len(deletes):
                here = read([meta], hold=False)
                changes = bool(
                    found_in(
                        here.column("high"), here.column("low"), deletes.column("high"), deletes.column("low")
                    ).any()
                )
            (rest if changes else kept).append(meta)
        # An upgrade and a later move back can delete and re-add one identifier, so order decides, not set membership alone.
        left = cancel_pairs(read(rest))
        return [*kept, *self.write_manifests(left.select(left.column("kind") == FileKind.ADD))]

    def finish(self) -> None:
        """Write what waits: a snapshot may refer to it."""
        self.store.put_many(self._taken())

    def forget(self) -> None:
        """Delete the files written since the last publish: the attempt failed, and nothing refers to them."""
        self._waiting, self._waiting_bytes = [], 0
        self.store.delete_many(self.written)
        self.written = []

    def _put(self, path: str, data: bytes) -> None:
        self._waiting.append((path, data))
        self._waiting_bytes += len(data)
        if self._waiting_bytes > _WAITING_BYTES:
            self.store.put_many(self._taken())

    def _taken(self) -> list[tuple[str, bytes]]:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        self.written += [path for path, _ in waiting]
        return waiting

    def _rolled(self, entries: Entries) -> Iterator[tuple[bytes, Entries]]:
        """Give manifests with their entries; records are copied, not encoded anew.

        A manifest ends with the block that brings it to the target size.
        """
        writers = entries.writers()
        plain = all(map(same_records, writers))
        if not plain and not (len(writers) == 1 and all(map(ours_and_more, writers))):
            # Fields of a later release in some, or another layout: one schema for all, as the encoder of objects makes it.
            yield from self._rolled(entries_of(list(entries)))
            return
        schema = MANIFEST_SCHEMA.text if plain else next(iter(writers)).decode()
        copier, first, at = RecordCopier(schema, codec=self._codec, level=self._level), 0, 0
        for _, records in entries.records():
            begin = at
            while at < begin + len(records):
                at = begin + copier.add(records, at - begin)
                if not copier.pending and copier.size >= self._target_bytes:
                    yield copier.finish(), entries[first:at]
                    copier, first = RecordCopier(schema, codec=self._codec, level=self._level), at
        if first < at:
            yield copier.finish(), entries[first:at]

    def _describe(self, name: str, size: int, entries: Entries) -> ManifestFileMeta:
        rows = entries.rows
        buckets, levels = rows["bucket"], rows["level"]
        deleted = int(np.count_nonzero(rows["kind"] == _DELETE))
        return ManifestFileMeta(
            file_name=name,
            file_size=size,
            num_added_files=len(entries) - deleted,
            num_deleted_files=deleted,
            partition_stats=partition_stats(entries.partition_counts(), self.schema.partition_types),
            schema_id=int(rows["schema_id"].max()),
            min_bucket=int(buckets.min()),
            max_bucket=int(buckets.max()),
            min_level=int(levels.min()),
            max_level=int(levels.max()),
        )


def partition_stats(counts: Mapping[bytes, int], types: Sequence[DataType]) -> SimpleStats:
    """Return the min, max and null count per partition column over manifest entries (one count per entry, as Paimon does).

    counts   entries by partition bytes
    """
    if not types:
        return EMPTY_STATS
    rows = [(decode_row(split_arity(p)[1], types), n) for p, n in counts.items()]
    low: list[Any] = []
    high: list[Any] = []
    nulls: list[int | None] = []
    for i in range(len(types)):
        values = [row[i] for row, _ in rows if row[i] is not None]
        order = partial(key_order, t=types[i])
        low.append(min(values, key=order) if values else None)
        high.append(max(values, key=order) if values else None)
        nulls.append(sum(n for row, n in rows if row[i] is None))
    arity = len(types)
    return SimpleStats(
        min_values=with_arity(encode_row(low, types), arity),
        max_values=with_arity(encode_row(high, types), arity),
        null_counts=tuple(nulls),
    )


def combine_index(old: Sequence[IndexEntry], changes: Sequence[IndexEntry], mode: BucketMode) -> list[IndexEntry]:
    """Combine entries into those live after a commit.

    HASH, and deletion vectors of bucketed tables: one per (partition, bucket); deletes first, then a new one replaces.
    Everything else is kept by file name.
    errors   CommitConflictError when an index file to be removed is not there, or holds other deletion vectors
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
            if found is None or index_identity(found) != index_identity(entry):
                raise CommitConflictError(f"index file {entry.file_name} is not live any more")
            del live[identity(entry)]
    for entry in changes:
        if entry.kind is FileKind.ADD:
            live[identity(entry)] = entry
    return list(live.values())


def _wants_full_merge(manifests: Sequence[ManifestFileMeta], *, target_bytes: int, threshold_bytes: int) -> bool:
    """Return True when the manifests that must change are together large enough to be worth a full rewrite."""
    if sum(map(_SIZE, manifests)) < threshold_bytes:
        # All of them are too small: each commit asks.
        return False
    must_change = [m for m in manifests if m.num_deleted_files > 0 or m.file_size < target_bytes]
    return len(must_change) > 1 and sum(map(_SIZE, must_change)) >= threshold_bytes


def _runs_to_merge(
    manifests: Sequence[ManifestFileMeta], *, target_bytes: int, min_count: int
) -> Iterator[tuple[Sequence[ManifestFileMeta], bool]]:
    """Group manifests in list order, and say which groups become one: those that reach the target size, and a rest that is long."""
    # Bytes before each manifest, and of all.
    sums = [*accumulate(map(_SIZE, manifests), initial=0)]
    first = 0
    while first < len(manifests):
        last = bisect_left(sums, sums[first] + target_bytes, first + 1)
        run = manifests[first:last]
        yield run, len(run) > 1 if last < len(sums) else len(run) >= min_count
        first = last


def cancel_pairs(entries: Entries) -> Entries:
    """Drop ADD entries that a later DELETE removes, and that DELETE; an unmatched DELETE stays."""
    return entries.select(
        uncancelled_entries(entries.column("kind"), entries.column("high"), entries.column("low"))
    ).compact()
