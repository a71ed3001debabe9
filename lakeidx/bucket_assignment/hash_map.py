"""Hash of a primary key -> bucket, for one partition: an open-addressing map over two NumPy arrays.

Layout (both arrays have `capacity` slots, any capacity, not only powers of two):

========  ======  =================================================================================
array     dtype   meaning
========  ======  =================================================================================
keys      int32   the hash in a slot; undefined where the slot is empty
buckets   int16   the bucket of that hash, 0 to 32,766; -1: the slot is empty
========  ======  =================================================================================

A hash starts its search at slot ``mix(hash) * capacity >> 32`` and continues to the right, round the end. `mix` is a
bijection of 32-bit values, so slots are ordered like mixed hashes: growing copies the old slots from left to right and
writes the new ones almost in order, which is why the map can afford to grow by a quarter at a time and holds 8 to 10
bytes per hash. Only a column of mostly new hashes makes it grow by up to double, for as many as are still to come.
Entries are never removed.

Java's PartitionIndex (release 1.4.2) stores buckets as 16-bit numbers, too; bucket ids end at 32,766.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakeidx.codec.arrays import frozen
from lakeidx.codec.hashes.murmur import finish
from lakeidx.codec.jit import inlined, kernel
from lakeidx.codec.memory import prefetch

EMPTY = np.int16(-1)
ABSENT = -1
"""Result of `HashMap.lookup` for a hash it does not contain."""

_MAX_LOAD = 0.75
_GROWTH = 1.25
_MIN_CAPACITY = 64
_RECENT = 4096
_AHEAD = 16  # rows between prefetching a slot's cache line and reading it; a power of two

_S32 = np.uint64(32)


@inlined
def _mixed_slot(h: Any, capacity: np.uint64) -> Any:
    """Return the slot of a hash, 0 to capacity - 1; slots are in the order of mixed hashes, whatever the capacity."""
    # Murmur's finaliser: keys that are not hashes at all (0, 1, 2, ...) spread as well.
    return np.int64((np.uint64(finish(np.uint32(h))) * capacity) >> _S32)


@inlined
def _prefetch_slot(keys: Any, buckets: Any, slot: Any) -> None:
    prefetch(np.int64(keys.ctypes.data) + 4 * slot)
    prefetch(np.int64(buckets.ctypes.data) + 2 * slot)


@kernel
def _assign(
    keys: NDArray[np.int32],
    buckets: NDArray[np.int16],
    hashes: NDArray[np.int32],
    out: NDArray[np.int32],
    is_new: NDArray[np.bool_],
    start: int,
    count: int,
    limit: int,
    bucket: int,
    room: int,
) -> tuple[int, int]:
    # Rows from `start` on: known hashes get their bucket, up to `room` new ones get `bucket`. Stops before the first row
    # that has no room or would make the map hold more than `limit` hashes. Returns (first row not done, hashes in the map).
    n, capacity, last = len(hashes), np.uint64(len(keys)), len(keys) - 1
    ring = np.empty(_AHEAD, np.int64)
    for i in range(start, min(start + _AHEAD, n)):
        s = _mixed_slot(hashes[i], capacity)
        ring[i & (_AHEAD - 1)] = s
        _prefetch_slot(keys, buckets, s)
    for i in range(start, n):
        s = ring[i & (_AHEAD - 1)]
        if i + _AHEAD < n:
            ahead = _mixed_slot(hashes[i + _AHEAD], capacity)
            ring[i & (_AHEAD - 1)] = ahead
            _prefetch_slot(keys, buckets, ahead)
        h = hashes[i]
        while True:
            b = buckets[s]
            if b == EMPTY:
                if room == 0 or count >= limit:
                    return i, count
                keys[s] = h
                buckets[s] = bucket
                out[i] = bucket
                is_new[i] = True
                room -= 1
                count += 1
                break
            if keys[s] == h:
                out[i] = b
                break
            s = 0 if s == last else s + 1
    return n, count


@kernel
def _store(
    keys: NDArray[np.int32], buckets: NDArray[np.int16], hashes: NDArray[np.int32], values: NDArray[np.int16]
) -> int:
    # Every hash gets its bucket, a known one too. Returns how many were new. The caller made room.
    n, capacity, last, added = len(hashes), np.uint64(len(keys)), len(keys) - 1, 0
    for i in range(n):
        if i + _AHEAD < n:
            ahead = _mixed_slot(hashes[i + _AHEAD], capacity)
            _prefetch_slot(keys, buckets, ahead)
        h = hashes[i]
        s = _mixed_slot(h, capacity)
        while buckets[s] != EMPTY and keys[s] != h:
            s = 0 if s == last else s + 1
        if buckets[s] == EMPTY:
            keys[s] = h
            added += 1
        buckets[s] = values[i]
    return added


@kernel
def _rehash(
    old_keys: NDArray[np.int32], old_buckets: NDArray[np.int16], keys: NDArray[np.int32], buckets: NDArray[np.int16]
) -> None:
    capacity, last = np.uint64(len(keys)), len(keys) - 1
    for i in range(len(old_keys)):
        b = old_buckets[i]
        if b != EMPTY:
            s = _mixed_slot(old_keys[i], capacity)
            while buckets[s] != EMPTY:
                s = 0 if s == last else s + 1
            keys[s] = old_keys[i]
            buckets[s] = b


@kernel
def _lookup(
    keys: NDArray[np.int32], buckets: NDArray[np.int16], hashes: NDArray[np.int32], out: NDArray[np.int32]
) -> None:
    n, capacity, last = len(hashes), np.uint64(len(keys)), len(keys) - 1
    for i in range(n):
        if i + _AHEAD < n:
            ahead = _mixed_slot(hashes[i + _AHEAD], capacity)
            _prefetch_slot(keys, buckets, ahead)
        h = hashes[i]
        s = _mixed_slot(h, capacity)
        while buckets[s] != EMPTY and keys[s] != h:
            s = 0 if s == last else s + 1
        # An empty slot has -1, which is ABSENT.
        out[i] = buckets[s]


class HashMap:
    """Map of int32 hashes to int16 buckets. Not safe for two threads at once; the kernels release the GIL."""

    __slots__ = ("_buckets", "_count", "_keys")

    def __init__(self) -> None:
        self._keys = np.empty(_MIN_CAPACITY, np.int32)
        self._buckets = np.full(_MIN_CAPACITY, EMPTY, np.int16)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def memory_bytes(self) -> int:
        """Bytes of the two arrays: 6 per slot, 8 to 10 per hash but for what was reserved without use."""
        return int(self._keys.nbytes + self._buckets.nbytes)

    def _limit(self) -> int:
        return int(len(self._keys) * _MAX_LOAD)

    def reserve(self, hashes: int) -> None:
        """Make room for `hashes` in all, growing at once to the lowest load that growing step by step ends with."""
        if hashes > self._limit():
            self._resize(int(hashes / _MAX_LOAD) + 1)

    def _resize(self, capacity: int) -> None:
        keys, buckets = np.empty(capacity, np.int32), np.full(capacity, EMPTY, np.int16)
        _rehash(self._keys, self._buckets, keys, buckets)
        self._keys, self._buckets = keys, buckets

    def _grow(self, is_new: NDArray[np.bool_], start: int) -> None:
        # By a quarter, or up to double when the share of new hashes in the last rows says that the rest will need it.
        recent = is_new[max(0, start - _RECENT) : start]
        share = np.count_nonzero(recent) / max(len(recent), 1)
        expected = int((self._count + share * (len(is_new) - start)) / _MAX_LOAD)
        capacity = len(self._keys)
        self._resize(min(max(expected, int(capacity * _GROWTH)), 2 * capacity) + 1)

    def store(self, hashes: NDArray[np.int32], buckets: NDArray[np.int32] | int) -> int:
        """Give each hash its bucket, or all of them one, known ones too. Returns how many were unknown before."""
        # Distinct hashes are not known beforehand; files hold none twice, so reserving for all of them is exact for
        # them.
        self.reserve(self._count + len(hashes))
        values = np.broadcast_to(np.asarray(buckets, np.int16), len(hashes))
        added = int(_store(self._keys, self._buckets, frozen(hashes), frozen(values)))
        self._count += added
        return added

    def lookup(self, hashes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Look up the bucket of each hash, int32[n], -1 (`ABSENT`) where unknown."""
        out = np.empty(len(hashes), np.int32)
        _lookup(self._keys, self._buckets, hashes, out)
        return out

    def assign(
        self,
        hashes: NDArray[np.int32],
        out: NDArray[np.int32],
        is_new: NDArray[np.bool_],
        *,
        start: int,
        bucket: int,
        room: int,
    ) -> int:
        """Assign rows from `start` on to their known bucket, and up to `room` new hashes to `bucket`.

        out      int32[n], written for the rows that were done
        is_new   bool[n], set True at the row that brought a hash into the map
        returns  the first row that was not done: its hash is new and the room is used up; n when all are done
        cost     one pass; each growth copies the map once
        """
        while True:
            before = self._count
            start, self._count = _assign(
                self._keys, self._buckets, hashes, out, is_new, start, before, self._limit(), bucket, room
            )
            room -= self._count - before
            if start == len(hashes) or room == 0:
                return int(start)
            self._grow(is_new, start)
