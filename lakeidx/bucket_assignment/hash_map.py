"""Hash of a primary key -> bucket, for one partition: an open-addressing map over two NumPy arrays.

Layout (both arrays have `capacity` slots, any capacity, not only powers of two):

========  ======  =================================================================================
array     dtype   meaning
========  ======  =================================================================================
keys      int32   the hash in a slot; undefined where the slot is empty
buckets   int16   bits 0-14: the bucket of that hash, 0 to 32,766; bit 15: the hash is new since the
                  map was loaded. -1 (all bits): the slot is empty. 32,767: taken, bucket still to be
                  drawn (only inside one call, see `collect`)
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

from lakeidx.codec.hashes.murmur import finish
from lakeidx.codec.jit import frozen, inlined, kernel
from lakeidx.codec.memory import prefetch

EMPTY = np.int16(-1)
_PENDING = np.int16(32767)
_BUCKET_BITS = np.int16(0x7FFF)
_NEW_BIT = np.int16(-0x8000)
ABSENT = -1
"""Result of `HashMap.lookup` for a hash it does not contain."""

_MAX_LOAD = 0.75
_GROWTH = 1.25
_MIN_CAPACITY = 64
_RECENT = 4096
_BLOCK = 8192
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
    # that has no room or would make the map hold more than `limit` hashes. `bucket` carries the new bit. With bucket
    # PENDING, rows whose hash is pending get PENDING. Returns (first row not done, hashes in the map).
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
                out[i] = bucket & _BUCKET_BITS
                is_new[i] = True
                room -= 1
                count += 1
                break
            if keys[s] == h:
                out[i] = b & _BUCKET_BITS
                break
            s = 0 if s == last else s + 1
    return n, count


@kernel
def _settle(
    keys: NDArray[np.int32],
    buckets: NDArray[np.int16],
    hashes: NDArray[np.int32],
    out: NDArray[np.int32],
    is_new: NDArray[np.bool_],
    start: int,
    stop: int,
    picks: NDArray[np.int32],
) -> None:
    capacity, last, taken = np.uint64(len(keys)), len(keys) - 1, 0
    for i in range(start, stop):
        if out[i] != _PENDING:
            continue
        h = hashes[i]
        s = _mixed_slot(h, capacity)
        while keys[s] != h or buckets[s] == EMPTY:
            s = 0 if s == last else s + 1
        if is_new[i]:
            buckets[s] = np.int16(picks[taken]) | _NEW_BIT
            taken += 1
        out[i] = buckets[s] & _BUCKET_BITS


@kernel
def _store(keys: NDArray[np.int32], buckets: NDArray[np.int16], hashes: NDArray[np.int32], bucket: int) -> int:
    # Every hash gets `bucket`, a known one too. Returns how many were new. The caller made room.
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
        buckets[s] = bucket
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
        out[i] = ABSENT if buckets[s] == EMPTY else buckets[s] & _BUCKET_BITS


class HashMap:
    """Map of int32 hashes to int16 buckets. Not safe for two threads at once; the kernels release the GIL.

    keys, buckets   the arrays of the module's table; None makes an empty map
    count           hashes held (when arrays are given)
    """

    __slots__ = ("_buckets", "_count", "_keys")

    def __init__(
        self, keys: NDArray[np.int32] | None = None, buckets: NDArray[np.int16] | None = None, count: int = 0
    ) -> None:
        self._keys = np.empty(_MIN_CAPACITY, np.int32) if keys is None else keys
        self._buckets = np.full(_MIN_CAPACITY, EMPTY, np.int16) if buckets is None else buckets
        self._count = count

    def __len__(self) -> int:
        return self._count

    @property
    def keys(self) -> NDArray[np.int32]:
        """Slots' hashes, int32[capacity]; undefined where `buckets` is -1. Not a copy."""
        return self._keys

    @property
    def buckets(self) -> NDArray[np.int16]:
        """Slots' buckets with their new bits, int16[capacity], -1 where empty. Not a copy."""
        return self._buckets

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

    def store(self, hashes: NDArray[np.int32], bucket: int) -> int:
        """Load hashes: every one gets `bucket`, replacing that of a known one, and is not new. Returns how many were
        unknown before.
        """
        # Distinct hashes are not known beforehand; files hold none twice, so reserving for all of them is exact for
        # them.
        self.reserve(self._count + len(hashes))
        added = int(_store(self._keys, self._buckets, frozen(hashes), bucket))
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
        flagged = int(np.int16(bucket) | _NEW_BIT)
        while True:
            before = self._count
            start, self._count = _assign(
                self._keys, self._buckets, hashes, out, is_new, start, before, self._limit(), flagged, room
            )
            room -= self._count - before
            if start == len(hashes) or room == 0:
                return int(start)
            self._grow(is_new, start)

    def collect(
        self, hashes: NDArray[np.int32], out: NDArray[np.int32], is_new: NDArray[np.bool_], *, start: int
    ) -> int:
        """Assign the next rows as `assign` does, but mark new hashes with bucket 32,767 until `settle` assigns them.

        returns  the first row that was not done; some rows are always done. Rows come in blocks that stay in the
                 processor's cache until they are settled
        """
        if self._count >= self._limit():
            self._grow(is_new, start)
        block = hashes[: start + _BLOCK]
        stop, self._count = _assign(
            self._keys, self._buckets, block, out, is_new, start, self._count, self._limit(), int(_PENDING), len(block)
        )
        return int(stop)

    def settle(
        self,
        hashes: NDArray[np.int32],
        out: NDArray[np.int32],
        is_new: NDArray[np.bool_],
        *,
        start: int,
        stop: int,
        picks: NDArray[np.int32],
    ) -> None:
        """Assign buckets to the hashes that `collect` left open in rows [start, stop): picks[j] to the j-th new row."""
        _settle(self._keys, self._buckets, hashes, out, is_new, start, stop, picks)

    def drop_pending(self) -> None:
        """Drop the hashes that `collect` deferred: nothing was stored after them, so no probe passes these slots."""
        held = self._buckets == _PENDING
        self._buckets[held] = EMPTY
        self._count -= int(np.count_nonzero(held))

    def items(self) -> tuple[NDArray[np.int32], NDArray[np.int16]]:
        """Return all hashes and their buckets, in slot order; copies."""
        return self._at(self._buckets != EMPTY)

    def new_items(self) -> tuple[NDArray[np.int32], NDArray[np.int16]]:
        """Return the hashes that `assign` or `settle` brought in since load or `forget_new`, and their buckets; copies."""
        return self._at(self._buckets < EMPTY)

    def _at(self, slots: NDArray[np.bool_]) -> tuple[NDArray[np.int32], NDArray[np.int16]]:
        return self._keys[slots], self._buckets[slots] & _BUCKET_BITS

    def forget_new(self) -> None:
        """Clear the new bits; the hashes stay."""
        np.bitwise_and(self._buckets, _BUCKET_BITS, out=self._buckets, where=self._buckets < EMPTY)
