"""Operations on the segments of one shard, by its owner: a thread of this process, or a task elsewhere. All of it pickles.

A shard has few segments, each at least twice as large as all newer ones together, so that a key is written some log2(keys / batch)
times, and read from as many places.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lakeidx.key_index.state.entries import GONE, Entries, Hashes, Int32s, Ints, merge_runs
from lakeidx.key_index.state.run_files import RunFiles, SegmentRef
from lakeidx.key_index.state.segments import Segment, encode_segment

MAX_RUNS = 8
_FILE_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Rewritten:
    """What a shard becomes.

    kept      how many of its older segments stay
    segment   the new one behind them; None when nothing is left to be written
    counts    keys of each (partition number, bucket), when no older segment stays
    """

    shard: int
    kept: int
    segment: Segment | None
    counts: Mapping[tuple[int, int], int] | None


class StoredShard(NamedTuple):
    """A shard after an update: its first `kept` segments stay, `ref` follows them (None: nothing); `counts` as in `Rewritten`."""

    shard: int
    kept: int
    ref: SegmentRef | None
    counts: Mapping[tuple[int, int], int] | None


@dataclass(frozen=True, slots=True)
class StoredShards:
    """Shards that a task wrote.

    moved   how many keys came to each (partition number, bucket), less those that left
    """

    shards: Sequence[StoredShard]
    moved: Mapping[tuple[int, int], int]


class ShardStretch(NamedTuple):
    """Shards that a task owns: from number `first` on, the segments of each, older ones first."""

    first: int
    runs: tuple[tuple[SegmentRef, ...], ...]


@dataclass(frozen=True, slots=True)
class ShardWriter:
    """Writes shards of one state.

    bits           log2 of the number of shards
    state_rows     entries of the state, about
    expire_before  epoch seconds: entries written before are dropped where runs are merged
    """

    files: RunFiles
    bits: int
    state_rows: int
    expire_before: int = 0

    def append(self, shard: int, runs: Sequence[SegmentRef], new: Entries, *, merge: bool = True) -> Rewritten:
        """Add entries to a shard, merged with as many of its newest segments as their sizes require.

        new      ascending by hash, each key once
        merge    False: they become a segment of their own
        errors   NotFoundError, CorruptFileError from segments that are read
        """
        kept = merged_from([r.entries for r in runs], len(new)) if merge else len(runs)
        return self._written(shard, kept, [*self.files.entries(runs[kept:]), new])

    def merge(
        self, shard: int, runs: Sequence[SegmentRef], *, stale: Collection[tuple[int, int]] = (), older: int = 0
    ) -> Rewritten:
        """Merge all segments of a shard.

        stale    (partition number, bucket) whose keys are removed, as far as they are in the first `older` segments
        """
        read = self.files.entries(runs)
        if stale:
            wanted = np.array(sorted(p << 32 | b for p, b in stale), np.int64)
            read[:older] = [_without(run, wanted) for run in read[:older]]
        return self._written(shard, 0, read)

    def split(self, shard: int, runs: Sequence[SegmentRef]) -> list[Rewritten]:
        """Merge all segments of a shard and split it at the next bit of the hash; `bits` is that of the result."""
        merged = merge_runs(self.files.entries(runs), expire_before=self.expire_before, drop_gone=True)
        middle = np.uint64(2 * shard + 1) << np.uint64(64 - self.bits)
        cut = int(np.searchsorted(merged.hashes, middle))
        parts = ((2 * shard, merged.slice(0, cut)), (2 * shard + 1, merged.slice(cut, len(merged))))
        return [self._encoded(number, 0, part) for number, part in parts]

    def split_stored(self, share: ShardStretch) -> list[StoredShard]:
        """Split shards, and write what they become."""
        owned = ((share.first + i, runs) for i, runs in enumerate(share.runs) if runs)
        return list(store_shards(self.files, (half for shard, runs in owned for half in self.split(shard, runs))))

    def _written(self, shard: int, kept: int, runs: Sequence[Entries]) -> Rewritten:
        if not runs:
            return Rewritten(shard, kept, None, {})
        return self._encoded(shard, kept, merge_runs(runs, expire_before=self.expire_before, drop_gone=kept == 0))

    def _encoded(self, shard: int, kept: int, entries: Entries) -> Rewritten:
        if not len(entries):
            return Rewritten(shard, kept, None, None if kept else {})
        segment = encode_segment(entries, shard_bits=self.bits, state_rows=self.state_rows)
        return Rewritten(shard, kept, segment, None if kept else segment.counts)


def merged_from(sizes: Sequence[int], new: int) -> int:
    """Return the first segment, of a shard with so many entries in each, that `new` entries are merged with."""
    start, total = len(sizes), new
    while start and (sizes[start - 1] < 2 * total or start >= MAX_RUNS):
        start -= 1
        total += sizes[start]
    return start


def _without(run: Entries, places: np.ndarray) -> Entries:
    stale = np.isin(run.partition.astype(np.int64) << 32 | run.bucket.astype(np.int64), places)
    return replace(run, partition=np.where(stale, GONE, run.partition).astype(np.int32))


def store_shards(files: RunFiles, results: Iterable[Rewritten]) -> Iterator[StoredShard]:
    """Write new segments, several to a file."""
    waiting: list[Rewritten] = []
    size = 0
    for result in results:
        waiting.append(result)
        size += 0 if result.segment is None else result.segment.nbytes
        if size > _FILE_BYTES:
            yield from _stored(files, waiting)
            waiting, size = [], 0
    yield from _stored(files, waiting)


def _stored(files: RunFiles, results: Sequence[Rewritten]) -> Iterator[StoredShard]:
    segments = [r.segment for r in results if r.segment is not None]
    refs = iter(files.write(segments) if segments else [])
    for r in results:
        yield StoredShard(r.shard, r.kept, None if r.segment is None else next(refs), r.counts)


def edges_of(ascending: Hashes, bits: int) -> Ints:
    """Return int64[shards + 1]: where each shard begins among sorted hashes."""
    starts = np.arange(1, 1 << bits, dtype=np.uint64) << np.uint64(64 - bits if bits else 0)
    inner = np.searchsorted(ascending, starts)
    return np.concatenate([[0], inner, [len(ascending)]]).astype(np.int64)


def owners_of(hashes: Hashes, bits: int, tasks: int) -> Int32s:
    """Return which task owns the shard of each hash, int32[n]: every task has a stretch of the shards."""
    shard = (hashes >> np.uint64(64 - bits)) if bits else np.zeros(len(hashes), np.uint64)
    return (shard.astype(np.int64) * tasks >> bits).astype(np.int32)


def stretches_of(shards: Sequence[tuple[SegmentRef, ...]], tasks: int) -> list[ShardStretch]:
    """Return what each task owns, by the rule of `owners_of`; `shards`: segments of each."""
    edges = [-(-task * len(shards) // tasks) for task in range(tasks + 1)]
    return [ShardStretch(a, tuple(shards[a:b])) for a, b in pairwise(edges)]


def count_moves(counts: dict[tuple[int, int], int], was: tuple[Int32s, Int32s], now: tuple[Int32s, Int32s]) -> None:
    """Count keys of each (partition number, bucket) out of where they were and into where they are.

    was, now   int32[n] partition number, negative = nowhere; int32[n] bucket
    """
    before, after = _places(*was), _places(*now)
    moved = before != after
    for places, step in ((before[moved], -1), (after[moved], 1)):
        distinct, times = np.unique(places[places >= 0], return_counts=True)
        for place, n in zip(distinct.tolist(), times.tolist(), strict=True):
            at = (place >> 32, place & 0xFFFFFFFF)
            counts[at] = counts.get(at, 0) + step * n


def _places(partition: Int32s, bucket: Int32s) -> Ints:
    places: Ints = np.where(
        partition < 0, -1, partition.astype(np.int64) << 32 | (bucket.astype(np.int64) & 0xFFFFFFFF)
    )
    return places
