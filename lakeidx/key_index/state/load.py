"""Bringing a key state to a snapshot: loading a whole table, or what changed since the snapshot the state is at.

Only key columns are read, bucket by bucket. Non-global states hold every key that is in a bucket's files, deleted
or not: its next record must meet the delete. Global states hold keys that live, and where: in buckets with deletes,
the newest record of each key decides.

source   org.apache.paimon.crosspartition.IndexBootstrap, release 1.4.2;
         org.apache.hudi.sink.bootstrap.BootstrapOperator
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

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
    partition_salt,
    state_hashes,
    state_keys,
    take_rows,
    with_prefix,
)
from lakeidx.key_index.state.key_state import KeyState
from lakeidx.types import DataType

_DELETE_KINDS = (1, 3)
# Of an entry beside its key: its columns, twice while they are sorted.
_ENTRY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Share:
    """Which keys an assigner is responsible for: those whose hash says so, as in Paimon's assigners.

    id, of   assigner `id` of `of`
    """

    id: int = 0
    of: int = 1

    def mine(self, hashes: Int32s) -> Bools:
        """Return bool[n]: abs(hash % of) == id, with Java's remainder."""
        mine: Bools = np.abs(np.fmod(hashes, np.int32(self.of))) == self.id
        return mine


@dataclass(frozen=True, slots=True, eq=False)
class _Unit:
    """Files to be read together; `whole` = all of a bucket's, so that newest records can be recognised."""

    files: tuple[LiveFile, ...]
    whole: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Keys:
    """Keys, and the hash that the state keeps each under."""

    hashes: Hashes
    rows: RowBytes

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, order: Int64s) -> _Keys:
        return _Keys(self.hashes[order], take_rows(self.rows, order))


@dataclass(frozen=True, slots=True, eq=False)
class _Loaded:
    """Keys of one bucket: those that live in it, and those that are deleted there."""

    partition: bytes
    bucket: int
    alive: _Keys
    dead: _Keys
    metrics: IndexMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLoader:
    """Reads keys into a state.

    is_global   see the module
    share       keys that this state is responsible for
    key_types   trimmed primary key
    now         epoch seconds, when entries count as written
    budget      bytes of keys to gather before they are written
    """

    is_global: bool
    share: Share
    key_types: tuple[DataType, ...]
    now: int
    budget: int

    def load(self, state: KeyState, files: Sequence[LiveFile], context: IndexContext, metrics: IndexMetrics) -> None:
        """Load all keys of some files into an empty state."""
        units = []
        for group in _by_bucket(files).values():
            if self.is_global and context.deletes_hide and _has_deletes(group):
                units.append(_Unit(tuple(group), True))
            else:
                units += [_Unit((f,), False) for f in group]
        state.start_load()
        self._fill(state, units, context, metrics, fresh=True)
        state.finish_load()

    def catch_up(
        self,
        state: KeyState,
        before: Sequence[LiveFile],
        files: Sequence[LiveFile],
        context: IndexContext,
        metrics: IndexMetrics,
    ) -> None:
        """Update a state from the files of the snapshot it is at to those of the context's view.

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
            # A new file may hold a key's older record (compaction) or its delete: ask all files of the bucket.
            if shrunk or (new and exact and _has_deletes(group)):
                units.append(_Unit(tuple(group), exact and _has_deletes(group)))
            else:
                units += [_Unit((f,), False) for f in new]
        since = state.start_sweep() if lost else ()
        self._fill(state, units, context, metrics, fresh=False)
        if lost:
            state.sweep(lost, since)

    def _fill(
        self, state: KeyState, units: Sequence[_Unit], context: IndexContext, metrics: IndexMetrics, *, fresh: bool
    ) -> None:
        """Delete a key that moved: deleted in one bucket, it lives in another; whichever is read first, it is removed only from
        where it is deleted, and put where it lives.
        """
        buffer = _Buffer(self, state)
        # As many files at once as there are threads: memory follows them, not the table.
        for wave in _waves(units, context.pool.parallelism):
            for loaded in context.pool.map(lambda u: self._read(u, context), wave):
                metrics.add(loaded.metrics)
                number = state.partition_number(loaded.partition)
                if len(loaded.dead) and not fresh:
                    self._take_away(state, loaded, number)
                buffer.add(loaded.alive, number, loaded.bucket)
        buffer.flush()

    def _take_away(self, state: KeyState, loaded: _Loaded, number: int) -> None:
        """Delete the deleted keys whose location is the bucket they are deleted in."""
        n = len(loaded.dead)
        keys = loaded.dead.rows if self.is_global else with_prefix(loaded.dead.rows, np.full(n, number, np.int32))
        dead = self.entries(_Keys(loaded.dead.hashes, keys), np.full(n, GONE, np.int32), np.zeros(n, np.int32))
        was = state.lookup(dead.hashes, keys, np.full(n, number, np.int32))
        here = np.flatnonzero((was[0] == number) & (was[1] == loaded.bucket))
        state.write(dead.take(here), was=(was[0][here], was[1][here]))

    def entries(self, keys: _Keys, partition: Int32s, bucket: Int32s) -> Entries:
        """Make entries that are written now."""
        return Entries(keys.hashes, keys.rows, partition, bucket, np.full(len(keys), self.now, np.uint32))

    def _read(self, unit: _Unit, context: IndexContext) -> _Loaded:
        metrics = IndexMetrics()
        first = unit.files[0]
        salt = None if self.is_global else partition_salt(first.partition)
        parts: list[_Keys] = []
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
            none = _Keys(np.zeros(0, np.uint64), RowBytes.empty())
            return _Loaded(first.partition, first.bucket, keys, none, metrics)
        order = [pa.chunked_array([c for column in same for c in column.chunks]) for same in zip(*orders, strict=True)]
        ages = record_ages(order, np.concatenate(sequences), descending=context.descending)
        newest = _newest(keys.rows, ages)
        gone = np.concatenate(dead)[newest]
        return _Loaded(first.partition, first.bucket, keys.take(newest[~gone]), keys.take(newest[gone]), metrics)

    def _mine(self, rows: KeyRows, salt: int | None) -> tuple[_Keys, Int64s]:
        """Return the keys of a file that this state is responsible for, and their rows."""
        raw = state_keys(rows.codes)
        hashes = hash_columns(rows.keys.columns, self.key_types)
        salts = None if salt is None else np.full(len(raw), salt, np.uint32)
        keys, mine = _Keys(state_hashes(hashes, raw, salts), raw), np.arange(len(raw))
        if self.share.of > 1:
            mine = np.flatnonzero(self.share.mine(hashes))
            keys = keys.take(mine)
        return keys, mine


class _Buffer:
    """Gathers keys, so that the state gets few large runs."""

    def __init__(self, loader: StateLoader, state: KeyState) -> None:
        self._loader, self._state = loader, state
        self._parts: list[tuple[_Keys, int, int]] = []
        self._bytes = 0

    def add(self, keys: _Keys, partition: int, bucket: int) -> None:
        if len(keys):
            self._parts.append((keys, partition, bucket))
            self._bytes += keys.rows.nbytes + _ENTRY_BYTES * len(keys)
        if self._bytes > self._loader.budget:
            self.flush()

    def flush(self) -> None:
        if self._parts:
            partition = np.concatenate([np.full(len(k), p, np.int32) for k, p, _ in self._parts])
            bucket = np.concatenate([np.full(len(k), b, np.int32) for k, _, b in self._parts])
            keys = _join([k for k, _, _ in self._parts])
            if not self._loader.is_global:
                keys = _Keys(keys.hashes, with_prefix(keys.rows, partition))
            self._parts, self._bytes = [], 0
            self._state.write(self._loader.entries(keys, partition, bucket))
        self._parts, self._bytes = [], 0


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


def _has_deletes(files: Iterable[LiveFile]) -> bool:
    return any(f.meta.delete_row_count != 0 for f in files)


def _waves(units: Sequence[_Unit], width: int) -> Iterator[list[_Unit]]:
    """Group units that are read at once."""
    rest = iter(units)
    while wave := list(islice(rest, width)):
        yield wave


def _join(parts: Sequence[_Keys]) -> _Keys:
    if len(parts) == 1:
        return parts[0]
    offsets = np.zeros(sum(len(p) for p in parts) + 1, np.int64)
    np.cumsum(np.concatenate([np.zeros(0, np.int64), *(p.rows.lengths for p in parts)]), out=offsets[1:])
    data = np.concatenate([np.zeros(0, np.uint8), *(p.rows.flat for p in parts)])
    return _Keys(np.concatenate([np.zeros(0, np.uint64), *(p.hashes for p in parts)]), RowBytes(data, offsets))
