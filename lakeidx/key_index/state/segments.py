"""Segments of the key state: the entries of one shard in one run, as bytes of a file. Little endian.

A segment has four parts, each in its own area of the file (`lakeidx.key_index.state.run_files`):

==========  ====================================================================================================================
part        content
==========  ====================================================================================================================
head        ``LXK1``, u8 shard_bits, slot_bits, print_bits, code_bits, count_width, 3 zeros; u32 entries, places, blocks, groups,
            first and last time written, CRC-32 of the columns; then i32[places][2] partition number (-1 = removed) and bucket,
            u32[blocks] end, u32[blocks] first entry, u32[blocks] CRC-32; u64[groups] end, u32[groups] CRC-32
blocks      of 256 slots each: the number of entries of each slot, then `print` and place number of each entry, bit after bit.
            The bits of a hash behind the shard's say the slot, the bits behind those are the print
keys        groups of 256 keys: u32 lengths, then the keys' bytes
columns     u64[n] hash, i32[n] partition number, i32[n] bucket, u32[n] when it was written, epoch seconds
==========  ====================================================================================================================

Entries ascend by hash in all of them. A look-up reads the head and the blocks of its keys: some 3 bytes for each key of the
state. Keys are read where only they can tell; the columns where runs are merged.

Shard, slot and print together are 34 bits of the hash at least, so two keys that look the same in a block have one hash in the
table, too; and ten bits more than number the keys of the state, so few do.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.containers.checksum import crc32, crc32_ranges
from lakeidx.codec.distinct import ascending_distinct, sorted_distinct
from lakeidx.codec.jit import frozen
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError
from lakeidx.key_index.state.entries import GONE, Entries, Ints
from lakeidx.key_index.state.segment_kernels import (
    GROUP,
    SLOTS,
    pack_blocks,
    unpack_keys,
)

MAGIC = b"LXK1"
COLUMN_BYTES = 20
_HEAD = struct.Struct("<4s5B3x7I")
#: A segment has the slots of one block at least.
_MIN_SLOT_BITS = SLOTS.bit_length() - 1
_PER_SLOT = 6
_MIN_HASH_BITS, _SPARE_BITS = 34, 10
_MIN_PRINT, _MAX_PRINT = 8, 24
_DENSE_PLACES = 1 << 22
#: Zeros behind bytes that kernels read in words.
PADDING = bytes(8)


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """The parts of an encoded segment, and how many entries it has.

    keys, columns   in pieces, which share the memory of the entries: they are copied once, into the file
    counts          entries of each (partition number, bucket), those of removed keys left out
    """

    entries: int
    head: bytes
    blocks: memoryview
    keys: Sequence[memoryview]
    columns: Sequence[memoryview]
    counts: dict[tuple[int, int], int]

    @property
    def parts(self) -> tuple[Sequence[bytes | memoryview], ...]:
        """The pieces of head, blocks, keys and columns."""
        return (self.head,), (self.blocks,), self.keys, self.columns

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(len(piece) for part in self.parts for piece in part)


@dataclass(frozen=True, slots=True, eq=False)
class SegmentHead:
    """Content of the head.

    shape        int64[5] shard_bits, slot_bits, print_bits, code_bits, count_width
    places       int64[places] partition << 32 | bucket
    block_ends   int64[blocks + 1], from 0
    block_first  int64[blocks + 1], from 0 to the number of entries
    group_ends   int64[groups + 1], from 0
    written      first and last time, epoch seconds
    """

    entries: int
    shape: Ints
    places: Ints
    block_ends: Ints
    block_first: Ints
    block_crcs: npt.NDArray[np.uint32]
    group_ends: Ints
    group_crcs: npt.NDArray[np.uint32]
    written: tuple[int, int]
    columns_crc: int

    def blocks_of(self, hashes: npt.NDArray[np.uint64]) -> Ints:
        """Return the blocks that some ascending hashes of the shard are in, ascending and each once."""
        shard_bits, slot_bits = int(self.shape[0]), int(self.shape[1])
        slots = (hashes << np.uint64(shard_bits)) >> np.uint64(64 - slot_bits)
        return ascending_distinct(slots >> np.uint64(_MIN_SLOT_BITS)).astype(np.int64)


def encode_segment(entries: Entries, *, shard_bits: int, state_rows: int) -> Segment:
    """Encode the entries of one shard.

    entries     ascending by hash, each key once; all hashes begin with the shard's bits
    state_rows  entries of the whole state, about: decides how much of a hash is kept beside the places
    """
    n = len(entries)
    codes, places = _place_codes(entries)
    slot_bits = max(_MIN_SLOT_BITS, (max(1, n) // _PER_SLOT).bit_length())
    code_bits = max(1, (len(places) - 1).bit_length())
    wanted = max(_MIN_HASH_BITS, state_rows.bit_length() + _SPARE_BITS) - shard_bits - slot_bits
    print_bits = min(_MAX_PRINT, max(_MIN_PRINT, wanted))
    hashes = frozen(entries.hashes)
    slots = (hashes << np.uint64(shard_bits)) >> np.uint64(64 - slot_bits)
    counts = np.bincount(slots.view(np.int64), minlength=1 << slot_bits)
    most = int(counts.max())
    width = next(w for w in (1, 2, 4) if most < 1 << (8 * w))
    held = counts.reshape(-1, SLOTS).sum(axis=1)
    first = np.concatenate([[0], np.cumsum(held)])
    ends = np.cumsum(SLOTS * width + (held * (print_bits + code_bits) + 7) // 8)
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    shape = np.array([shard_bits, slot_bits, print_bits, code_bits, width], np.int64)
    raw = np.zeros(int(ends[-1]) + len(PADDING), np.uint8)
    pack_blocks(hashes, frozen(codes), frozen(counts), frozen(shape), frozen(starts), raw)
    blocks = raw[: int(ends[-1])].data
    groups, group_ends = _key_groups(entries.keys)
    columns = _columns(entries)
    written = (int(entries.written.min()), int(entries.written.max())) if n else (0, 0)
    head = b"".join(
        (
            _HEAD.pack(MAGIC, *shape.tolist(), n, len(places), len(starts), len(group_ends), *written, crc32(*columns)),
            places.astype("<i4").tobytes(),
            ends.astype("<u4").tobytes(),
            first[:-1].astype("<u4").tobytes(),
            crc32_ranges(blocks, starts.tolist(), ends.tolist()).astype("<u4").tobytes(),
            group_ends.astype("<u8").tobytes(),
            np.array([crc32(*group) for group in groups], "<u4").tobytes(),
        )
    )
    counted = zip(places.tolist(), np.bincount(codes, minlength=len(places)).tolist(), strict=True)
    by_place = {(p, b): c for (p, b), c in counted if p != GONE}
    return Segment(n, head, blocks, [piece for group in groups for piece in group], columns, by_place)


def decode_head(data: bytes, path: str | None = None) -> SegmentHead:
    """Read a head.

    errors   CorruptFileError when its numbers do not fit together
    """
    try:
        magic, *shape, n, places, blocks, groups, low, high, crc = _HEAD.unpack_from(data)
        at = _HEAD.size
        where = np.frombuffer(data, "<i4", 2 * places, at).reshape(-1, 2).astype(np.int64)
        at += 8 * places
        ends, first, crcs = (np.frombuffer(data, "<u4", blocks, at + 4 * blocks * i) for i in range(3))
        at += 12 * blocks
        group_ends = np.frombuffer(data, "<u8", groups, at).astype(np.int64)
        group_crcs = np.frombuffer(data, "<u4", groups, at + 8 * groups)
        at += 12 * groups
    except (struct.error, ValueError) as error:
        raise CorruptFileError(f"not the head of a segment of key state: {error}", path=path) from error
    head = SegmentHead(
        n,
        frozen(np.array(shape, np.int64)),
        frozen((where[:, 0] << 32) | where[:, 1]),
        np.concatenate([[0], ends]).astype(np.int64),
        frozen(np.append(first, n).astype(np.int64)),
        crcs,
        np.concatenate([[0], group_ends]).astype(np.int64),
        group_crcs,
        (low, high),
        crc,
    )
    if magic != MAGIC or at != len(data) or not _fits(head):
        raise CorruptFileError("the head of a segment of key state contradicts itself", path=path, offset=0)
    return head


def first_head(data: bytes, path: str | None = None) -> SegmentHead:
    """Read the head that a file begins with.

    errors   CorruptFileError
    """
    if len(data) < _HEAD.size:
        raise CorruptFileError(f"not a file of key state: {len(data)} bytes", path=path)
    _, *_, places, blocks, groups, _, _, _ = _HEAD.unpack_from(data)
    return decode_head(data[: _HEAD.size + 8 * places + 12 * blocks + 12 * groups], path)


def decode_entries(head: SegmentHead, keys: memoryview, columns: memoryview, path: str | None = None) -> Entries:
    """Read the entries of a segment.

    errors   CorruptFileError when a checksum or a length differs
    """
    n = head.entries
    groups = crc32_ranges(keys, head.group_ends[:-1].tolist(), head.group_ends[1:].tolist())
    if len(keys) != head.group_ends[-1] or not np.array_equal(groups, head.group_crcs):
        raise CorruptFileError("the keys of a segment of key state differ from their checksums", path=path)
    if len(columns) != COLUMN_BYTES * n or crc32(columns) != head.columns_crc:
        raise CorruptFileError("the columns of a segment of key state differ from their checksum", path=path)
    offsets = np.zeros(n + 1, np.int64)
    data = np.empty(max(0, len(keys) - 4 * n), np.uint8)
    raw = frozen(np.frombuffer(keys, np.uint8))
    if not unpack_keys(raw, frozen(head.group_ends[1:]), offsets, data):
        raise CorruptFileError("the keys of a segment of key state do not fill it", path=path)
    hashes = np.frombuffer(columns, "<u8", n)
    partition, bucket, written = (
        np.frombuffer(columns, kind, n, 8 * n + 4 * n * i) for i, kind in enumerate(("<i4", "<i4", "<u4"))
    )
    return Entries(hashes, RowBytes(data, offsets), partition, bucket, written)


def _fits(head: SegmentHead) -> bool:
    shard_bits, slot_bits, print_bits, code_bits, width = head.shape.tolist()
    held = np.diff(head.block_first)
    sizes = SLOTS * width + (held * (print_bits + code_bits) + 7) // 8
    groups = np.full(-(-head.entries // GROUP), GROUP)
    if len(groups):
        groups[-1] = head.entries - GROUP * (len(groups) - 1)
    return bool(
        width in (1, 2, 4)
        and _MIN_SLOT_BITS <= slot_bits <= 32
        and 1 <= print_bits <= _MAX_PRINT
        and 1 <= code_bits <= 32
        and shard_bits + slot_bits + print_bits <= 64
        and len(held) == 1 << (slot_bits - _MIN_SLOT_BITS)
        and bool((held >= 0).all())
        and np.array_equal(np.diff(head.block_ends), sizes)
        and len(head.group_ends) == len(groups) + 1
        and bool((np.diff(head.group_ends) >= 4 * groups).all())
    )


def _place_codes(entries: Entries) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Assign numbers to the distinct places.

    returns   uint32[n] place of each entry, int64[p, 2] partition number and bucket of each place
    """
    if not len(entries):
        return np.zeros(0, np.uint32), np.zeros((0, 2), np.int64)
    bucket = np.where(entries.partition == GONE, 0, entries.bucket)
    span = int(bucket.max()) + 1
    ids = entries.partition.astype(np.int64)
    ids += 1
    ids *= span
    ids += bucket
    size = int(ids.max()) + 1
    if size <= _DENSE_PLACES:
        present = np.zeros(size, np.bool_)
        present[ids] = True
        distinct = np.flatnonzero(present)
        numbers = np.zeros(size, np.uint32)
        numbers[distinct] = np.arange(len(distinct))
        codes = numbers[ids]
    else:
        distinct = sorted_distinct(ids)
        codes = np.searchsorted(distinct, ids).astype(np.uint32)
    return codes, np.stack([distinct // span - 1, distinct % span], axis=1)


def _key_groups(keys: RowBytes) -> tuple[list[tuple[memoryview, memoryview]], Ints]:
    """Return the lengths of each group's keys and their bytes, and int64[groups] where each group ends."""
    lengths, data = _bytes_of(keys.lengths.astype("<u4")), _bytes_of(keys.data)
    bounds = np.append(keys.offsets[:-1:GROUP], keys.offsets[-1])
    groups = [
        (lengths[4 * GROUP * i : 4 * GROUP * (i + 1)], data[low:high])
        for i, (low, high) in enumerate(pairwise(bounds.tolist()))
    ]
    behind = np.minimum(np.arange(1, len(bounds)) * GROUP, len(keys))
    return groups, bounds[1:] - bounds[0] + 4 * behind


def _columns(entries: Entries) -> list[memoryview]:
    bucket = np.where(entries.partition == GONE, 0, entries.bucket)
    columns = ((entries.hashes, "<u8"), (entries.partition, "<i4"), (bucket, "<i4"), (entries.written, "<u4"))
    return [_bytes_of(column.astype(kind, copy=False)) for column, kind in columns]


def _bytes_of(column: npt.NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(column).view(np.uint8).data
