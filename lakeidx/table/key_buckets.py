"""The buckets that can contain given keys: by the bucket function of fixed buckets, or the HASH index of dynamic ones.

Assignment, in the driver and in tasks, point lookups, scans, index types and the command line all get the answer here. A HASH index
is streamed: of every file only the hashes that pass a filter of the keys are kept, so that a question takes memory for its keys,
not the index. Files that were read last stay in the process, up to a bound.

source   org.apache.paimon.index.{HashBucketAssigner,PartitionIndex}, org.apache.paimon.bucket.BucketFunction, release 1.4.2
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.errors import CorruptFileError, NotFoundError
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.table.index_files import known_hashes
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import HASH_INDEX
from lakeidx.tasks.in_parallel import in_parallel

if TYPE_CHECKING:
    from lakeidx.bucket_assignment.hash_map import HashMap

_log = logging.getLogger(__name__)

#: Index files read at a time: a partition may have thousands, and nearly all of the time is waiting.
_INDEX_REQUESTS = 32
_IN_FLIGHT_BYTES = 64 << 20


def key_hashes(schema: TableSchema, keys: pa.Table) -> NDArray[np.int32]:
    """Hash of each row's trimmed primary key, int32[n], as stored in HASH index files."""
    names = schema.trimmed_primary_keys
    return hash_columns([keys.column(n) for n in names], list(schema.key_types))


def buckets_by_function(schema: TableSchema, keys: pa.Table, total: int) -> NDArray[np.int32]:
    """Compute the bucket of each row in a table of fixed buckets, int32[n].

    keys    rows with at least the bucket key
    total   buckets there are: of the table, or of the time a file was written
    """
    from lakeidx.codec.bucket import fixed_buckets

    names = schema.bucket_keys or schema.trimmed_primary_keys
    types = [schema.field(n).type for n in names]
    return fixed_buckets([keys.column(n) for n in names], types, total, schema.table_options.bucket_function_type)


def hash_entries(
    metadata: TableMetadata, snapshot: Snapshot | None, partitions: Collection[bytes]
) -> dict[bytes, dict[int, IndexEntry]]:
    """Return the HASH index files of some partitions, each by bucket ascending; only the index manifest is read."""
    out: dict[bytes, dict[int, IndexEntry]] = {p: {} for p in partitions}
    entries = [] if snapshot is None else metadata.load_index_manifest(snapshot.index_manifest, partitions=out)
    for entry in sorted((e for e in entries if e.index_type == HASH_INDEX), key=attrgetter("bucket")):
        out[entry.partition][entry.bucket] = entry
    return out


@dataclass(frozen=True, slots=True, eq=False)
class IndexHits:
    """Hashes requested that one HASH index file has.

    hashes   int32[k]: those hashes, and some others that are in the file, too; None for a damaged or missing file
    """

    entry: IndexEntry
    hashes: NDArray[np.int32] | None

    @property
    def known(self) -> NDArray[np.int32]:
        """The hashes of a file that could be read."""
        return np.zeros(0, np.int32) if self.hashes is None else self.hashes


def find_hits(
    metadata: TableMetadata,
    schema: TableSchema,
    entries: Sequence[IndexEntry],
    columns: Sequence[NDArray[np.int32]] | None,
    *,
    skip_damaged: bool = False,
    threads: int = _INDEX_REQUESTS,
) -> list[IndexHits]:
    """Stream HASH index files and keep what they have of some hashes, in the order of the entries.

    columns        int32[n] each: the hashes; None: all that the files have
    skip_damaged   a damaged or missing file is logged, and its hits are None; else it is an error
    threads        files read at a time
    memory         the filter, 64 MiB of files or two of them, and files that the process keeps (`lakeidx.table.manifest_files`)
    errors         CorruptFileError for a damaged file; NotFoundError
    """
    if not entries:
        return []
    from lakeidx.bucket_assignment.hash_set import HashFilter

    passes = None if columns is None else HashFilter(columns)

    def read(entry: IndexEntry) -> IndexHits:
        try:
            hashes = known_hashes(metadata, schema, entry)
        except (CorruptFileError, NotFoundError) as error:
            if not skip_damaged:
                raise
            _log.warning("reading bucket %d without its hash index: %s", entry.bucket, error)
            return IndexHits(entry, None)
        return IndexHits(entry, hashes if passes is None else passes.passing(hashes))

    largest = 4 * max(e.row_count for e in entries)
    at_a_time = min(threads, max(2, _IN_FLIGHT_BYTES // max(1, largest))) if metadata.store.waits else 1
    return in_parallel(read, entries, threads=at_a_time)


@dataclass(frozen=True, slots=True, eq=False)
class KeyBuckets:
    """The HASH index of one partition, or the part that some keys need; query it by `of`.

    unreadable   buckets with a damaged or missing index file: any key may be in them
    files, rows  index files read, and the hashes in them
    split        hashes that two files have; a hash belongs to the later one, as in Java
    """

    hashes: HashMap
    unreadable: tuple[int, ...] = ()
    files: int = 0
    rows: int = 0
    split: int = 0

    def of(self, hashes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Find the bucket of each hash, int32[n], -1 where none has it."""
        return self.hashes.lookup(np.require(hashes, np.int32, ["C", "W"]))


def find_buckets(
    metadata: TableMetadata,
    schema: TableSchema,
    entries: Sequence[IndexEntry],
    hashes: NDArray[np.int32] | None,
    *,
    skip_damaged: bool = False,
    threads: int = _INDEX_REQUESTS,
) -> KeyBuckets:
    """Find the buckets of some hashes of one partition; the result is valid for these hashes only.

    entries   the partition's HASH files, by bucket ascending
    hashes    None: all that the files have, for a process that needs them again
    errors    as `find_hits`
    memory    8 to 10 bytes per hash
    """
    from lakeidx.bucket_assignment.hash_map import HashMap

    columns = None if hashes is None else [hashes]
    found = find_hits(metadata, schema, entries, columns, skip_damaged=skip_damaged, threads=threads)
    known = HashMap()
    known.reserve(sum(len(hits.known) for hits in found))
    for hits in found:
        known.store(hits.known, hits.entry.bucket)
    read = [hits for hits in found if hits.hashes is not None]
    return KeyBuckets(
        known,
        unreadable=tuple(hits.entry.bucket for hits in found if hits.hashes is None),
        files=len(found),
        rows=sum(hits.entry.row_count for hits in read),
        split=sum(len(hits.known) for hits in read) - len(known),
    )
