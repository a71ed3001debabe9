"""Look keys up in segments: first in their blocks, then, where those are ambiguous, among the keys themselves.

A block says of a hash in which place an entry of that look is. Such an entry is of the key, or of another key that looks the same.
The place is taken as it is when no answer could be better:

*   all entries of that look are in one place, and it is in the row's own partition. If the key is not in the state, it is new in
    this partition, and may go into any bucket that its hash is not elsewhere of: an entry that looks the same has the same hash,
    and equal hashes share a bucket (`lakeidx.key_index.state.segments`).
*   all of them are of removed keys.

All other keys are compared with those of the entries, newest run first. So no answer takes a key into another partition, or leaves
it there, that is not in the state by its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakeidx.codec.containers.checksum import crc32_ranges
from lakeidx.codec.distinct import sorted_distinct
from lakeidx.codec.jit import frozen
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError
from lakeidx.key_index.state.entries import Hashes, Ints
from lakeidx.key_index.state.run_files import RunFiles, SegmentRef, Stretch
from lakeidx.key_index.state.segment_kernels import GONE_PLACE, GROUP, match_keys, probe_blocks
from lakeidx.key_index.state.segments import PADDING, SegmentHead
from lakeidx.tasks.in_parallel import in_parallel
from lakeidx.tasks.limits import available_cores

# Blocks between two wanted ones that are read along: a request costs more.
_BLOCK_GAP = 8


@dataclass(frozen=True, slots=True)
class Asked:
    """Hashes of one shard: rows start..stop-1 of all that are looked up, and the shard's segments, newest first."""

    start: int
    stop: int
    runs: tuple[SegmentRef, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """Blocks of one segment for a range of hashes.

    raw, block_at   see `probe_blocks`
    written         uint32[entries] when some may have expired, else empty
    """

    ref: SegmentRef
    head: SegmentHead
    start: int
    stop: int
    raw: npt.NDArray[np.uint8]
    block_at: Ints
    written: npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """Keys that are looked up together.

    files          where segments are
    hashes         uint64[n] ascending
    keys           n keys, in any order
    order          int64[n] which of the keys each hash is of
    own            int64[n] partition number of each row, one that no partition has when it has none
    only_own       keys are of one partition each: entries of other partitions are other keys
    expire_before  epoch seconds: entries written before count as removed
    """

    files: RunFiles
    hashes: Hashes
    keys: RowBytes
    order: Ints
    own: Ints
    only_own: bool
    expire_before: int

    def locate(self, asked: Sequence[Asked], place: Ints) -> None:
        """Fill in the place of each key, `GONE_PLACE` where there is none.

        errors   NotFoundError, CorruptFileError
        """
        reads = self._read(asked)
        seen = np.zeros(len(self.hashes), np.uint8)
        in_parallel(lambda a: self._probe(reads, a, place, seen), asked, threads=available_cores())
        elsewhere = (place != GONE_PLACE) & ((place >> 32) != self.own)
        unsure = np.flatnonzero((seen == 2) | ((seen == 1) & elsewhere))
        if len(unsure):
            self._compare(reads, unsure, place)

    def _probe(self, reads: Sequence[_Read], asked: Asked, place: Ints, seen: npt.NDArray[np.uint8]) -> None:
        rows = slice(asked.start, asked.stop)
        none = np.zeros(0, np.int64)
        for read in reads:
            if read.start == asked.start:
                _run(read, self, self.hashes[rows], self.own[rows], place[rows], seen[rows], none, none, none)

    def _read(self, asked: Sequence[Asked]) -> list[_Read]:
        segments = [(a, ref) for a in asked for ref in a.runs]
        heads = self.files.heads([ref for _, ref in segments])
        wanted: list[Stretch] = []
        pieces: list[list[tuple[int, int]]] = []
        expiring = []
        for (a, ref), head in zip(segments, heads, strict=True):
            blocks = _stretches(head.blocks_of(self.hashes[a.start : a.stop]), _BLOCK_GAP)
            pieces.append(blocks)
            ends = head.block_ends
            wanted += [
                Stretch(ref.file, ref.blocks_at + int(ends[low]), int(ends[high] - ends[low])) for low, high in blocks
            ]
            expiring.append(head.written[0] < self.expire_before)
        times = [
            Stretch(ref.file, ref.columns_at + 16 * ref.entries, 4 * ref.entries)
            for (_, ref), old in zip(segments, expiring, strict=True)
            if old
        ]
        fetched = iter(self.files.fetch([*wanted, *times]))
        blocks_read = [[next(fetched) for _ in own] for own in pieces]
        out = []
        for (a, ref), head, own, parts, old in zip(segments, heads, pieces, blocks_read, expiring, strict=True):
            written = np.frombuffer(next(fetched), "<u4") if old else np.zeros(0, np.uint32)
            raw, block_at = _join(head.block_ends, head.block_crcs, own, parts, self.files.path(ref.file))
            out.append(_Read(ref, head, a.start, a.stop, raw, block_at, frozen(written)))
        return out

    def _compare(self, reads: Sequence[_Read], unsure: Ints, place: Ints) -> None:
        """Decide by the keys themselves."""
        keys = RowBytes(frozen(self.keys.data), frozen(self.keys.offsets))
        found = [self._hits(read, unsure) for read in reads]
        groups = [_stretches(sorted_distinct(ranks // GROUP), 0) for _, ranks, _ in found]
        wanted = []
        for read, own in zip(reads, groups, strict=True):
            ends = read.head.group_ends
            wanted += [Stretch(read.ref.file, read.ref.keys_at + int(ends[a]), int(ends[b] - ends[a])) for a, b in own]
        fetched = iter(self.files.fetch(wanted))
        decided = np.zeros(len(self.hashes), np.bool_)
        place[unsure] = GONE_PLACE
        # Of one shard the newest run comes first.
        for read, own, (rows, ranks, places) in zip(reads, groups, found, strict=True):
            parts = [next(fetched) for _ in own]
            raw, group_at = _join(
                read.head.group_ends, read.head.group_crcs, own, parts, self.files.path(read.ref.file)
            )
            same = np.zeros(len(rows), np.bool_)
            sizes = np.diff(read.head.group_ends)
            if not match_keys(
                raw,
                group_at,
                frozen(sizes),
                read.ref.entries,
                frozen(ranks),
                frozen(self.order[rows]),
                keys.data,
                keys.offsets,
                same,
            ):
                raise CorruptFileError("a key is not inside its group", path=self.files.path(read.ref.file))
            here = np.flatnonzero(same & ~decided[rows])
            place[rows[here]] = places[here]
            decided[rows[here]] = True

    def _hits(self, read: _Read, unsure: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the row, rank and place of each entry that matches the fingerprint of one of the rows."""
        rows = unsure[(unsure >= read.start) & (unsure < read.stop)]
        none = np.zeros(0, np.int64)
        if not len(rows):
            return none, none, none
        hashes, own = self.hashes[rows], self.own[rows]
        scratch, seen = np.empty(len(rows), np.int64), np.zeros(len(rows), np.uint8)
        count = _run(read, self, hashes, own, scratch, seen, none, none, none)
        hits = [np.empty(count, np.int64) for _ in range(3)]
        _run(read, self, hashes, own, scratch, seen, *hits)
        return rows[hits[0]], hits[1], hits[2]


def _run(
    read: _Read,
    lookup: Lookup,
    hashes: Hashes,
    own: Ints,
    place: Ints,
    seen: npt.NDArray[np.uint8],
    rows: Ints,
    ranks: Ints,
    places: Ints,
) -> int:
    head = read.head
    found: int = probe_blocks(
        read.raw, read.block_at, head.block_first, head.shape, head.places, read.written, lookup.expire_before,
        frozen(hashes), frozen(own), lookup.only_own, place, seen, rows, ranks, places,
    )  # fmt: skip
    if found < 0:
        raise CorruptFileError("the blocks of a segment of key state contradict its head", path=read.ref.file)
    return found


def _stretches(numbers: Ints, gap: int) -> list[tuple[int, int]]:
    """Join ascending distinct numbers to ranges (first, end), over gaps of up to this many numbers."""
    if not len(numbers):
        return []
    low, high = int(numbers[0]), int(numbers[-1])
    if high - low < len(numbers):
        return [(low, high + 1)]
    cuts = np.flatnonzero(np.diff(numbers) > gap + 1)
    first, last = numbers[np.append(0, cuts + 1)], numbers[np.append(cuts, len(numbers) - 1)]
    return list(zip(first.tolist(), (last + 1).tolist(), strict=True))


def _join(
    ends: Ints,
    crcs: npt.NDArray[np.uint32],
    stretches: Sequence[tuple[int, int]],
    parts: Sequence[memoryview],
    path: str,
) -> tuple[npt.NDArray[np.uint8], Ints]:
    """Put parts that were read one after another, after their checksums.

    returns   the bytes, padded, and where each block is among them, -1 = not read
    """
    where = np.full(len(ends) - 1, -1, np.int64)
    at = 0
    for (low, high), part in zip(stretches, parts, strict=True):
        starts = ends[low:high] - ends[low]
        found = crc32_ranges(part, starts.tolist(), (ends[low + 1 : high + 1] - ends[low]).tolist())
        if not np.array_equal(found, crcs[low:high]):
            raise CorruptFileError("a block of key state differs from its checksum", path=path)
        where[low:high] = starts + at
        at += len(part)
    return frozen(np.frombuffer(b"".join((*parts, PADDING)), np.uint8)), frozen(where)
