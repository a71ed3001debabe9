"""Pages of the key state: blocks of (key, location) entries, sorted by the hash of the key. Little endian.

======  ==============  ===============================================================================================
offset  type            value
======  ==============  ===============================================================================================
0       4 bytes         ``LXS1``
4       u32             n, entries
8       u64[n]          hash of each key (`key_set.hash_keys`), ascending
        u32[n]          end of each key's bytes in the key area
        i32[n]          partition number, -1 = the key was removed
        i32[n]          bucket
        u32[n]          when it was written, epoch seconds
        bytes           keys, one after another
======  ==============  ===============================================================================================

A page holds the keys whose hash starts with its number (`page_of`); it is stored as runs, newer ones over older ones,
and runs are merged into one when they become many. No checksum here: RocksDB has its own, and the in-memory form
needs none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.jit import frozen, kernel, load_u32, load_u64
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError
from lakeidx.key_index.keys.codes import KeyCodes
from lakeidx.key_index.keys.sets import hash_keys, same_span

MAGIC = b"LXS1"
GONE = -1
_HEADER = 8
_ENTRY = 24

Ints = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """n entries, columns of one length; sorted by hash where a block is made of them.

    hashes      uint64[n]
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
            take_rows(self.keys, order),
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
    """Return each key behind its prefix as 4 bytes little endian."""
    offsets = np.zeros(len(keys) + 1, np.int64)
    np.cumsum(keys.lengths + 4, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    _prefix(frozen(keys.data), frozen(keys.offsets), frozen(prefix), frozen(offsets), data)
    return RowBytes(data, offsets)


def hash_rows(keys: RowBytes) -> Hashes:
    """Hash of each key's bytes."""
    return hash_keys(KeyCodes(rows=keys))


def page_of(hashes: Hashes, bits: int) -> npt.NDArray[np.uint32]:
    """Return the page of each hash among 2^bits (bits from 1 to 31)."""
    return (hashes >> np.uint64(64 - bits)).astype(np.uint32)


def encode_block(entries: Entries) -> bytes:
    """Encode a block; entries sorted by hash."""
    ends = (entries.keys.offsets[1:] - entries.keys.offsets[0]).astype("<u4")
    return b"".join(
        (
            MAGIC,
            len(entries).to_bytes(4, "little"),
            entries.hashes.astype("<u8", copy=False).tobytes(),
            ends.tobytes(),
            entries.partition.astype("<i4", copy=False).tobytes(),
            entries.bucket.astype("<i4", copy=False).tobytes(),
            entries.written.astype("<u4", copy=False).tobytes(),
            entries.keys.flat.tobytes(),
        )
    )


def decode_block(data: bytes, path: str | None = None) -> Entries:
    """Read a block.

    errors   CorruptFileError when the lengths do not fit or the hashes do not ascend
    """
    n = int.from_bytes(data[4:8], "little") if len(data) >= _HEADER else -1
    if data[:4] != MAGIC or n < 0 or len(data) < _HEADER + _ENTRY * n:
        raise CorruptFileError(f"not a block of key state: {len(data)} bytes", path=path, offset=0)
    hashes = np.frombuffer(data, "<u8", n, _HEADER)
    ends, partition, bucket, written = (
        np.frombuffer(data, kind, n, _HEADER + 8 * n + 4 * n * i) for i, kind in enumerate(("<u4", "<i4", "<i4", "<u4"))
    )
    offsets = np.zeros(n + 1, np.int64)
    offsets[1:] = ends
    keys = np.frombuffer(data, np.uint8, offset=_HEADER + _ENTRY * n)
    if offsets[-1] != len(keys) or np.any(np.diff(offsets) < 0):
        raise CorruptFileError("the keys of a block do not fill it", path=path, offset=_HEADER + 8 * n)
    if n > 1 and np.any(hashes[1:] < hashes[:-1]):
        raise CorruptFileError("the hashes of a block do not ascend", path=path, offset=_HEADER)
    return Entries(hashes, RowBytes(keys, offsets), partition, bucket, written)


def merge_runs(runs: Sequence[Entries], *, expire_before: int, drop_gone: bool) -> Entries:
    """Merge runs of one page, oldest first: of equal keys the newest wins.

    expire_before  epoch seconds; entries written before are dropped
    drop_gone      drop keys that were removed (there is no older run that they must hide)
    """
    joined = _join_entries(runs)
    order = np.argsort(joined.hashes, kind="stable")
    keep = np.empty(len(joined), np.bool_)
    keys = joined.keys
    _keep_newest(frozen(joined.hashes), frozen(keys.data), frozen(keys.offsets), frozen(order), keep)
    keep &= joined.written >= expire_before
    if drop_gone:
        keep &= joined.partition != GONE
    return joined.take(order[keep[order]])


def _join_entries(parts: Sequence[Entries]) -> Entries:
    """Concatenate entries."""
    if len(parts) == 1:
        return parts[0]
    offsets = np.zeros(sum(len(p) for p in parts) + 1, np.int64)
    lengths = [p.keys.lengths for p in parts]
    np.cumsum(np.concatenate([np.zeros(0, np.int64), *lengths]), out=offsets[1:])
    data = np.concatenate([np.zeros(0, np.uint8), *(p.keys.flat for p in parts)])
    return Entries(
        np.concatenate([np.zeros(0, np.uint64), *(p.hashes for p in parts)]),
        RowBytes(data, offsets),
        np.concatenate([np.zeros(0, np.int32), *(p.partition for p in parts)]),
        np.concatenate([np.zeros(0, np.int32), *(p.bucket for p in parts)]),
        np.concatenate([np.zeros(0, np.uint32), *(p.written for p in parts)]),
    )


def probe_block(
    data: bytes, hashes: Hashes, keys: RowBytes, rows: Ints, partition: Int32s, bucket: Int32s, *, expire_before: int
) -> None:
    """Look up keys in a block and overwrite the results of those it contains.

    data               the block's bytes, read where they lie
    hashes, keys       of all keys requested; arrays frozen
    rows               int64[m] which of them to look up here, in ascending order of their hashes
    partition, bucket  answers, by key; GONE where the newest entry says so or has expired
    errors             CorruptFileError when the bytes are not a block; keys are looked up by halving, so hashes that
                       do not ascend are not noticed and only make keys missing
    """
    raw = np.frombuffer(data, np.uint8)
    n = int.from_bytes(data[4:8], "little") if len(data) >= _HEADER else -1
    fits = data[:4] == MAGIC and 0 <= n <= (len(data) - _HEADER) // _ENTRY
    if not fits or not _probe(raw, n, hashes, keys.data, keys.offsets, rows, expire_before, partition, bucket):
        raise CorruptFileError(f"not a block of key state: {len(data)} bytes")


def take_rows(keys: RowBytes, order: Ints) -> RowBytes:
    """Take some byte strings, packed again."""
    offsets = np.zeros(len(order) + 1, np.int64)
    np.cumsum(keys.lengths[order], out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    _gather(frozen(keys.data), frozen(keys.offsets), frozen(order), frozen(offsets), data)
    return RowBytes(data, offsets)


@kernel
def _prefix(data: Any, offsets: Any, prefix: Any, out_offsets: Any, out: Any) -> None:
    for i in range(len(prefix)):
        start, at = offsets[i], out_offsets[i]
        for j in range(4):
            out[at + j] = np.uint8((prefix[i] >> (8 * j)) & 0xFF)
        for j in range(offsets[i + 1] - start):
            out[at + 4 + j] = data[start + j]


@kernel
def _gather(data: Any, offsets: Any, order: Any, out_offsets: Any, out: Any) -> None:
    for i in range(len(order)):
        start, at = offsets[order[i]], out_offsets[i]
        for j in range(offsets[order[i] + 1] - start):
            out[at + j] = data[start + j]


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


@kernel
def _probe(
    raw: Any,
    n: Any,
    hashes: Any,
    data: Any,
    offsets: Any,
    rows: Any,
    expire_before: Any,
    partition: Any,
    bucket: Any,
) -> Any:
    """Return False when a key area is not inside the block."""
    ends, partitions = 8 + 8 * n, 8 + 12 * n
    buckets, written, area = 8 + 16 * n, 8 + 20 * n, 8 + 24 * n
    at = 0
    for row in rows:
        h = hashes[row]
        # Gallop, then halve: few keys on a large page skip far, many on a small one step.
        step = 1
        while at + step < n and load_u64(raw, 8 + 8 * (at + step)) < h:
            at += step
            step *= 2
        low, high = at, min(n, at + step + 1)
        while low < high:
            middle = (low + high) >> 1
            if load_u64(raw, 8 + 8 * middle) < h:
                low = middle + 1
            else:
                high = middle
        at = low
        i = at
        length = offsets[row + 1] - offsets[row]
        while i < n and load_u64(raw, 8 + 8 * i) == h:
            start = np.int64(load_u32(raw, ends + 4 * (i - 1))) if i > 0 else 0
            end = np.int64(load_u32(raw, ends + 4 * i))
            if start > end or area + end > len(raw):
                return False
            if end - start == length and same_span(raw, area + start, data, offsets[row], length):
                alive = np.int64(load_u32(raw, written + 4 * i)) >= expire_before
                partition[row] = np.int32(load_u32(raw, partitions + 4 * i)) if alive else -1
                bucket[row] = np.int32(load_u32(raw, buckets + 4 * i))
                break
            i += 1
    return True
