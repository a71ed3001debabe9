"""Building a key state in tasks, or catching one up: files are read by some, shards written by those that own them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.key_index.locations import LiveFile
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.key_index.port import IndexContext, TagTasks
from lakeidx.key_index.state.entries import Entries
from lakeidx.key_index.state.key_state import KeyState
from lakeidx.key_index.state.load import CatchUp, EntryBuffer, LoadedKeys, LoadUnit, StateLoader
from lakeidx.key_index.state.manifest import StateManifest
from lakeidx.key_index.state.run_files import RunFiles, SegmentRef
from lakeidx.key_index.state.shard_runs import ShardStretch, StoredShard, StoredShards, owners_of, stretches_of
from lakeidx.tasks.routed_rows import Block, RoutedRows

_HASH, _KEY, _PARTITION, _BUCKET = (f"lakeidx.{name}" for name in ("hash", "key", "partition", "bucket"))


@dataclass(frozen=True, slots=True, eq=False)
class _LoadTasks:
    """The tasks that build a state; pickles, and its size does not grow with files or rows.

    partitions   number of each partition
    bits         log2 of the number of shards; `rows`: about so many keys are to come
    """

    loader: StateLoader
    tasks: TagTasks
    files: RunFiles
    partitions: Mapping[bytes, int]
    bits: int
    rows: int
    count: int

    def split(self, item: tuple[int, LoadUnit]) -> Iterator[RoutedRows]:
        """Map: read the keys of a file, or of a bucket."""
        number, unit = item
        loaded = self.loader.read(unit, self.tasks.context())
        partition = self.partitions[loaded.partition]
        yield from _routed(self.loader, number, loaded.alive, (partition, loaded.bucket), (self.bits, self.count))

    def combine(self, _task: int, blocks: Iterator[Block]) -> StoredShards:
        """Reduce: write the shards of one task, within the loader's budget."""
        files = self.files.again()
        state = KeyState.empty(files, table_id="", scope="", is_global=self.loader.is_global, expected_rows=self.rows)
        state.start_load()
        buffer = EntryBuffer(self.loader, state)
        for block in blocks:
            buffer.add(_entries(self.loader, block))
        buffer.flush()
        state.finish_load()
        runs = [(shard, own) for shard, own in enumerate(state.shards) if own]
        # What was merged before anyone knew it.
        files.forget(files.written - {ref.file for _, own in runs for ref in own})
        stored = [StoredShard(shard, 0, own[0], None) for shard, own in runs]
        return StoredShards(stored, state.bucket_counts())


def _routed(
    loader: StateLoader, order: int, keys: LoadedKeys, place: tuple[int, int], shards: tuple[int, int]
) -> Iterator[RoutedRows]:
    """Yield the keys of a bucket for the tasks that own their shards.

    place    partition number and bucket
    shards   log2 of their number, and of how many tasks
    """
    if not len(keys):
        return
    made = loader.entries(keys, *place)
    columns = {_HASH: made.hashes, _KEY: made.keys.to_arrow(), _PARTITION: made.partition, _BUCKET: made.bucket}
    yield RoutedRows(order, pa.table(columns), owners_of(keys.hashes, *shards))


def _entries(loader: StateLoader, block: Block) -> Entries:
    rows = block.rows.combine_chunks()
    hashes, partition, bucket = (rows.column(c).to_numpy() for c in (_HASH, _PARTITION, _BUCKET))
    written = np.full(len(hashes), loader.now, np.uint32)
    return Entries(hashes, RowBytes.from_arrow(rows.column(_KEY)), partition, bucket, written)


@dataclass(frozen=True, slots=True, eq=False)
class _CatchUpTasks:
    """The tasks that catch a state up; pickles, and its size does not grow with files or rows.

    partitions   by number
    bits         log2 of the number of shards; `count`: of tasks
    lost         see `CatchUp`
    """

    loader: StateLoader
    tasks: TagTasks
    files: RunFiles
    partitions: tuple[bytes, ...]
    bits: int
    count: int
    lost: frozenset[tuple[int, int]]

    def split(self, item: tuple[int, LoadUnit]) -> Iterator[RoutedRows]:
        """Map: read the keys of a file, or of a bucket; those that are deleted there come first, with an even order."""
        number, unit = item
        loaded = self.loader.read(unit, self.tasks.context())
        place, shards = (self.partitions.index(loaded.partition), loaded.bucket), (self.bits, self.count)
        for order, keys in ((2 * number, loaded.dead), (2 * number + 1, loaded.alive)):
            yield from _routed(self.loader, order, keys, place, shards)

    def combine(self, share: ShardStretch, blocks: Iterator[Block]) -> StoredShards:
        """Reduce: update the shards of one task."""
        files = self.files.again()
        state = self._state(files, share)
        since = state.start_sweep() if self.lost else ()
        buffer = EntryBuffer(self.loader, state)
        for block in blocks:
            found = _entries(self.loader, block)
            if block.order % 2:
                buffer.add(found)
            else:
                self.loader.take_away(state, found)
        buffer.flush()
        if self.lost:
            state.sweep(self.lost, since)
        stored = _rewritten(share, state)
        # What was merged before anyone knew it.
        files.forget(files.written - {s.ref.file for s in stored if s.ref is not None})
        return StoredShards(stored, state.moved)

    def _state(self, files: RunFiles, share: ShardStretch) -> KeyState:
        """Return the state as if there were only the shards of a task."""
        shards: list[tuple[SegmentRef, ...]] = [()] * (1 << self.bits)
        shards[share.first : share.first + len(share.runs)] = share.runs
        names = tuple(p.hex() for p in self.partitions)
        made = StateManifest(table_id="", scope="", bits=self.bits, shards=tuple(shards), partitions=names)
        return KeyState(files, made, is_global=self.loader.is_global)


def _rewritten(share: ShardStretch, state: KeyState) -> list[StoredShard]:
    """Return the result for the shards of a task: the old segments that stay, and the new one after them."""
    out = []
    for shard, old in enumerate(share.runs, share.first):
        new = state.shards[shard]
        kept = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        out += [StoredShard(shard, kept + i, ref, None) for i, ref in enumerate(new[kept:])]
        if len(new) == kept < len(old):
            out.append(StoredShard(shard, kept, None, None))
    return out


def catch_up_in_tasks(
    loader: StateLoader, state: KeyState, planned: CatchUp, tasks: TagTasks, metrics: IndexMetrics
) -> None:
    """Update a state by what was planned for it; see `StateLoader.catch_up`."""
    # Tasks own whole shards, and none is to be split afterwards.
    state.make_room(planned.rows, tasks.runner, label=tasks.label)
    count = min(1 << state.bits, max(1, tasks.runner.parallelism))
    lost = frozenset(planned.lost)
    work = _CatchUpTasks(loader, tasks, state.files, state.partitions, state.bits, count, lost)
    stored = tasks.runner.shuffle(
        work.split,
        list(enumerate(planned.units)),
        work.combine,
        targets=stretches_of(state.shards, count),
        weights=[max(1, (planned.rows + (state.rows if lost else 0)) // count)] * count,
        label=tasks.label,
    )
    state.adopt(stored, whole=bool(lost))
    metrics.rows_read += planned.rows


def load_in_tasks(
    loader: StateLoader,
    state: KeyState,
    files: Sequence[LiveFile],
    context: IndexContext,
    tasks: TagTasks,
    metrics: IndexMetrics,
) -> None:
    """Load all keys of some files into an empty state; see `StateLoader.load`."""
    units = loader.units(files, context)
    if not units:
        return
    for unit in units:
        state.partition_number(unit.files[0].partition)
    rows = sum(f.meta.row_count for f in files)
    count = min(1 << state.bits, max(1, tasks.runner.parallelism))
    partitions = {p: i for i, p in enumerate(state.partitions)}
    work = _LoadTasks(loader, tasks, state.files, partitions, state.bits, rows, count)
    stored = tasks.runner.shuffle(
        work.split,
        list(enumerate(units)),
        work.combine,
        targets=range(count),
        weights=[max(1, rows // count)] * count,
        label=tasks.label,
    )
    state.adopt(stored)
    metrics.rows_read += sum(n for part in stored for n in part.moved.values())
