"""Building a key state in tasks: files are read by some, shards written by those that own them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.key_index.locations import LiveFile
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.key_index.port import IndexContext, TagTasks
from lakeidx.key_index.state.entries import Entries, with_prefix
from lakeidx.key_index.state.key_state import KeyState
from lakeidx.key_index.state.load import EntryBuffer, LoadUnit, StateLoader
from lakeidx.key_index.state.run_files import RunFiles
from lakeidx.key_index.state.shard_runs import StoredShard, StoredShards, owners_of
from lakeidx.tasks.routed_rows import Block, RoutedRows

_HASH, _KEY, _PARTITION, _BUCKET = (f"lakeidx.{name}" for name in ("hash", "key", "partition", "bucket"))


@dataclass(frozen=True, slots=True, eq=False)
class _LoadTasks:
    """What the tasks do; pickles, and holds nothing that grows with files or rows.

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
        n = len(loaded.alive)
        if not n:
            return
        partition = np.full(n, self.partitions[loaded.partition], np.int32)
        keys = loaded.alive.rows if self.loader.is_global else with_prefix(loaded.alive.rows, partition)
        columns = {
            _HASH: loaded.alive.hashes,
            _KEY: keys.to_arrow(),
            _PARTITION: partition,
            _BUCKET: np.full(n, loaded.bucket, np.int32),
        }
        yield RoutedRows(number, pa.table(columns), owners_of(loaded.alive.hashes, self.bits, self.count))

    def combine(self, _task: int, blocks: Iterator[Block]) -> StoredShards:
        """Reduce: write the shards of one task, within the loader's budget."""
        files = self.files.again()
        state = KeyState.empty(files, table_id="", scope="", is_global=self.loader.is_global, expected_rows=self.rows)
        state.start_load()
        buffer = EntryBuffer(self.loader, state)
        for block in blocks:
            rows = block.rows.combine_chunks()
            hashes, partition, bucket = (rows.column(c).to_numpy() for c in (_HASH, _PARTITION, _BUCKET))
            written = np.full(len(hashes), self.loader.now, np.uint32)
            buffer.add(Entries(hashes, RowBytes.from_arrow(rows.column(_KEY)), partition, bucket, written))
        buffer.flush()
        state.finish_load()
        runs = [(shard, own) for shard, own in enumerate(state.shards) if own]
        # What was merged before anyone knew it.
        files.forget(files.written - {ref.file for _, own in runs for ref in own})
        stored = [StoredShard(shard, 0, own[0], None) for shard, own in runs]
        return StoredShards(stored, state.bucket_counts())


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
