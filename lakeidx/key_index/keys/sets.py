"""A hash table over the keys of a batch: built once, then probed for every file that is read, from any number of threads.

Keys are compared in full, so the answers are exact. A partition number can be part of the key (indexes that are not
global).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.arrays import frozen
from lakeidx.codec.jit import helper, inlined, kernel, load_u64
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InternalError
from lakeidx.key_index.keys.codes import KeyCodes


class KeySet:
    """The distinct keys of n rows.

    codes      keys
    partition  int32[n] partition of each row, part of the key; None = 0 for all
    """

    __slots__ = ("_codes", "_partition", "_slots", "distinct", "first")

    def __init__(self, codes: KeyCodes, partition: npt.NDArray[np.int32] | None = None) -> None:
        n = len(codes)
        self._codes = codes
        self._partition = frozen(np.zeros(n, np.int32) if partition is None else partition)
        capacity = 16
        while capacity < 2 * n:
            capacity *= 2
        self.first = np.empty(n, np.int32)
        if codes.ints is not None:
            # Slots hold row numbers, -1 = free.
            self._slots: npt.NDArray[Any] = np.full(capacity, -1, np.int32)
            self.distinct = int(_build_ints(frozen(codes.ints), self._partition, self._slots, self.first))
        else:
            # Slots hold the upper half of the hash beside the row number + 1, 0 = free: other keys are nearly always
            # distinguished by one load, without a look at their bytes.
            self._slots = np.zeros(capacity, np.uint64)
            self.distinct = int(_build_rows(*_parts(codes.rows), self._partition, self._slots, self.first))

    def find(self, codes: KeyCodes, partition: int = 0) -> npt.NDArray[np.int32]:
        """Look up m keys of a partition.

        codes      made for the same key types as the set's
        returns    int32[m]: the first row of the set that has the key, -1 when none has
        """
        out = np.empty(len(codes), np.int32)
        own, slots, p = self._partition, frozen(self._slots), np.int32(partition)
        if (codes.ints is None) != (self._codes.ints is None):
            raise InternalError("keys of different types are compared")
        if codes.ints is not None:
            assert self._codes.ints is not None
            _find_ints(frozen(self._codes.ints), own, slots, frozen(codes.ints), p, out)
        else:
            _find_rows(*_parts(self._codes.rows), own, slots, *_parts(codes.rows), p, out)
        return out


def _parts(rows: RowBytes | None) -> tuple[Any, Any]:
    assert rows is not None
    return frozen(rows.data), frozen(rows.offsets)


@inlined
def _mix(h: Any) -> Any:
    h = np.uint64(h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = np.uint64(h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.uint64(h ^ (h >> np.uint64(31)))


@inlined
def _hash_int(value: Any, partition: Any) -> Any:
    spread = np.uint64(np.uint32(partition)) * np.uint64(0x9E3779B97F4A7C15)
    return _mix(np.uint64(np.uint64(value) + np.uint64(0x9E3779B97F4A7C15)) ^ spread)


@helper
def _hash_span(data: Any, start: Any, end: Any, partition: Any) -> Any:
    """Hash of ``data[start:end]`` and a partition number: uint64, for kernels."""
    h = np.uint64(end - start) ^ (np.uint64(np.uint32(partition)) * np.uint64(0x9E3779B97F4A7C15))
    at = start
    while at + 8 <= end:
        h = np.uint64(h ^ load_u64(data, at)) * np.uint64(0x9FB21C651E98DF25)
        h = np.uint64(h ^ (h >> np.uint64(32)))
        at += 8
    if at < end:
        word, shift = np.uint64(0), np.uint64(0)
        while at < end:
            word |= np.uint64(data[at]) << shift
            shift += np.uint64(8)
            at += 1
        h = np.uint64(h ^ word) * np.uint64(0x9FB21C651E98DF25)
    return _mix(h)


@helper
def _same_span(a: Any, a_start: Any, b: Any, b_start: Any, length: Any) -> Any:
    """Return True when two stretches of bytes are equal, for kernels."""
    i = 0
    while i + 8 <= length:
        if load_u64(a, a_start + i) != load_u64(b, b_start + i):
            return False
        i += 8
    while i < length:
        if a[a_start + i] != b[b_start + i]:
            return False
        i += 1
    return True


@kernel
def _build_ints(keys: Any, partition: Any, slots: Any, first: Any) -> Any:
    mask = np.uint64(len(slots) - 1)
    distinct = 0
    for i in range(len(keys)):
        at = _hash_int(keys[i], partition[i]) & mask
        while True:
            found = slots[at]
            if found < 0:
                slots[at] = i
                first[i] = i
                distinct += 1
                break
            if keys[found] == keys[i] and partition[found] == partition[i]:
                first[i] = found
                break
            at = (at + np.uint64(1)) & mask
    return distinct


@kernel
def _find_ints(keys: Any, partition: Any, slots: Any, asked: Any, p: Any, out: Any) -> None:
    mask = np.uint64(len(slots) - 1)
    for i in range(len(asked)):
        at = _hash_int(asked[i], p) & mask
        out[i] = -1
        while True:
            found = slots[at]
            if found < 0:
                break
            if keys[found] == asked[i] and partition[found] == p:
                out[i] = found
                break
            at = (at + np.uint64(1)) & mask


_LOW = np.uint64(0xFFFFFFFF)
_BLOCK = 32


@kernel
def _build_rows(data: Any, offsets: Any, partition: Any, slots: Any, first: Any) -> Any:
    mask = np.uint64(len(slots) - 1)
    distinct = 0
    for i in range(len(first)):
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        h = _hash_span(data, start, start + length, partition[i])
        at = h & mask
        while True:
            entry = slots[at]
            if entry == 0:
                slots[at] = (h & ~_LOW) | np.uint64(i + 1)
                first[i] = i
                distinct += 1
                break
            if (entry ^ h) <= _LOW:
                found = np.int64(entry & _LOW) - 1
                other = offsets[found]
                if (
                    offsets[found + 1] - other == length
                    and partition[found] == partition[i]
                    and _same_span(data, other, data, start, length)
                ):
                    first[i] = found
                    break
            at = (at + np.uint64(1)) & mask
    return distinct


@kernel
def _find_rows(
    data: Any, offsets: Any, partition: Any, slots: Any, asked: Any, asked_offsets: Any, p: Any, out: Any
) -> None:
    mask = np.uint64(len(slots) - 1)
    hashes = np.empty(_BLOCK, np.uint64)
    entries = np.empty(_BLOCK, np.uint64)
    for base in range(0, len(out), _BLOCK):
        count = min(_BLOCK, len(out) - base)
        # Hashes first, then all first slots of the block: loads that do not wait for each other overlap in memory.
        for j in range(count):
            hashes[j] = _hash_span(asked, asked_offsets[base + j], asked_offsets[base + j + 1], p)
        for j in range(count):
            entries[j] = slots[hashes[j] & mask]
        for j in range(count):
            i = base + j
            h, entry = hashes[j], entries[j]
            at = h & mask
            out[i] = -1
            while entry != 0:
                if (entry ^ h) <= _LOW:
                    found = np.int64(entry & _LOW) - 1
                    start, length = asked_offsets[i], asked_offsets[i + 1] - asked_offsets[i]
                    other = offsets[found]
                    if (
                        offsets[found + 1] - other == length
                        and partition[found] == p
                        and _same_span(data, other, asked, start, length)
                    ):
                        out[i] = found
                        break
                at = (at + np.uint64(1)) & mask
                entry = slots[at]
