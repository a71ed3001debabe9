"""Bringing a key state to a snapshot: keys of a whole table, or of what came since the snapshot that the state is of.

Only key columns are read, bucket by bucket. States of single partitions hold every key that is in a bucket's files, deleted
or not: its next record must meet the delete. Global states hold keys that live, and where: in buckets with deletes,
the newest record of each key decides.

source   org.apache.paimon.crosspartition.IndexBootstrap, release 1.4.2;
         org.apache.hudi.sink.bootstrap.BootstrapOperator
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakeidx.batch.artifacts import Target
from lakeidx.batch.key_state.locate import add_counts, count_by_place, state_buckets
from lakeidx.batch.key_state.state_table import Counts
from lakeidx.batch.key_state.update import (
    DELETE,
    INSERT,
    StateUpdate,
    StoredBucket,
    partition_texts,
    state_rows,
    targets_of,
)
from lakeidx.format.manifest import FileKind
from lakeidx.format.schema.table_schema import VALUE_KIND
from lakeidx.key_index.keys.codes import key_codes
from lakeidx.key_index.keys.reader import KeyRows, record_ages
from lakeidx.key_index.keys.sets import KeySet
from lakeidx.key_index.locate import DELETE_KINDS
from lakeidx.key_index.locations import Int64s, LiveFile
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.key_index.port import IndexContext, TagTasks
from lakeidx.table.commit.changes import TableChanges, merge_changes
from lakeidx.tasks.routed_rows import Block, RoutedRows

#: Bytes that a key takes in a process from when it is read until it is written.
ROW_BYTES = 160


@dataclass(frozen=True, slots=True, eq=False)
class LoadUnit:
    """Files of one bucket to be read together; `whole` = all of a bucket's, so that newest records can be recognised."""

    files: tuple[LiveFile, ...]
    whole: bool

    @property
    def rows(self) -> int:
        """Rows of the files."""
        return sum(f.meta.row_count for f in self.files)


def plan_load(files: Iterable[LiveFile], context: IndexContext, *, is_global: bool) -> list[LoadUnit]:
    """Return which files are read together for an empty state: a bucket's, if deletes are among them."""
    units = []
    for group in _by_bucket(files).values():
        if is_global and context.deletes_hide and _has_deletes(group, context):
            units.append(LoadUnit(tuple(group), True))
        else:
            units += [LoadUnit((f,), False) for f in group]
    return units


def plan_catch_up(
    before: Sequence[LiveFile], files: Sequence[LiveFile], context: IndexContext, *, is_global: bool
) -> list[LoadUnit] | None:
    """Plan how to bring a state from the files of its snapshot to those of the context's view.

    before   all files of the state's snapshot
    files    the view's files in the partitions that the state is of
    returns  what is read; None where that does not tell: in a bucket that lost files a key may have been deleted and the
             delete compacted away, of which no file tells

    What happened in between must have been appends and compactions only.
    """
    known = {f.meta.file_name for f in before}
    exact = is_global and context.deletes_hide
    if exact and not known <= {f.meta.file_name for f in context.view.files(None)}:
        return None
    units = []
    for group in _by_bucket(files).values():
        new = [f for f in group if f.meta.file_name not in known]
        # A new file may hold a key's delete: ask all files of the bucket.
        if new and exact and _has_deletes(group, context):
            units.append(LoadUnit(tuple(group), True))
        else:
            units += [LoadUnit((f,), False) for f in new]
    return units


@dataclass(frozen=True, slots=True, eq=False)
class StateLoad:
    """The tasks that bring a state to a snapshot; pickles, and its size does not grow with files or rows.

    tasks    where; its context is of the snapshot
    fresh    the state is empty
    dead     order of the first key that is there: those that are deleted come before
    """

    update: StateUpdate
    tasks: TagTasks
    fresh: bool
    dead: int

    def split(self, item: tuple[int, LoadUnit]) -> Iterator[RoutedRows]:
        """Map: read the keys of a file, or of a bucket."""
        number, unit = item
        state, first = self.update.state, unit.files[0]
        for kind, keys in self._read(unit):
            if not keys.num_rows or (self.fresh and kind == DELETE):
                continue
            none = np.zeros(keys.num_rows, np.int32)
            partition = partition_texts(state, (first.partition,), none)
            columns = state_rows(state, keys.columns, partition, none + np.int32(first.bucket), self.update.now)
            if not self.fresh:
                columns[VALUE_KIND] = pa.array(np.full(keys.num_rows, kind, np.int8))
            rows = pa.table(columns)
            yield RoutedRows(number + (self.dead if kind == INSERT else 0), rows, state_buckets(state, rows))

    def combine(self, share: Target, blocks: Iterator[Block]) -> StoredBucket:
        """Reduce: write one bucket of the state."""
        rows = (b.rows for b in blocks)
        return StoredBucket(self.update.write(share, rows)) if self.fresh else self.update.store(share, rows)

    def count(self, changes: TableChanges) -> Counts:
        """Count the keys of a bucket that was written; map."""
        files = [e.file for e in changes.append if e.kind is FileKind.ADD]
        return count_by_place(self.update.state, changes.append[0].bucket, files)

    def _read(self, unit: LoadUnit) -> Iterator[tuple[int, pa.Table]]:
        """Read the keys of a unit: those that are deleted, and those that are there."""
        context = self.tasks.context()
        read = [context.reader.open(f).read(None, IndexMetrics(), versions=unit.whole) for f in unit.files]
        keys = pa.concat_tables([rows.keys for rows in read])
        if not unit.whole:
            yield INSERT, keys
            return
        newest = _newest(keys, read, context)
        gone = np.concatenate([np.isin(rows.kinds, DELETE_KINDS) for rows in read if rows.kinds is not None])[newest]
        yield DELETE, keys.take(pa.array(newest[gone]))
        yield INSERT, keys.take(pa.array(newest[~gone]))


def run_load(load: StateLoad, units: Sequence[LoadUnit], budget: int | None) -> list[StoredBucket]:
    """Read keys, and write the buckets of the state.

    budget   bytes that keys may take in this process; only for empty states. None: the tasks see to it
    """
    runner, label = load.tasks.runner, load.tasks.label
    targets = targets_of(load.update.state, sum(u.rows for u in units))
    stored: list[StoredBucket] = []
    for wave in _waves(list(enumerate(units)), budget):
        rows = sum(u.rows for _, u in wave)
        weights = [rows // len(targets) + 1] * len(targets)
        done = runner.shuffle(load, wave, targets=targets, weights=weights, label=label)
        tops = {e.bucket: e.file.max_sequence_number for part in done for e in part.changes.append}
        targets = [
            t.model_copy(update={"first_sequence": max(t.first_sequence, tops.get(t.bucket, -1) + 1)}) for t in targets
        ]
        stored += done
    return stored


def count_written(load: StateLoad, changes: TableChanges) -> Counts:
    """Count the keys per place of a state that was empty."""
    of_bucket: dict[int, list[TableChanges]] = {}
    for entry in changes.append:
        of_bucket.setdefault(entry.bucket, []).append(TableChanges(append=(entry,)))
    work = [merge_changes(parts) for parts in of_bucket.values()]
    return add_counts(load.tasks.runner.map(load.count, work, label=load.tasks.label))


def _waves(units: Sequence[tuple[int, LoadUnit]], budget: int | None) -> Iterator[list[tuple[int, LoadUnit]]]:
    wave: list[tuple[int, LoadUnit]] = []
    rows = 0
    for unit in units:
        if wave and budget is not None and (rows + unit[1].rows) * ROW_BYTES > budget:
            yield wave
            wave, rows = [], 0
        wave.append(unit)
        rows += unit[1].rows
    if wave:
        yield wave


def _newest(keys: pa.Table, read: Sequence[KeyRows], context: IndexContext) -> Int64s:
    """Return the row of each distinct key's newest record."""
    sequences = [rows.sequence for rows in read if rows.sequence is not None]
    order = [
        pa.chunked_array([c for column in same for c in column.chunks])
        for same in zip(*(rows.order for rows in read), strict=True)
    ]
    ages = record_ages(order, np.concatenate(sequences), descending=context.descending)
    first = KeySet(key_codes(keys.columns, context.reader.key_types)).first
    by_age = np.lexsort((ages, first))
    group = first[by_age]
    last = np.append(group[1:] != group[:-1], True) if len(group) else np.zeros(0, np.bool_)
    found: Int64s = by_age[last]
    return found


def _by_bucket(files: Iterable[LiveFile]) -> dict[tuple[bytes, int], list[LiveFile]]:
    out: dict[tuple[bytes, int], list[LiveFile]] = {}
    for file in files:
        out.setdefault((file.partition, file.bucket), []).append(file)
    return out


def _has_deletes(files: Sequence[LiveFile], context: IndexContext) -> bool:
    if any(f.meta.delete_row_count != 0 for f in files):
        return True
    doubtful = [f for f in files if f.meta.may_hold_deletes]
    return any(context.pool.map(lambda f: context.reader.open(f).holds_deletes(), doubtful))
