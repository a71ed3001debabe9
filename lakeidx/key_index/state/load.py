"""Bringing a key state to a snapshot: loading a whole table, or what changed since the snapshot the state is at.

Only key columns are read, bucket by bucket. Non-global states hold every key that is in a bucket's files, deleted
or not: its next record must meet the delete. Global states hold keys that live, and where: in buckets with deletes,
the newest record of each key decides.

source   org.apache.paimon.crosspartition.IndexBootstrap, release 1.4.2;
         org.apache.hudi.sink.bootstrap.BootstrapOperator
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.key_index.keys.codes import KeyCodes
from lakeidx.key_index.keys.reader import KeyRows, record_ages
from lakeidx.key_index.keys.sets import KeySet
from lakeidx.key_index.locations import Bools, Int32s, Int64s, LiveFile
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.key_index.port import IndexContext
from lakeidx.key_index.state.entries import (
    GONE,
    Entries,
    Hashes,
    join_entries,
    partition_salt,
    state_hashes,
    state_keys,
    with_prefix,
)
from lakeidx.key_index.state.key_state import KeyState
from lakeidx.types import DataType

_DELETE_KINDS = (1, 3)
# Of an entry beside its key.
_ENTRY_BYTES = 32
#: Rows of files that are read at once, where they are more than there are threads.
_WAVE_ROWS = 1 << 16
# How often entries are in memory while they are written: as they came, joined, sorted, encoded.
_COPIES = 4


@dataclass(frozen=True, slots=True)
class Share:
    """The keys an assigner is responsible for, by their hash, as in Paimon's assigners.

    id, of   assigner `id` of `of`
    """

    id: int = 0
    of: int = 1

    def mine(self, hashes: Int32s) -> Bools:
        """Return bool[n]: abs(hash % of) == id, with Java's remainder."""
        mine: Bools = np.abs(np.fmod(hashes, np.int32(self.of))) == self.id
        return mine


@dataclass(frozen=True, slots=True, eq=False)
class LoadUnit:
    """Files to be read together; `whole` = all of a bucket's, so that newest records can be recognised."""

    files: tuple[LiveFile, ...]
    whole: bool

    @property
    def rows(self) -> int:
        """Rows of the files."""
        return sum(f.meta.row_count for f in self.files)


@dataclass(frozen=True, slots=True, eq=False)
class LoadedKeys:
    """Keys, and the hash that the state keeps each under."""

    hashes: Hashes
    rows: RowBytes

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, order: Int64s) -> LoadedKeys:
        """Take some, in this order."""
        return LoadedKeys(self.hashes[order], self.rows.take(order))


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """Keys of one bucket: those that live in it, and those that are deleted there."""

    partition: bytes
    bucket: int
    alive: LoadedKeys
    dead: LoadedKeys
    metrics: IndexMetrics


@dataclass(frozen=True, slots=True, eq=False)
class CatchUp:
    """What brings a state to a later snapshot: what is read, and (partition number, bucket) whose keys are forgotten else."""

    units: list[LoadUnit]
    lost: set[tuple[int, int]]

    @property
    def rows(self) -> int:
        """Rows of the files that are read."""
        return sum(unit.rows for unit in self.units)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLoader:
    """Reads keys into a state.

    is_global   see the module
    share       keys that this state is responsible for
    key_types   trimmed primary key
    now         epoch seconds, when entries count as written
    budget      bytes that keys may take from when they were read until they are written
    """

    is_global: bool
    share: Share
    key_types: tuple[DataType, ...]
    now: int
    budget: int

    def load(self, state: KeyState, files: Sequence[LiveFile], context: IndexContext, metrics: IndexMetrics) -> None:
        """Load all keys of some files into an empty state."""
        state.start_load()
        self._fill(state, self.units(files, context), context, metrics, fresh=True)
        state.finish_load()

    def units(self, files: Iterable[LiveFile], context: IndexContext) -> list[LoadUnit]:
        """Return which files are read together for an empty state: a bucket's, if deletes are among them."""
        units = []
        for group in _by_bucket(files).values():
            if self.is_global and context.deletes_hide and _has_deletes(group, context):
                units.append(LoadUnit(tuple(group), True))
            else:
                units += [LoadUnit((f,), False) for f in group]
        return units

    def plan_catch_up(
        self, state: KeyState, before: Sequence[LiveFile], files: Sequence[LiveFile], context: IndexContext
    ) -> CatchUp:
        """Plan how to bring a state from the files of its snapshot to those of the context's view.

        before  all files of the state's snapshot
        files   the view's files in the partitions that the state is of

        What happened in between must have been appends and compactions only. In a bucket that lost files a key may
        have been deleted and the delete compacted away, of which no file tells: all that lives there is read again,
        and what is not confirmed by that is forgotten.
        """
        known = {f.meta.file_name: (state.partition_number(f.partition), f.bucket) for f in before}
        exact = self.is_global and context.deletes_hide
        live = {f.meta.file_name for f in context.view.files(None)}
        lost = {place for name, place in known.items() if name not in live} if exact else set()
        units = []
        for (partition, bucket), group in _by_bucket(files).items():
            new = [f for f in group if f.meta.file_name not in known]
            shrunk = (state.partition_number(partition), bucket) in lost
            deletes = exact and bool(shrunk or new) and _has_deletes(group, context)
            # A new file may hold a key's older record (compaction) or its delete: ask all files of the bucket.
            if shrunk or deletes:
                units.append(LoadUnit(tuple(group), deletes))
            else:
                units += [LoadUnit((f,), False) for f in new]
        return CatchUp(units, lost)

    def catch_up(self, state: KeyState, planned: CatchUp, context: IndexContext, metrics: IndexMetrics) -> None:
        """Update a state by what was planned for it."""
        since = state.start_sweep() if planned.lost else ()
        self._fill(state, planned.units, context, metrics, fresh=False)
        if planned.lost:
            state.sweep(planned.lost, since)

    def _fill(
        self, state: KeyState, units: Sequence[LoadUnit], context: IndexContext, metrics: IndexMetrics, *, fresh: bool
    ) -> None:
        """Delete a key that moved: deleted in one bucket, it lives in another; whichever is read first, it is removed only from
        where it is deleted, and put where it lives.
        """
        buffer = EntryBuffer(self, state)
        # Few files at once, and memory follows them, not the table.
        for wave in _waves(units, context.pool.parallelism):
            for loaded in context.pool.map(lambda u: self.read(u, context), wave):
                metrics.add(loaded.metrics)
                number = state.partition_number(loaded.partition)
                if len(loaded.dead) and not fresh:
                    self.take_away(state, self.entries(loaded.dead, number, loaded.bucket))
                buffer.add(self.entries(loaded.alive, number, loaded.bucket))
        buffer.flush()

    def take_away(self, state: KeyState, dead: Entries) -> None:
        """Delete the deleted keys whose location is the bucket they are deleted in."""
        was = state.lookup(dead.hashes, dead.keys, dead.partition)
        here = np.flatnonzero((was[0] == dead.partition) & (was[1] == dead.bucket))
        none = np.zeros(len(dead), np.int32)
        dead = replace(dead, partition=none + np.int32(GONE), bucket=none)
        state.write(dead.take(here), was=(was[0][here], was[1][here]))

    def entries(self, keys: LoadedKeys, number: int, bucket: int) -> Entries:
        """Make entries of the keys of a bucket that are written now; `number` of its partition."""
        n = len(keys)
        partition = np.full(n, number, np.int32)
        rows = keys.rows if self.is_global else with_prefix(keys.rows, partition)
        written = np.full(n, self.now, np.uint32)
        return Entries(keys.hashes, rows, partition, np.full(n, bucket, np.int32), written)

    def read(self, unit: LoadUnit, context: IndexContext) -> Loaded:
        """Read the keys of a unit; those of other assigners are left out."""
        metrics = IndexMetrics()
        first = unit.files[0]
        salt = None if self.is_global else partition_salt(first.partition)
        parts: list[LoadedKeys] = []
        sequences, dead = [], []
        orders: list[tuple[pa.ChunkedArray, ...]] = []
        for file in unit.files:
            rows = context.reader.open(file).read(None, metrics, versions=unit.whole)
            keys, mine = self._mine(rows, salt)
            parts.append(keys)
            if unit.whole:
                assert rows.sequence is not None
                assert rows.kinds is not None
                sequences.append(rows.sequence[mine])
                dead.append(np.isin(rows.kinds[mine], _DELETE_KINDS))
                orders.append(tuple(column.take(pa.array(mine)) for column in rows.order))
        keys = _join(parts)
        if not unit.whole:
            none = LoadedKeys(np.zeros(0, np.uint64), RowBytes.empty())
            return Loaded(first.partition, first.bucket, keys, none, metrics)
        order = [pa.chunked_array([c for column in same for c in column.chunks]) for same in zip(*orders, strict=True)]
        ages = record_ages(order, np.concatenate(sequences), descending=context.descending)
        newest = _newest(keys.rows, ages)
        gone = np.concatenate(dead)[newest]
        return Loaded(first.partition, first.bucket, keys.take(newest[~gone]), keys.take(newest[gone]), metrics)

    def _mine(self, rows: KeyRows, salt: int | None) -> tuple[LoadedKeys, Int64s]:
        """Return the keys of a file that this state is responsible for, and their rows."""
        raw = state_keys(rows.codes)
        hashes = hash_columns(rows.keys.columns, self.key_types)
        salts = None if salt is None else np.full(len(raw), salt, np.uint32)
        keys, mine = LoadedKeys(state_hashes(hashes, raw, salts), raw), np.arange(len(raw))
        if self.share.of > 1:
            mine = np.flatnonzero(self.share.mine(hashes))
            keys = keys.take(mine)
        return keys, mine


class EntryBuffer:
    """Gathers entries, so that the state gets few large runs."""

    def __init__(self, loader: StateLoader, state: KeyState) -> None:
        self._loader, self._state = loader, state
        self._parts: list[Entries] = []
        self._bytes = 0

    def add(self, entries: Entries) -> None:
        """Add entries, and write the buffer when it is large enough."""
        if len(entries):
            self._parts.append(entries)
            self._bytes += _COPIES * (entries.keys.nbytes + _ENTRY_BYTES * len(entries))
        if self._bytes > self._loader.budget:
            self.flush()

    def flush(self) -> None:
        """Write what has come."""
        parts, self._parts, self._bytes = self._parts, [], 0
        if parts:
            joined = join_entries(parts)
            del parts
            self._state.write(joined)


def _newest(keys: RowBytes, ages: Int64s) -> Int64s:
    """Return the row of each distinct key's newest record."""
    from_keys = KeySet(KeyCodes(rows=keys)).first
    order = np.lexsort((ages, from_keys))
    group = from_keys[order]
    last = np.append(group[1:] != group[:-1], True) if len(group) else np.zeros(0, np.bool_)
    found: Int64s = order[last]
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


def _waves(units: Iterable[LoadUnit], width: int) -> Iterator[list[LoadUnit]]:
    """Group units that are read at once: `width` of them, or more where they are small."""
    wave: list[LoadUnit] = []
    rows = 0
    for unit in units:
        wave.append(unit)
        rows += unit.rows
        if len(wave) >= width and rows >= _WAVE_ROWS:
            yield wave
            wave, rows = [], 0
    if wave:
        yield wave


def _join(parts: Sequence[LoadedKeys]) -> LoadedKeys:
    if len(parts) == 1:
        return parts[0]
    hashes = np.concatenate([np.zeros(0, np.uint64), *(p.hashes for p in parts)])
    return LoadedKeys(hashes, RowBytes.concat([p.rows for p in parts]))
