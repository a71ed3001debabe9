"""The buckets that can contain given keys: by the bucket function of fixed buckets, or the HASH index of dynamic ones.

Assignment, point lookups, scans, index types and the command line all get the answer here. A HASH index is streamed: every file is
read once, several at a time, and only its hashes that pass a filter of the keys are kept; what a question costs in memory follows
the keys, not the index.

source   org.apache.paimon.index.{HashBucketAssigner,PartitionIndex}, org.apache.paimon.bucket.BucketFunction, release 1.4.2
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.bucket_assignment.hash_filter import HashFilter
from lakeidx.bucket_assignment.hash_map import HashMap
from lakeidx.bucket_assignment.hash_set import shared_with
from lakeidx.codec.bucket import fixed_buckets
from lakeidx.codec.distinct import sorted_distinct
from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.errors import CorruptFileError, NotFoundError
from lakeidx.format.hash_index import decode_hash_index
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.table.index_files import index_file_path, known_hashes, read_hash_bytes
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import HASH_INDEX
from lakeidx.tasks.in_parallel import in_parallel

_log = logging.getLogger(__name__)

Hashes = NDArray[np.int32]
FoundHashes = tuple[int, Hashes, int]
"""Bucket, hashes of its file, and how many the file has in all."""

#: Index files read at a time: a partition may have thousands, and nearly all of the time is waiting.
_INDEX_REQUESTS = 32
_IN_FLIGHT_BYTES = 64 << 20
#: So many files, with so many bytes in all, are read from a local disk before threads have started.
_FEW_FILES, _FEW_BYTES = 16, 1 << 20

#: With so many hashes of the index for each that is requested, a filter is worth its pass.
_MANY = 2
#: With so many, the index is worth keeping for the next question, which searches it.
_FEW = 16


def key_hashes(schema: TableSchema, keys: pa.Table) -> NDArray[np.int32]:
    """Hash of each row's trimmed primary key, int32[n], as stored in HASH index files."""
    names = schema.trimmed_primary_keys
    return hash_columns([keys.column(n) for n in names], list(schema.key_types))


def buckets_by_function(schema: TableSchema, keys: pa.Table, total: int) -> NDArray[np.int32]:
    """Compute the bucket of each row in a table of fixed buckets, int32[n].

    keys    rows with at least the bucket key
    total   buckets there are: of the table, or of the time a file was written
    """
    names = schema.bucket_keys or schema.trimmed_primary_keys
    types = [schema.field(n).type for n in names]
    return fixed_buckets([keys.column(n) for n in names], types, total, schema.table_options.bucket_function_type)


def hash_entries(
    metadata: TableMetadata, snapshot: Snapshot | None, partitions: Collection[bytes]
) -> dict[bytes, dict[int, IndexEntry]]:
    """Return the HASH index files of some partitions, each by bucket ascending; only the index manifest is read."""
    out: dict[bytes, dict[int, IndexEntry]] = {p: {} for p in partitions}
    entries = [] if snapshot is None else metadata.load_index_manifest(snapshot.index_manifest, partitions=out)
    for entry in sorted((e for e in entries if e.index_type == HASH_INDEX), key=_bucket):
        out[entry.partition][entry.bucket] = entry
    return out


def _bucket(entry: IndexEntry) -> int:
    return entry.bucket


class HashIndex(Protocol):
    """The HASH index of the partitions that a batch touches."""

    @property
    def waits(self) -> bool:
        """True when hits need requests to the store."""

    def hits(self, partition: bytes, columns: Sequence[Hashes], *, threads: int) -> list[FoundHashes]:
        """Return what each bucket of a partition has of some hashes, by bucket ascending; perhaps other hashes of it, too.

        threads   files read at a time
        errors    CorruptFileError for a damaged index file, NotFoundError
        """


def worth_filtering(asked: int, held: int) -> bool:
    """Return True when a filter of the hashes that are requested is worth its pass over those of the index."""
    return asked * _MANY < held


def are_few(asked: int, held: int) -> bool:
    """Return True when so few hashes are requested that looking them up in the index's files costs less than indexing those."""
    return asked * _FEW <= held


@dataclass(frozen=True, slots=True, eq=False)
class IndexHits:
    """What one HASH index file has of the hashes requested.

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

    columns        int32[n] each: the hashes; when they are many against the index, it is kept whole; when they are few, the
                   process holds on to the index, if all of these files fit its bound. None: all hashes, of files that the process
                   holds from there
    skip_damaged   a damaged or missing file is logged, and its hits are None; else it is an error
    threads        files read at a time
    memory         the filter, and 64 MiB of files or two of them
    errors         CorruptFileError for a damaged file; NotFoundError
    """
    if not entries:
        return []
    held = sum(e.row_count for e in entries)
    asked = held if columns is None else sum(len(c) for c in columns)
    keeps = are_few(asked, held) and 4 * held <= metadata.hash_files.max_bytes
    wanted = sorted_distinct(np.concatenate(columns)) if keeps and columns is not None else None
    passes = HashFilter(columns) if columns is not None and not keeps and worth_filtering(asked, held) else None

    def hashes_of(entry: IndexEntry) -> NDArray[np.int32]:
        if columns is None:
            return known_hashes(metadata, schema, entry)
        if wanted is not None:
            return shared_with(wanted, known_hashes(metadata, schema, entry, keep=True))
        data = read_hash_bytes(metadata, schema, entry)
        return decode_hash_index(data) if passes is None else passes.passing(data)

    def read(entry: IndexEntry) -> IndexHits:
        try:
            return IndexHits(entry, hashes_of(entry))
        except (CorruptFileError, NotFoundError) as error:
            if not skip_damaged:
                raise
            _log.warning("reading bucket %d without its hash index: %s", entry.bucket, error)
            return IndexHits(entry, None)

    # Threads are for waiting: what is there already, and a few small files of this machine, need none.
    there = keeps and all(index_file_path(metadata, schema, e) in metadata.hash_files for e in entries)
    at_hand = len(entries) <= _FEW_FILES and 4 * held <= _FEW_BYTES and not metadata.store.waits
    largest = 4 * max(e.row_count for e in entries)
    threads = 1 if there or at_hand else min(threads, max(2, _IN_FLIGHT_BYTES // max(1, largest)))
    return in_parallel(read, entries, threads=threads)


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
    hashes: NDArray[np.int32],
    *,
    skip_damaged: bool = False,
    threads: int = _INDEX_REQUESTS,
) -> KeyBuckets:
    """Find the buckets of some hashes of one partition; the result is valid for these hashes only.

    entries   the partition's HASH files, by bucket ascending
    errors    as `find_hits`
    """
    found = find_hits(metadata, schema, entries, [hashes], skip_damaged=skip_damaged, threads=threads)
    return buckets_in((hits.entry.bucket, hits.hashes, hits.entry.row_count) for hits in found)


def load_buckets(metadata: TableMetadata, schema: TableSchema, entries: Sequence[IndexEntry]) -> KeyBuckets:
    """Load the whole HASH index of one partition, for a process that needs it again; damaged and missing files are logged.

    memory   8 to 10 bytes per hash
    """
    found = find_hits(metadata, schema, entries, None, skip_damaged=True)
    return buckets_in((hits.entry.bucket, hits.hashes, hits.entry.row_count) for hits in found)


def buckets_in(found: Iterable[tuple[int, Hashes | None, int]]) -> KeyBuckets:
    """Make the index of what HASH files have, file after file; None: a file cannot be read."""
    found = list(found)
    known = HashMap()
    known.reserve(sum(len(hashes) for _, hashes, _ in found if hashes is not None))
    unreadable, rows, stored = [], 0, 0
    for bucket, hashes, held in found:
        if hashes is None:
            unreadable.append(bucket)
            continue
        known.store(hashes, bucket)
        rows += held
        stored += len(hashes)
    return KeyBuckets(known, tuple(unreadable), len(found), rows, stored - len(known))
