"""HASH index files on their way to the tasks that place a batch: each is read by one task, and each task gets the hashes it owns.

Hashes are owned by value, so every file has some of every placing task; were they to read files, each would read all of them. A
map task reads some files and cuts each by owner:

===================  ============  =========================================================================
column               type          content
===================  ============  =========================================================================
lakeidx.index        binary        partition
lakeidx.bucket       int32         bucket
lakeidx.rows         int64         hashes in the file
lakeidx.hashes       large_binary  those that the task owns, as the file has them: big-endian int32, in its order
===================  ============  =========================================================================

Every task gets a row of every file, since a bucket's owner counts hashes that are others'.

source   org.apache.paimon.index.PartitionIndex.loadIndex (which keeps the hashes that the assigner owns), release 1.4.2
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.batch.assignment.place_work import PlaceWork
from lakeidx.batch.assignment.routed_keys import partition_hash
from lakeidx.bucket_assignment.hash_filter import HashFilter
from lakeidx.bucket_assignment.routing import group_rows
from lakeidx.format.hash_index import decode_hash_index
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.table.index_files import read_hash_bytes
from lakeidx.table.key_buckets import FoundHashes, worth_filtering
from lakeidx.tasks.in_parallel import in_parallel
from lakeidx.tasks.routed_rows import Block, RoutedRows

Hashes = NDArray[np.int32]

_PARTITION, _BUCKET, _ROWS, _HASHES = (f"lakeidx.{n}" for n in ("index", "bucket", "rows", "hashes"))

#: Files that one map task reads, of so many hashes together; and how many it reads at a time.
_ITEM_FILES, _ITEM_HASHES, _REQUESTS = 256, 4 << 20, 32


@dataclass(frozen=True, slots=True)
class IndexFiles:
    """Some files of the HASH index, by partition and bucket ascending.

    order   their place among what a placing task gets: after the batch's parts
    """

    order: int
    entries: tuple[IndexEntry, ...]


def plan_index_files(index: Mapping[bytes, Mapping[int, IndexEntry]], first: int) -> list[IndexFiles]:
    """Share HASH index files among map tasks.

    index   by partition and bucket
    first   order of the first share
    """
    shares: list[list[IndexEntry]] = []
    held = 0
    for entry in (index[p][b] for p in sorted(index) for b in sorted(index[p])):
        if not shares or len(shares[-1]) >= _ITEM_FILES or held + entry.row_count > _ITEM_HASHES:
            shares.append([])
            held = 0
        shares[-1].append(entry)
        held += entry.row_count
    return [IndexFiles(first + i, tuple(entries)) for i, entries in enumerate(shares)]


def send_index_files(work: PlaceWork, files: IndexFiles, *, is_global: bool) -> Iterator[RoutedRows]:
    """Map: read some files, each once, and send every task its hashes of them.

    is_global   a key has one task in all partitions
    errors      CorruptFileError for a damaged file, NotFoundError
    """
    tasks = work.plan.num_channels

    def cut(entry: IndexEntry) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        data = read_hash_bytes(work.metadata, work.schema, entry)
        owner = work.plan.assigner_of(0 if is_global else partition_hash(entry.partition), decode_hash_index(data))
        groups = group_rows(owner, tasks)
        return np.frombuffer(data, np.uint32)[groups.order], np.diff(groups.starts)

    found = in_parallel(cut, files.entries, threads=_REQUESTS)
    sizes = np.concatenate([counts for _, counts in found])
    offsets = np.concatenate(([0], np.cumsum(sizes))) * 4
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.concatenate([hashes for hashes, _ in found]))]
    rows = {
        _PARTITION: pa.array([e.partition for e in files.entries], pa.binary()).take(_each(files, tasks)),
        _BUCKET: pa.array([e.bucket for e in files.entries], pa.int32()).take(_each(files, tasks)),
        _ROWS: pa.array([e.row_count for e in files.entries], pa.int64()).take(_each(files, tasks)),
        _HASHES: pa.Array.from_buffers(pa.large_binary(), len(sizes), buffers),
    }
    yield RoutedRows(files.order, pa.table(rows), np.tile(np.arange(tasks, dtype=np.int32), len(files.entries)))


def _each(files: IndexFiles, tasks: int) -> pa.Array:
    return pa.array(np.repeat(np.arange(len(files.entries)), tasks))


@dataclass(slots=True)
class SentIndex:
    """What a placing task keeps of the files: hashes that its rows may have. A `lakeidx.table.key_buckets.HashIndex`.

    passes      filter of the hashes of its rows; None: all are kept
    rows_read   hashes that came
    """

    passes: HashFilter | None
    files: dict[bytes, list[FoundHashes]] = field(default_factory=dict)
    rows_read: int = 0
    waits = False

    @classmethod
    def of(cls, columns: Sequence[Hashes], held: int) -> SentIndex:
        """Make one for the rows of a task.

        columns   int32[n] each, their hashes
        held      hashes that will come
        """
        return cls(HashFilter(columns) if worth_filtering(sum(map(len, columns)), held) else None)

    def take(self, blocks: Iterator[Block]) -> Iterator[Block]:
        """Consume the leading blocks of index files; return the other blocks."""
        for block in blocks:
            if _HASHES not in block.rows.column_names:
                return chain([block], blocks)
            self._add(block.rows)
        return iter(())

    def _add(self, rows: pa.Table) -> None:
        """Add all files of a block together: a task gets as many rows as there are files, each with few hashes."""
        data, ends = _joined(rows.column(_HASHES).combine_chunks())
        hashes, kept = (decode_hash_index(data), ends) if self.passes is None else self.passes.passing_each(data, ends)
        starts = np.concatenate(([0], kept[:-1])).tolist()
        names = (rows.column(n).to_pylist() for n in (_PARTITION, _BUCKET, _ROWS))
        for partition, bucket, count, start, end in zip(*names, starts, kept.tolist(), strict=True):
            self.files.setdefault(partition, []).append((bucket, hashes[start:end], count))
        self.rows_read += len(data) // 4

    def hits(self, partition: bytes, columns: Sequence[Hashes], *, threads: int) -> list[FoundHashes]:
        """Return what came of a partition, by bucket ascending."""
        return self.files.get(partition, [])


def _joined(sent: pa.Array) -> tuple[bytes, NDArray[np.int64]]:
    """Return the concatenated hashes of some files, and the end of each file in them: int64[files]."""
    _, offsets, data = sent.buffers()
    at = np.frombuffer(offsets, np.int64)[sent.offset : sent.offset + len(sent) + 1]
    first, last = int(at[0]), int(at[-1])
    return data.slice(first, last - first).to_pybytes() if last > first else b"", (at[1:] - first) // 4
