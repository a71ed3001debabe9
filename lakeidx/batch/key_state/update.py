"""Writing locations into a key state: rows on their way to its buckets, and the task that writes one bucket.

Rows travel as the state's columns with three more: the row kind, and where the key was before. Rows of a load have none of these:
their keys are new. Those of a catch-up do not know where their keys were, and it is looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lakeidx.batch.artifacts import Target
from lakeidx.batch.key_state.locate import count_places, locate_keys, places_of, state_buckets
from lakeidx.batch.key_state.state_table import Counts, KeyState
from lakeidx.batch.stages.index_write import WriteContext
from lakeidx.format.data_file import EMPTY_ROW
from lakeidx.format.schema.table_schema import VALUE_KIND
from lakeidx.key_index.keys.codes import key_codes
from lakeidx.key_index.keys.sets import KeySet
from lakeidx.key_index.locations import Bools, CommitInfo, Int32s, Int64s, KeyBatch
from lakeidx.table.commit.changes import TableChanges
from lakeidx.tasks.routed_rows import Block

INSERT, DELETE = 0, 3
_WAS_PARTITION, _WAS_BUCKET = "lakeidx.was_partition", "lakeidx.was_bucket"


@dataclass(frozen=True, slots=True)
class StoredBucket:
    """Files that a task wrote, and by how many keys it changed each (partition, bucket)."""

    changes: TableChanges
    moved: Counts = field(default_factory=dict)


def targets_of(state: KeyState, rows: int) -> list[Target]:
    """Return the buckets of a state as what tasks write; `rows` come to all of them."""
    top = state.view().max_sequence_numbers()
    each = rows // state.schema.bucket + 1
    empty = EMPTY_ROW.hex()
    return [
        Target(partition=empty, bucket=b, rows=each, first_sequence=top.get((EMPTY_ROW, b), -1) + 1)
        for b in range(state.schema.bucket)
    ]


def columns_of_keys(state: KeyState, batch: KeyBatch) -> pa.Table:
    """Return what the state finds the keys of a batch by."""
    names = state.schema.field_names[:-3]
    columns = dict(zip(names, batch.keys.columns, strict=True))
    if not state.is_global:
        columns[state.place_columns[0]] = _texts(batch.partitions, batch.partition, plain=True)
    return pa.table(columns)


def state_rows(
    state: KeyState, keys: Sequence[pa.ChunkedArray], partition: pa.Array, bucket: Int32s, now: int
) -> dict[str, pa.Array | pa.ChunkedArray]:
    """Return rows of the state by column."""
    columns = [*keys, partition, pa.array(bucket), pa.array(np.full(len(bucket), now, np.int64))]
    return dict(zip(state.schema.field_names, columns, strict=True))


def partition_texts(state: KeyState, partitions: Sequence[bytes], codes: Int32s) -> pa.Array:
    """Return the partition column of rows of the state; texts where it is part of the key, else a dictionary."""
    return _texts(partitions, codes, plain=not state.is_global)


def _texts(partitions: Sequence[bytes], codes: Int32s, *, plain: bool) -> pa.Array:
    made = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array([p.hex() for p in partitions], pa.string()))
    return made.cast(pa.string()) if plain else made


@dataclass(frozen=True, slots=True, eq=False)
class StateUpdate:
    """Writer of locations into a state, in tasks; pickles, and its size does not grow with rows.

    now             epoch seconds, when rows count as written
    expire_before   see `locate_keys`
    deletes_hide    see `IndexContext`
    refresh         write keys, too, that stay where they are
    counts          count the keys that each place gets
    budget          bytes of rows that a task holds before it writes a file; of a load
    """

    state: KeyState
    now: int
    expire_before: int = 0
    deletes_hide: bool = True
    refresh: bool = False
    budget: int = 512 << 20

    def route(self, commit: CommitInfo) -> tuple[pa.Table, Int32s]:
        """Return the locations of some rows of a batch, and the state's bucket of each."""
        batch, was, state = commit.batch, commit.was, self.state
        assert batch is not None
        assert was is not None
        assert commit.partition is not None
        assert commit.bucket is not None
        kinds = np.full(len(batch), INSERT, np.int8)
        if state.is_global and self.deletes_hide and commit.deleted is not None:
            kinds[commit.deleted] = DELETE
        partition = partition_texts(state, commit.partitions, commit.partition)
        columns = state_rows(state, batch.keys.columns, partition, commit.bucket.astype(np.int32), self.now)
        columns[VALUE_KIND] = pa.array(kinds)
        columns[_WAS_PARTITION] = _texts(was.partitions, was.partition.astype(np.int32), plain=False)
        columns[_WAS_BUCKET] = pa.array(was.bucket.astype(np.int32))
        rows = pa.table(columns)
        return rows, state_buckets(state, rows)

    def store(self, share: Target, rows: Iterable[pa.Table]) -> StoredBucket:
        """Write a bucket of the state with the rows that came to it, in the order of the batch.

        errors   NotFoundError, CorruptFileError from a state that is read
        """
        tables = list(rows)
        if not tables:
            return StoredBucket(TableChanges())
        joined = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
        joined = self._newest(self._looked_up(joined))
        numbers: dict[str, int] = {}
        partition, bucket, _ = self.state.place_columns
        places = places_of(joined, partition, bucket, numbers)
        before = places_of(joined, _WAS_PARTITION, _WAS_BUCKET, numbers)
        deleted = joined.column(VALUE_KIND).to_numpy() == DELETE
        changed = self._changed(before, places, deleted)
        joined, before, places, deleted = (
            joined.filter(pa.array(changed)),
            before[changed],
            places[changed],
            deleted[changed],
        )
        moved: dict[tuple[bytes, int], int] = {}
        count_places(moved, before[before >= 0], numbers, -1)
        count_places(moved, places[~deleted], numbers)
        return StoredBucket(self.write(share, [joined]), moved)

    def write(self, share: Target, rows: Iterable[pa.Table]) -> TableChanges:
        """Write a bucket of the state with rows as they come; of a key the last one counts."""
        names = [*self.state.schema.field_names, VALUE_KIND]
        context = WriteContext(
            self.state.metadata, self.state.metadata.store, self.state.schema, budget_bytes=self.budget
        )
        blocks = (Block(0, i, t.select([n for n in names if n in t.column_names])) for i, t in enumerate(rows))
        return context.combine(share, (b for b in blocks if b.rows.num_rows)).changes

    def _newest(self, rows: pa.Table) -> pa.Table:
        """Return the last row of each key."""
        names = self.state.schema.primary_keys
        first = KeySet(key_codes([rows.column(n) for n in names], self.state.schema.key_types)).first
        last = np.empty(len(first), np.int64)
        # Of the rows of a key the last one stays.
        last[first] = np.arange(len(first))
        heads = np.flatnonzero(first == np.arange(len(first)))
        return rows if len(heads) == len(first) else rows.take(pa.array(np.sort(last[heads])))

    def _looked_up(self, rows: pa.Table) -> pa.Table:
        """Add where keys were, if it is not known; a delete that is not of that place goes, as the key lives elsewhere."""
        if _WAS_BUCKET in rows.column_names:
            return rows
        state = self.state
        partition, bucket, _ = state.place_columns
        found = locate_keys(state, rows.select(list(state.schema.primary_keys)), expire_before=self.expire_before)
        rows = rows.append_column(_WAS_PARTITION, _texts(found.partitions or (b"",), found.partition, plain=False))
        rows = rows.append_column(_WAS_BUCKET, pa.array(found.bucket))
        numbers: dict[str, int] = {}
        here = places_of(rows, partition, bucket, numbers) == places_of(rows, _WAS_PARTITION, _WAS_BUCKET, numbers)
        wanted = here | (rows.column(VALUE_KIND).to_numpy() != DELETE)
        return rows.filter(pa.array(wanted))

    def _changed(self, before: Int64s, places: Int64s, deleted: Bools) -> Bools:
        """Return the rows that say something new."""
        moved = np.where(deleted, before >= 0, before != places)
        return moved | ~deleted if self.refresh else moved


def touched_by(stored: Iterable[StoredBucket]) -> set[int]:
    """Return the buckets that were written."""
    return {bucket for part in stored for _, bucket in part.changes.buckets()}
