"""Entries of the key state: keys with their locations as columns, sorted by hash and merged.

The hash of an entry is 64 bits wide: the table's own hash of the key (32 bits, of its BinaryRow) above 32 bits of another hash
of the key's bytes. Keys of one hash are distinguished by their bytes wherever entries are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from lakeidx.codec.jit import frozen, kernel
from lakeidx.codec.order.hash_order import hash_order
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.key_index.keys.codes import KeyCodes
from lakeidx.key_index.keys.sets import hash_codes, same_span

GONE = -1

Ints = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """n entries, columns of one length.

    hashes      uint64[n], see `state_hashes`
    keys        n byte strings
    partition   int32[n], GONE = the key was removed
    bucket      int32[n]
    written     uint32[n] epoch seconds
    """

    hashes: Hashes
    keys: RowBytes
    partition: Int32s
    bucket: Int32s
    written: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, order: Ints) -> Entries:
        """Take some entries, in this order."""
        return Entries(
            self.hashes[order],
            self.keys.take(order),
            self.partition[order],
            self.bucket[order],
            self.written[order],
        )

    def slice(self, start: int, stop: int) -> Entries:
        """Return the entries start..stop-1, sharing memory."""
        return Entries(
            self.hashes[start:stop],
            self.keys.slice(start, stop),
            self.partition[start:stop],
            self.bucket[start:stop],
            self.written[start:stop],
        )


def state_keys(codes: KeyCodes) -> RowBytes:
    """Return the key codes as bytes, integers as 8 bytes little endian."""
    if codes.rows is not None:
        return codes.rows
    assert codes.ints is not None
    data = np.ascontiguousarray(codes.ints, dtype="<i8").view(np.uint8)
    return RowBytes(data, np.arange(len(codes.ints) + 1, dtype=np.int64) * 8)


def with_prefix(keys: RowBytes, prefix: Int32s) -> RowBytes:
    """Return each key after its prefix as 4 bytes little endian."""
    offsets = np.zeros(len(keys) + 1, np.int64)
    np.cumsum(keys.lengths + 4, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    _prefix(frozen(keys.data), frozen(keys.offsets), frozen(prefix), frozen(offsets), data)
    return RowBytes(data, offsets)


def state_hashes(key_hashes: Int32s, keys: RowBytes, salts: npt.NDArray[np.uint32] | None = None) -> Hashes:
    """Return the hash that the state keeps each key under.

    key_hashes  int32[n], see `KeyBatch.hashes`
    keys        n byte strings
    salts       uint32[n] of each key's partition (`partition_salt`), in states whose keys belong to a partition: it spreads the
                same key of many partitions; None = 0
    """
    upper = key_hashes.view(np.uint32) if salts is None else key_hashes.view(np.uint32) ^ salts
    hashes = hash_codes(KeyCodes(rows=keys))
    hashes &= np.uint64(0xFFFFFFFF)
    hashes |= upper.astype(np.uint64) << np.uint64(32)
    return hashes


def partition_salt(partition: bytes) -> int:
    """Return the 32 bits that spread the keys of a partition."""
    return xxhash.xxh64_intdigest(partition) & 0xFFFFFFFF


def merge_runs(runs: Sequence[Entries], *, expire_before: int, drop_gone: bool) -> Entries:
    """Merge runs, oldest first: of equal keys the newest wins.

    runs           ascending by hash, each key once
    expire_before  epoch seconds; entries written before are dropped
    drop_gone      drop keys that were removed (there is no older run that they must hide)
    """
    joined = join_entries(runs)
    drop = joined.written < expire_before
    if drop_gone:
        drop |= joined.partition == GONE
    dropped = bool(drop.any())
    if len(runs) == 1 and not dropped:
        return joined
    rows = _merged_rows(joined, [len(run) for run in runs])
    return joined.take(rows[~drop[rows]] if dropped else rows)


def _merged_rows(joined: Entries, sizes: Sequence[int]) -> Ints:
    """Return the last row of each distinct key, ascending by hash, of runs that are so, one after another."""
    rows = np.empty(len(joined), np.int64)
    ends = np.cumsum(sizes)
    heads = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    keys = joined.keys
    count = _merge_rows(frozen(joined.hashes), frozen(keys.data), frozen(keys.offsets), frozen(ends), heads, rows)
    return rows[:count]


def newest_rows(hashes: Hashes, keys: RowBytes) -> Ints:
    """Return the last row of each distinct key, ascending by hash."""
    order = hash_order(hashes)
    ordered = hashes[order]
    first = np.flatnonzero(ordered[1:] == ordered[:-1])
    if not len(first):
        return order
    keep = np.ones(len(hashes), np.bool_)
    _keep_newest(frozen(keys.data), frozen(keys.offsets), frozen(order), frozen(first), keep)
    rows: Ints = order[keep]
    return rows


def join_entries(parts: Sequence[Entries]) -> Entries:
    """Concatenate entries."""
    if len(parts) == 1:
        return parts[0]
    return Entries(
        np.concatenate([np.zeros(0, np.uint64), *(p.hashes for p in parts)]),
        RowBytes.concat([p.keys for p in parts]),
        np.concatenate([np.zeros(0, np.int32), *(p.partition for p in parts)]),
        np.concatenate([np.zeros(0, np.int32), *(p.bucket for p in parts)]),
        np.concatenate([np.zeros(0, np.uint32), *(p.written for p in parts)]),
    )


@kernel
def _prefix(data: Any, offsets: Any, prefix: Any, out_offsets: Any, out: Any) -> None:
    for i in range(len(prefix)):
        start, at = offsets[i], out_offsets[i]
        for j in range(4):
            out[at + j] = np.uint8((prefix[i] >> (8 * j)) & 0xFF)
        for j in range(offsets[i + 1] - start):
            out[at + 4 + j] = data[start + j]


@kernel
def _merge_rows(hashes: Any, data: Any, offsets: Any, ends: Any, heads: Any, rows: Any) -> Any:
    """Merge runs, older ones first: of equal keys the last row stays.

    ends, heads  int64[runs] where each run ends, and where it begins; the latter are moved on
    rows         int64[n], filled in
    returns      how many
    """
    count, first = 0, 0
    last = np.uint64(0)
    while True:
        # Of equal hashes those of older runs come first.
        best, other = -1, np.uint64(0xFFFFFFFFFFFFFFFF)
        least = other
        for run in range(len(ends)):
            if heads[run] < ends[run]:
                h = hashes[heads[run]]
                if best < 0 or h < least:
                    best, least, other = run, h, least
                elif h < other:
                    other = h
        if best < 0:
            return count
        row, end = heads[best], ends[best]
        while True:
            if least != last:
                first, last = count, least
            length = offsets[row + 1] - offsets[row]
            for i in range(first, count):
                a = rows[i]
                if offsets[a + 1] - offsets[a] == length and same_span(data, offsets[a], data, offsets[row], length):
                    for j in range(i + 1, count):
                        rows[j - 1] = rows[j]
                    count -= 1
                    break
            rows[count] = row
            count += 1
            row += 1
            if row == end or hashes[row] >= other:
                break
            least = hashes[row]
        heads[best] = row


@kernel
def _keep_newest(data: Any, offsets: Any, order: Any, first: Any, keep: Any) -> None:
    """Clear keep[i] of places in `order` whose key is also at a later place with the same hash.

    first  int64[] places, ascending, that the next one shares its hash with
    keep   bool[n], all set
    """
    n = len(first)
    at = 0
    while at < n:
        stop = at + 1
        while stop < n and first[stop] == first[stop - 1] + 1:
            stop += 1
        last = first[stop - 1] + 1
        for i in range(first[at], last):
            a = order[i]
            length = offsets[a + 1] - offsets[a]
            for j in range(i + 1, last + 1):
                b = order[j]
                if offsets[b + 1] - offsets[b] == length and same_span(data, offsets[a], data, offsets[b], length):
                    keep[i] = False
                    break
        at = stop
