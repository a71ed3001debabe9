"""Kernels of the key state's segments: packing entries into slots, probing them, unpacking and comparing keys.

The layout is said in `lakeidx.key_index.state.segments`. Arrays that are read past a value's end (`load_u64`) have eight bytes
more than they need.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakeidx.codec.jit import helper, inlined, kernel, load_u32, load_u64, store_u64
from lakeidx.key_index.keys.sets import same_span

#: Slots of a block.
SLOTS = 256
#: Keys of a group.
GROUP = 256
#: The place of a key that was removed, or has expired: partition -1, bucket 0.
GONE_PLACE = -(1 << 32)


@inlined
def _slot_of(h: Any, shard_bits: Any, slot_bits: Any) -> Any:
    return np.int64(np.uint64(np.uint64(h) << np.uint64(shard_bits)) >> np.uint64(64 - slot_bits))


@inlined
def _print_of(h: Any, skipped: Any, bits: Any) -> Any:
    return np.uint64(np.uint64(h) << np.uint64(skipped)) >> np.uint64(64 - bits)


@inlined
def _count_at(raw: Any, at: Any, width: Any) -> Any:
    value = np.int64(raw[at])
    for i in range(1, width):
        value |= np.int64(raw[at + i]) << (8 * i)
    return value


@helper
def _sum_counts(raw: Any, base: Any, width: Any, starts: Any) -> Any:
    """Fill in where the entries of each slot of a block begin; returns how many there are."""
    for s in range(SLOTS):
        starts[s + 1] = starts[s] + _count_at(raw, base + s * width, width)
    return starts[SLOTS]


@inlined
def _see(i: Any, at: Any, place: Any, seen: Any) -> None:
    """Note a place of row i."""
    if seen[i] == 0:
        place[i], seen[i] = at, 1
    elif place[i] != at:
        seen[i] = 2


@kernel
def pack_blocks(hashes: Any, codes: Any, counts: Any, shape: Any, starts: Any, out: Any) -> None:
    """Write the blocks of a segment.

    hashes   uint64[n] ascending
    codes    uint32[n] place numbers
    counts   int64[slots]
    shape    int64[5] shard_bits, slot_bits, print_bits, code_bits, count_width
    starts   int64[blocks] where each block begins in `out`
    out      uint8[], zeros
    """
    skipped, print_bits, width = shape[0] + shape[1], shape[2], shape[4]
    entry_bits = shape[2] + shape[3]
    at = 0
    for block in range(len(starts)):
        base = starts[block]
        held = 0
        for s in range(SLOTS):
            count = counts[block * SLOTS + s]
            held += count
            for i in range(width):
                out[base + s * width + i] = np.uint8((count >> (8 * i)) & 0xFF)
        first_bit = (base + SLOTS * width) * 8
        for i in range(held):
            value = _print_of(hashes[at], skipped, print_bits) | (np.uint64(codes[at]) << np.uint64(print_bits))
            bit = first_bit + i * entry_bits
            store_u64(out, bit >> 3, load_u64(out, bit >> 3) | (value << np.uint64(bit & 7)))
            at += 1


# Blocks are given as
# raw          uint8[] the blocks that were read
# block_at     int64[blocks] where each is in `raw`, -1 = not read
# block_first  int64[blocks + 1] number of each block's first entry
# shape        see `pack_blocks`
# places       int64[] partition << 32 | bucket
# written      uint32[entries], or uint32[0] when nothing expires
@kernel
def probe_blocks(
    raw: Any,
    block_at: Any,
    block_first: Any,
    shape: Any,
    places: Any,
    written: Any,
    expire_before: Any,
    hashes: Any,
    own: Any,
    only_own: Any,
    place: Any,
    seen: Any,
    hit_row: Any,
    hit_rank: Any,
    hit_place: Any,
) -> Any:
    """Look hashes up in the blocks of one segment.

    hashes       uint64[m] ascending
    own          int64[m] partition of each row
    only_own     entries of other partitions are other keys
    place, seen  int64[m], uint8[m], filled in: 0 no entry yet, 1 one place, 2 entries of several places
    hit_row, hit_rank, hit_place   int64[], filled up to their length with the entries of those prints
    returns      number of such entries, -1 for blocks that contradict the head
    """
    shard_bits, slot_bits, print_bits, code_bits, width = shape[0], shape[1], shape[2], shape[3], shape[4]
    print_mask = (np.uint64(1) << np.uint64(print_bits)) - np.uint64(1)
    code_mask = (np.uint64(1) << np.uint64(code_bits)) - np.uint64(1)
    starts = np.zeros(SLOTS + 1, np.int64)
    current, found, base = -1, 0, 0
    for i in range(len(hashes)):
        slot = _slot_of(hashes[i], shard_bits, slot_bits)
        if slot // SLOTS != current:
            current = slot // SLOTS
            base = block_at[current]
            if base < 0:
                return -1
            if _sum_counts(raw, base, width, starts) != block_first[current + 1] - block_first[current]:
                return -1
            base = (base + SLOTS * width) * 8
        for j in range(starts[slot % SLOTS], starts[slot % SLOTS + 1]):
            bit = base + j * (print_bits + code_bits)
            value = load_u64(raw, bit >> 3) >> np.uint64(bit & 7)
            if value & print_mask != _print_of(hashes[i], shard_bits + slot_bits, print_bits):
                continue
            code = np.int64((value >> np.uint64(print_bits)) & code_mask)
            if code >= len(places):
                return -1
            at = places[code]
            if only_own and (at >> 32) != own[i]:
                continue
            rank = block_first[current] + j
            if len(written) and np.int64(written[rank]) < expire_before:
                at = GONE_PLACE
            _see(i, at, place, seen)
            if found < len(hit_row):
                hit_row[found], hit_rank[found], hit_place[found] = i, rank, at
            found += 1
    return found


@kernel
def unpack_keys(raw: Any, ends: Any, offsets: Any, out: Any) -> Any:
    """Read keys in groups, the lengths of a group's keys (u32), then their bytes; False when lengths do not fill their groups."""
    n = len(offsets) - 1
    at = np.int64(0)
    start = np.int64(0)
    for g in range(len(ends)):
        low, high = g * GROUP, min(n, (g + 1) * GROUP)
        body = start + 4 * (high - low)
        if body > ends[g]:
            return False
        first = at
        for i in range(low, high):
            at += np.int64(load_u32(raw, start + 4 * (i - low)))
            offsets[i + 1] = at
        if at - first != ends[g] - body or at > len(out):
            return False
        b = np.int64(0)
        while b + 8 <= at - first:
            store_u64(out, first + b, load_u64(raw, body + b))
            b += 8
        while b < at - first:
            out[first + b] = raw[body + b]
            b += 1
        start = ends[g]
    return at == len(out)


@kernel
def match_keys(
    raw: Any, group_at: Any, group_size: Any, n: Any, ranks: Any, rows: Any, data: Any, offsets: Any, out: Any
) -> Any:
    """Compare the keys of entries with keys that are looked for.

    raw         uint8[] the groups that were read
    group_at, group_size   int64[groups] where each is in `raw`, and its bytes
    n           entries of the segment
    ranks, rows int64[h] entry, and key number among `data`, `offsets`
    out         bool[h], filled in
    returns     False when a key is not inside its group
    """
    for k in range(len(ranks)):
        g = ranks[k] // GROUP
        within, count = ranks[k] % GROUP, min(GROUP, n - g * GROUP)
        at, size = group_at[g], group_size[g]
        if at < 0 or 4 * count > size:
            return False
        start = np.int64(4 * count)
        for i in range(within):
            start += np.int64(load_u32(raw, at + 4 * i))
        length = np.int64(load_u32(raw, at + 4 * within))
        if start + length > size:
            return False
        row = rows[k]
        out[k] = offsets[row + 1] - offsets[row] == length and same_span(raw, at + start, data, offsets[row], length)
    return True
