"""The key state: where every key of a table lives, in shards on the table's own store.

A shard has the keys whose hash begins with its number. Its entries lie in sorted segments (`segments`), newer ones over older ones;
a manifest says which segments are the state (`manifest`). Nothing is ever changed in place: a `KeyState` is what a manifest says,
and what was written since, which only the next manifest makes a part of the state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from lakeidx.codec.order.hash_order import hash_order
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.key_index.state.entries import GONE, Entries, Hashes, Int32s, newest_rows
from lakeidx.key_index.state.lookup import Asked, Lookup
from lakeidx.key_index.state.manifest import StateManifest
from lakeidx.key_index.state.run_files import RunFiles, SegmentRef
from lakeidx.key_index.state.segment_kernels import GONE_PLACE
from lakeidx.key_index.state.shard_runs import (
    Rewritten,
    ShardWriter,
    StoredShard,
    StoredShards,
    count_moves,
    edges_of,
    store_shards,
    stretches_of,
)
from lakeidx.tasks.limits import available_cores
from lakeidx.tasks.runner import LocalRunner, Runner

# A shard is made for so many keys, and split above twice as many: a thread that merges one holds it some five times.
SHARD_ROWS = 1 << 19
_MAX_BITS = 16
_READ_BYTES = 64 << 20
#: Tasks that split shards, for each that runs at a time.
_SPLIT_TASKS = 4


class KeyState:
    """A state as of one manifest, and what is written into it from then on; not for use by several threads at once.

    is_global   a key is in one partition at a time; else (partition, key) is what is looked for
    """

    def __init__(self, files: RunFiles, manifest: StateManifest, *, is_global: bool) -> None:
        self.files = files
        self.table_id, self.scope = manifest.table_id, manifest.scope
        self.snapshot_id, self.token = manifest.snapshot_id, manifest.token
        self.is_global = is_global
        self._partitions = {bytes.fromhex(p): i for i, p in enumerate(manifest.partitions)}
        self._bits = manifest.bits
        self._shards: list[tuple[SegmentRef, ...]] = list(manifest.shards)
        self._counts = dict(manifest.counts)
        # While a table is loaded, or a sweep is to come, runs stay apart.
        self._apart = False
        # Keys of the shards that have one segment, as far as that was written here.
        self._exact: dict[int, Mapping[tuple[int, int], int]] = {}

    @classmethod
    def empty(cls, files: RunFiles, *, table_id: str, scope: str, is_global: bool, expected_rows: int = 0) -> KeyState:
        """Make a state without keys.

        expected_rows   how many are to come: decides the number of shards
        """
        bits = min(_MAX_BITS, max(0, (expected_rows - 1) // SHARD_ROWS).bit_length())
        shards: tuple[tuple[SegmentRef, ...], ...] = ((),) * (1 << bits)
        made = StateManifest(table_id=table_id, scope=scope, bits=bits, shards=shards)
        return cls(files, made, is_global=is_global)

    def manifest(self, snapshot_id: int | None, token: str | None) -> StateManifest:
        """Describe the state as that of a snapshot."""
        return StateManifest(
            table_id=self.table_id,
            scope=self.scope,
            snapshot_id=snapshot_id,
            token=token,
            partitions=tuple(p.hex() for p in self._partitions),
            bits=self._bits,
            shards=tuple(self._shards),
            counts=dict(self._counts),
        )

    @property
    def rows(self) -> int:
        """Entries of all segments, an upper bound of the keys."""
        return sum(ref.entries for runs in self._shards for ref in runs)

    @property
    def bits(self) -> int:
        """Log2 of the number of shards."""
        return self._bits

    @property
    def shards(self) -> tuple[tuple[SegmentRef, ...], ...]:
        """Segments of each shard, older ones first."""
        return tuple(self._shards)

    @property
    def moved(self) -> dict[tuple[int, int], int]:
        """Keys per (partition number, bucket), of a state of some shards that began without: less those that left."""
        return dict(self._counts)

    @property
    def partitions(self) -> tuple[bytes, ...]:
        """Manifest bytes of each partition, by number."""
        return tuple(self._partitions)

    def partition_number(self, partition: bytes) -> int:
        """Return the number of a partition, a new one if need be."""
        return self._partitions.setdefault(partition, len(self._partitions))

    def known_number(self, partition: bytes) -> int:
        """Return the number of a partition; one that no partition has when the state does not know it."""
        return self._partitions.get(partition, GONE - 1)

    # -- reading -------------------------------------------------------------------------------------------------------

    def lookup(self, hashes: Hashes, keys: RowBytes, own: Int32s, *, expire_before: int = 0) -> tuple[Int32s, Int32s]:
        """Look up the locations of keys.

        hashes         uint64[n], see `state_hashes`
        keys           n keys
        own            int32[n] number of the partition that each row is of: see `lakeidx.key_index.state.lookup`
        expire_before  epoch seconds: entries written before count as gone
        returns        int32[n] partition numbers (GONE = nowhere), int32[n] buckets
        errors         NotFoundError, CorruptFileError when files of the state are gone or damaged
        """
        order = hash_order(hashes)
        lookup = Lookup(
            self.files,
            hashes[order],
            keys,
            order,
            own[order].astype(np.int64),
            not self.is_global,
            expire_before,
        )
        place = np.full(len(keys), GONE_PLACE, np.int64)
        for wave in self._waves(lookup.hashes):
            lookup.locate(wave, place)
        out = np.empty(len(keys), np.int64)
        out[order] = place
        partition, bucket = (out >> 32).astype(np.int32), out.astype(np.int32)
        bucket[partition == GONE] = -1
        return partition, bucket

    def bucket_counts(self, *, expire_before: int = 0) -> dict[tuple[int, int], int]:
        """Return the keys per (partition number, bucket).

        expire_before  when not 0, all entries are read
        """
        if not expire_before:
            return {place: n for place, n in self._counts.items() if n > 0}
        writer = self._writer(expire_before)
        counts: dict[tuple[int, int], int] = {}
        for shard, runs in enumerate(self._shards):
            _add(counts, writer.merge(shard, runs).counts or {})
        return counts

    # -- writing -------------------------------------------------------------------------------------------------------

    def write(self, entries: Entries, *, was: tuple[Int32s, Int32s] | None = None, expire_before: int = 0) -> None:
        """Set the locations of keys.

        entries   in any order; of equal keys the last counts; partition GONE takes a key away
        was       int32[n] partition number (GONE = nowhere) and int32[n] bucket of each key before; None = looked up
        """
        if not len(entries):
            return
        entries_rows = newest_rows(entries.hashes, entries.keys)
        new = entries.take(entries_rows)
        if not self._apart:
            if was is None:
                was = self.lookup(new.hashes, new.keys, new.partition, expire_before=expire_before)
            else:
                was = was[0][entries_rows], was[1][entries_rows]
            count_moves(self._counts, was, (new.partition, new.bucket))
        edges = edges_of(new.hashes, self._bits)
        touched = [s for s in range(len(self._shards)) if edges[s] < edges[s + 1]]
        writer = self._writer(expire_before, more=len(new))
        merge = not self._apart
        self._put(
            self._each(
                lambda s: [writer.append(s, self._shards[s], new.slice(int(edges[s]), int(edges[s + 1])), merge=merge)],
                touched,
            )
        )
        if merge:
            self._grow(expire_before)

    def adopt(self, parts: Iterable[StoredShards], *, expire_before: int = 0, whole: bool = False) -> None:
        """Adopt shards that tasks have written (`lakeidx.key_index.state.shared_update`).

        whole   all shards were rewritten, and what they say came to each place is what is there
        """
        if whole:
            self._counts = {}
        for part in parts:
            for stored in part.shards:
                self._shards[stored.shard] = _behind(self._shards[stored.shard][: stored.kept], stored.ref)
                self._exact.pop(stored.shard, None)
                if stored.ref is not None:
                    self.files.written.add(stored.ref.file)
            _add(self._counts, part.moved)
        self._grow(expire_before)

    def make_room(self, rows: int, runner: Runner, *, label: str, expire_before: int = 0) -> None:
        """Double the number of shards until none is too large with so many more entries; shards are split by tasks."""
        while self.rows + rows > (2 * SHARD_ROWS) << self._bits and self._bits < _MAX_BITS:
            old, bits = self._shards, self._bits + 1
            writer = self._writer(expire_before, bits=bits, more=rows)
            shares = stretches_of(old, min(len(old), _SPLIT_TASKS * runner.parallelism)) if any(old) else []
            stored = runner.map(writer.split_stored, shares, label=label)
            self._shards, self._bits, self._exact = [()] * (2 * len(old)), bits, {}
            self._take_over(chain.from_iterable(stored))
            self._count()

    def start_load(self) -> None:
        """Write runs as they come until `finish_load`, which the state is not complete before."""
        self._apart = True

    def finish_load(self) -> None:
        """Merge the runs of each shard, and count the keys."""
        several = [s for s, runs in enumerate(self._shards) if len(runs) > 1]
        writer = self._writer(0)
        self._rewrite(lambda s: [writer.merge(s, self._shards[s])], several)
        self._apart = False
        self._grow(0)

    def start_sweep(self) -> tuple[int, ...]:
        """Keep runs apart from now on; returns what `sweep` has to know: how many segments each shard has."""
        self._apart = True
        return tuple(len(runs) for runs in self._shards)

    def sweep(self, places: Collection[tuple[int, int]], since: Sequence[int], *, expire_before: int = 0) -> None:
        """Remove keys at some locations that were not written again since `start_sweep` returned `since`.

        places   (partition number, bucket)
        cost     all shards are rewritten
        """
        writer = self._writer(expire_before)
        self._rewrite(
            lambda s: [writer.merge(s, self._shards[s], stale=places, older=since[s])], range(len(self._shards))
        )
        self._apart = False
        self._grow(expire_before)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _writer(self, expire_before: int, *, bits: int | None = None, more: int = 0) -> ShardWriter:
        return ShardWriter(self.files, self._bits if bits is None else bits, self.rows + more, expire_before)

    def _waves(self, ascending: Hashes) -> Iterator[list[Asked]]:
        """Group shards whose blocks are read at once: memory follows a bound, not the state."""
        edges = edges_of(ascending, self._bits)
        wave: list[Asked] = []
        size = 0
        for shard, runs in enumerate(self._shards):
            start, stop = int(edges[shard]), int(edges[shard + 1])
            if start == stop or not runs:
                continue
            size += sum(ref.blocks_bytes for ref in runs)
            if wave and size > _READ_BYTES:
                yield wave
                wave, size = [], sum(ref.blocks_bytes for ref in runs)
            wave.append(Asked(start, stop, runs[::-1]))
        if wave:
            yield wave

    def _each(self, work: Callable[[int], list[Rewritten]], shards: Sequence[int]) -> Iterator[Rewritten]:
        """Work on shards, as many at a time as there are processors."""
        runner = LocalRunner(available_cores())
        for at in range(0, len(shards), runner.parallelism):
            for done in runner.map(work, shards[at : at + runner.parallelism]):
                yield from done

    def _put(self, results: Iterable[Rewritten]) -> None:
        """Write new segments, and adopt them."""
        self._take_over(store_shards(self.files, results))

    def _take_over(self, written: Iterable[StoredShard]) -> None:
        for stored in written:
            self._shards[stored.shard] = _behind(self._shards[stored.shard][: stored.kept], stored.ref)
            if stored.ref is not None:
                # By tasks elsewhere, perhaps.
                self.files.written.add(stored.ref.file)
            if stored.counts is None:
                self._exact.pop(stored.shard, None)
            else:
                self._exact[stored.shard] = stored.counts

    def _rewrite(self, work: Callable[[int], list[Rewritten]], shards: Sequence[int]) -> None:
        """Replace each shard by the merge of all its segments; afterwards it has one, and keys are counted."""
        self._put(self._each(work, shards))
        self._count()

    def _count(self) -> None:
        """Count keys again; every shard has one segment."""
        self._counts = {}
        for counts in self._exact.values():
            _add(self._counts, counts)

    def _grow(self, expire_before: int) -> None:
        self.make_room(0, LocalRunner(available_cores()), label="key_state", expire_before=expire_before)


def _behind(runs: tuple[SegmentRef, ...], ref: SegmentRef | None) -> tuple[SegmentRef, ...]:
    return runs if ref is None else (*runs, ref)


def _add(counts: dict[tuple[int, int], int], more: Mapping[tuple[int, int], int]) -> None:
    for place, n in more.items():
        counts[place] = counts.get(place, 0) + n
