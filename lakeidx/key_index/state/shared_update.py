"""Putting a batch's locations into the key state: in one process, or by tasks that own shards.

A map task makes entries of the keys of some rows and sends each to the task that owns its shard. That one reads the newest runs of
its shards, merges them with what came, writes the result into a file of its own, and answers where its segments are: the process
that commits gets nothing that grows with rows, and puts the manifest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.key_index.locations import CommitInfo, KeyBatch
from lakeidx.key_index.state.entries import (
    GONE,
    Entries,
    Hashes,
    Int32s,
    newest_rows,
    partition_salt,
    state_hashes,
    state_keys,
    with_prefix,
)
from lakeidx.key_index.state.run_files import RunFiles
from lakeidx.key_index.state.shard_runs import (
    Rewritten,
    ShardStretch,
    ShardWriter,
    StoredShards,
    count_moves,
    edges_of,
    owners_of,
    store_shards,
)

_HASH, _KEY, _PARTITION, _BUCKET, _WAS_PARTITION, _WAS_BUCKET = (
    f"lakeidx.{name}" for name in ("hash", "key", "partition", "bucket", "was_partition", "was_bucket")
)


def keys_of(batch: KeyBatch, own: Int32s, *, is_global: bool) -> tuple[Hashes, RowBytes]:
    """Return the hash that the state keeps each key of a batch under, and the keys.

    own   int32[n] partition number of each row
    """
    keys = state_keys(batch.codes)
    if is_global:
        return state_hashes(batch.hashes, keys), keys
    salts = np.array([partition_salt(p) for p in batch.partitions], np.uint32)[batch.partition]
    return state_hashes(batch.hashes, keys, salts), with_prefix(keys, own)


@dataclass(frozen=True, slots=True, eq=False)
class StateUpdate:
    """Update of a state by a batch; pickles, and its size does not grow with rows or shards.

    partitions      number of each partition; those of the batch are among them
    bits            log2 of the number of shards
    now             epoch seconds, when entries count as written
    deletes_hide    see `IndexContext`
    changes_only    leave out keys that stay where they are
    tasks           how many own shards: a stretch of them each
    """

    files: RunFiles
    partitions: Mapping[bytes, int]
    bits: int
    state_rows: int
    is_global: bool
    now: int
    expire_before: int
    deletes_hide: bool
    changes_only: bool
    tasks: int = 1

    def entries_of(self, commit: CommitInfo) -> tuple[Entries, tuple[Int32s, Int32s] | None]:
        """Return the last row of each key as an entry, ascending by hash, and where each was before (partition number, bucket).

        Over partitions also those of keys that stay where they are: which of them the state has itself, and which only look
        like one that it has, nobody knows (`lakeidx.key_index.state.lookup`).
        """
        batch, was = commit.batch, commit.was
        assert batch is not None
        assert commit.partition is not None
        assert commit.bucket is not None
        numbers = np.array([self.partitions[p] for p in commit.partitions], np.int32)
        partition = numbers[commit.partition]
        hashes, keys = keys_of(batch, partition, is_global=self.is_global)
        if self.is_global and commit.deleted is not None and self.deletes_hide:
            partition = np.where(commit.deleted, GONE, partition).astype(np.int32)
        now = np.full(len(batch), self.now, np.uint32)
        rows = newest_rows(hashes, keys)
        entries = Entries(hashes, keys, partition, commit.bucket.astype(np.int32), now).take(rows)
        if was is None:
            return entries, None
        known = np.array([self.partitions.get(p, GONE - 1) for p in was.partitions], np.int32)[was.partition]
        before = np.where(was.bucket < 0, GONE, known).astype(np.int32)[rows], was.bucket[rows]
        if self.changes_only:
            differ = np.flatnonzero((before[0] != entries.partition) | (before[1] != entries.bucket))
            entries, before = entries.take(differ), (before[0][differ], before[1][differ])
        return entries, before

    def route(self, commit: CommitInfo) -> tuple[pa.Table, Int32s]:
        """Return entries as rows for the tasks, and the task of each, int32[n]."""
        entries, before = self.entries_of(commit)
        assert before is not None
        columns = {
            _HASH: entries.hashes,
            _KEY: entries.keys.to_arrow(),
            _PARTITION: entries.partition,
            _BUCKET: entries.bucket,
            _WAS_PARTITION: before[0],
            _WAS_BUCKET: before[1],
        }
        return pa.table(columns), owners_of(entries.hashes, self.bits, self.tasks)

    def store(self, share: ShardStretch, rows: Iterable[pa.Table]) -> StoredShards:
        """Write the shards of one task with the rows that came to it, in the order of the batch.

        share    its shards
        errors   NotFoundError, CorruptFileError from segments that are read
        """
        tables = list(rows)
        if not tables:
            return StoredShards((), {})
        joined = pa.concat_tables(tables).combine_chunks()
        hashes, partition, bucket, *before = (
            joined.column(name).to_numpy() for name in (_HASH, _PARTITION, _BUCKET, _WAS_PARTITION, _WAS_BUCKET)
        )
        keys = RowBytes.from_arrow(joined.column(_KEY))
        last = newest_rows(hashes, keys)
        written = np.full(len(hashes), self.now, np.uint32)
        new = Entries(hashes, keys, partition, bucket, written).take(last)
        moved: dict[tuple[int, int], int] = {}
        count_moves(moved, (before[0][last], before[1][last]), (new.partition, new.bucket))
        writer = ShardWriter(self.files, self.bits, self.state_rows + len(new), self.expire_before)
        edges = edges_of(new.hashes, self.bits)

        def rewritten() -> Iterator[Rewritten]:
            for shard in np.flatnonzero(np.diff(edges)).tolist():
                yield writer.append(
                    shard, share.runs[shard - share.first], new.slice(int(edges[shard]), int(edges[shard + 1]))
                )

        return StoredShards(list(store_shards(self.files, rewritten())), moved)
