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
from lakeidx.key_index.keys.sets import hash_keys, same_span

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
    hashes = hash_keys(KeyCodes(rows=keys))
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
    rows = newest_rows(joined.hashes, joined.keys) if len(runs) > 1 else np.arange(len(joined))
    keep = joined.written[rows] >= expire_before
    if drop_gone:
        keep &= joined.partition[rows] != GONE
    return joined if len(runs) == 1 and keep.all() else joined.take(rows[keep])


def newest_rows(hashes: Hashes, keys: RowBytes) -> Ints:
    """Return the last row of each distinct key, ascending by hash."""
    order = hash_order(hashes)
    ordered = hashes[order]
    if not (ordered[1:] == ordered[:-1]).any():
        return order
    keep = np.empty(len(hashes), np.bool_)
    _keep_newest(frozen(hashes), frozen(keys.data), frozen(keys.offsets), frozen(order), keep)
    rows: Ints = order[keep[order]]
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
def _keep_newest(hashes: Any, data: Any, offsets: Any, order: Any, keep: Any) -> None:
    """Set keep[i] when no later entry has the key; stable, so that equal hashes keep the order of their runs."""
    n = len(order)
    at = 0
    while at < n:
        stop = at + 1
        while stop < n and hashes[order[stop]] == hashes[order[at]]:
            stop += 1
        for i in range(at, stop):
            a = order[i]
            length = offsets[a + 1] - offsets[a]
            keep[a] = True
            for j in range(i + 1, stop):
                b = order[j]
                if offsets[b + 1] - offsets[b] == length and same_span(data, offsets[a], data, offsets[b], length):
                    keep[a] = False
                    break
        at = stop
