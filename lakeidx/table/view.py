"""A snapshot's state: which data files and index files are live in it.

Folding manifest entries is pure; loading filters manifests by the partitions requested before it reads them, so the cost
follows the partitions a batch touches.

source   org.apache.paimon.manifest.FileEntry#mergeEntries, org.apache.paimon.operation.AbstractFileStoreScan, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from lakeidx.codec.rows.binary_row import split_arity
from lakeidx.codec.rows.binary_row_read import decode_row
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.manifest_list import ManifestFileMeta
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.table.entries import Entries, KeepPartitions, live_files, no_entries, of_partitions
from lakeidx.table.intervals import key_order
from lakeidx.table.manifest_files import KEPT_ENTRIES
from lakeidx.table.metadata import TableMetadata
from lakeidx.types import DataType

HASH_INDEX = "HASH"
DELETION_VECTORS = "DELETION_VECTORS"


@dataclass(frozen=True, slots=True)
class SnapshotView:
    """Live files of a snapshot, maybe of some partitions only.

    snapshot    None for a table without snapshots
    schema      the snapshot's own schema (the newest one for an empty table)
    entries     live data files, as ADD entries
    index       live index files (HASH, deletion vectors, ...)
    """

    snapshot: Snapshot | None
    schema: TableSchema
    entries: Entries
    index: tuple[IndexEntry, ...]

    def by_bucket(self) -> dict[tuple[bytes, int], list[DataFileMeta]]:
        """Return the live data files per (partition bytes, bucket)."""
        out: dict[tuple[bytes, int], list[DataFileMeta]] = {}
        for entry in self.entries:
            out.setdefault((entry.partition, entry.bucket), []).append(entry.file)
        return out

    def hash_index(self) -> dict[bytes, dict[int, IndexEntry]]:
        """Return the HASH index files: partition bytes -> bucket -> entry."""
        out: dict[bytes, dict[int, IndexEntry]] = {}
        for entry in self.index:
            if entry.index_type == HASH_INDEX:
                out.setdefault(entry.partition, {})[entry.bucket] = entry
        return out

    def row_bounds(self) -> dict[bytes, tuple[int, int]]:
        """Return how many rows each partition has for a reader after a compaction, at least and at most, as files and indexes tell.

        Both are the number itself where no bucket has a key twice, or a delete.
        """
        index, least, most = self.hash_index(), dict[bytes, int](), dict[bytes, int]()
        numbers, places = self.entries.places()
        levels, rows = self.entries.rows["level"], self.entries.rows["row_count"]
        deletes = np.bincount(numbers, np.maximum(self.entries.rows["delete_row_count"], 0), len(places))
        total = np.bincount(numbers, rows, len(places))
        # The files of a level above 0 have no key twice; of level 0 each file alone has none.
        lower = np.zeros(len(places))
        np.maximum.at(lower, numbers[levels == 0], rows[levels == 0])
        for level in set(levels[levels > 0].tolist()):
            chosen = levels == level
            lower = np.maximum(lower, np.bincount(numbers[chosen], rows[chosen], len(places)))
        hidden = self._hidden_rows()
        for number, (partition, bucket) in enumerate(places):
            hashes = index.get(partition, {}).get(bucket)
            fewest_gone, most_gone = hidden.get((partition, bucket), (0, 0))
            top = total[number] - fewest_gone
            low = top = int(top if hashes is None else min(top, hashes.row_count))
            if self.schema.primary_keys:
                low = int(max(0, lower[number] - deletes[number] - most_gone))
            most[partition] = most.get(partition, 0) + top
            least[partition] = least.get(partition, 0) + low
        # Keys whose hashes are alike are one in an index.
        return {p: (least[p], max(least[p], most[p])) for p in most}

    def _hidden_rows(self) -> dict[tuple[bytes, int], tuple[int, float]]:
        """Count the rows of each bucket that deletion vectors take away, at least and at most: old writers do not say."""
        out: dict[tuple[bytes, int], tuple[int, float]] = {}
        for entry in self.index:
            counts = [v.cardinality for v in entry.dv_ranges or ()]
            low, high = out.get((entry.partition, entry.bucket), (0, 0.0))
            some = sum(c or 0 for c in counts)
            out[entry.partition, entry.bucket] = low + some, high + (np.inf if None in counts else some)
        return out

    def max_sequence_numbers(self) -> dict[tuple[bytes, int], int]:
        """Return the largest sequence number of each bucket's live files."""
        numbers, places = self.entries.places()
        top = np.full(len(places), -1, np.int64)
        np.maximum.at(top, numbers, self.entries.rows["max_sequence"])
        return dict(zip(places, top.tolist(), strict=True))


@lru_cache(maxsize=4096)
def _partition_values(partition: bytes, types: tuple[DataType, ...]) -> tuple[Any, ...]:
    """Partition bytes of a manifest entry as internal values, in partition key order."""
    # The files of a partition follow one another, and each of them asks.
    _, row = split_arity(partition)
    return tuple(decode_row(row, types))


def decode_partition_dict(partition: bytes, schema: TableSchema) -> dict[str, Any]:
    """Partition bytes as name -> internal value."""
    return dict(zip(schema.partition_keys, _partition_values(partition, schema.partition_types), strict=True))


def data_file_path(metadata: TableMetadata, entry: ManifestEntry) -> str:
    """Return the path of a manifest entry's data file."""
    file = entry.file
    # The partition columns are those of every schema of the table.
    partition = decode_partition_dict(entry.partition, metadata.load_schema(file.schema_id))
    return metadata.paths.data_file(partition, entry.bucket, file.file_name, external_path=file.external_path)


def _manifest_may_hold(
    meta: ManifestFileMeta, partitions: Sequence[tuple[Any, ...]], types: Sequence[DataType]
) -> bool:
    """Return False only if the manifest's partition statistics rule out every one of the partitions (internal values)."""
    low = decode_row(split_arity(meta.partition_stats.min_values)[1], types)
    high = decode_row(split_arity(meta.partition_stats.max_values)[1], types)
    for values in partitions:
        inside = True
        for value, lo, hi, t in zip(values, low, high, types, strict=True):
            if value is None or lo is None or hi is None:
                continue
            if not key_order(lo, t) <= key_order(value, t) <= key_order(hi, t):
                inside = False
                break
        if inside:
            return True
    return False


def load_view(
    metadata: TableMetadata, snapshot: Snapshot | None, *, partitions: Collection[bytes] | None = None
) -> SnapshotView:
    """Load the live files of a snapshot.

    partitions   only these (partition bytes); None = all
    """
    if snapshot is None:
        return SnapshotView(None, metadata.latest_schema(), no_entries(), ())
    live = load_live(metadata, snapshot, partitions=partitions)
    index = metadata.load_index_manifest(snapshot.index_manifest, partitions=partitions)
    return SnapshotView(snapshot, metadata.load_schema(snapshot.schema_id), live, tuple(index))


def load_live(metadata: TableMetadata, snapshot: Snapshot, *, partitions: Collection[bytes] | None = None) -> Entries:
    """Load the live data files of a snapshot; those that were loaded last are kept, with their objects.

    partitions   only these (partition bytes); None = all
    """
    # A batch is checked on the state that it was planned on, when nobody was faster; a reader mostly asks the same state again.
    asked = (snapshot.base_manifest_list, snapshot.delta_manifest_list, None if partitions is None else {*partitions})
    last = metadata.last_live
    if last is not None and last[0] == asked:
        return last[1]
    live = _live(metadata, snapshot, metadata.load_schema(snapshot.schema_id), partitions)
    metadata.last_live = (asked, live) if len(live) <= KEPT_ENTRIES else None
    return live


def _live(
    metadata: TableMetadata, snapshot: Snapshot, schema: TableSchema, partitions: Collection[bytes] | None
) -> Entries:
    metas = metadata.data_manifests(snapshot)
    keep: KeepPartitions | None = None
    if partitions is not None:
        decoded = [_partition_values(p, schema.partition_types) for p in partitions]
        types = schema.partition_types
        metas = [m for m in metas if _manifest_may_hold(m, decoded, types)] if types else metas
        keep = of_partitions(partitions)
    return live_files(
        metadata.load_manifests(metas, keep=keep), where=metadata.paths.manifest_path(snapshot.base_manifest_list)
    )


def number_partitions(first: Sequence[bytes], more: Iterable[bytes]) -> tuple[tuple[bytes, ...], Mapping[bytes, int]]:
    """Assign numbers to the partitions: the batch's own first, then others in order of appearance."""
    numbers = {p: i for i, p in enumerate(first)}
    for p in more:
        numbers.setdefault(p, len(numbers))
    return tuple(numbers), numbers
