"""Kernels that check and search SST blocks (`format.lookup.sst`).

A file is given to kernels as one *descriptor*: the address of an int64 array of addresses and sizes, see the slots below. Blocks
are searched only after `check_body` accepted them, so searching needs no bounds checks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakeidx.codec.jit import helper, inlined, kernel
from lakeidx.codec.memory import compare_memory, copy_bytes, load_i64, load_u8, load_u32, prefetch
from lakeidx.codec.varint import MAX_INT, load_varint, load_varint_unchecked
from lakeidx.lookup.bloom import bloom_add, hash_and_filter, hash_at
from lakeidx.lookup.keys.order import common_prefix, compare_keys, rank_of, row_fault, shares_prefix


@inlined
def _entry_address(body: Any, i: Any, step: Any, end: Any) -> Any:
    """Return where entry i of a checked body begins."""
    return body + (i * step if step else np.int64(load_u32(body + end + 4 * i)))


@inlined
def _entry_at(body: Any, i: Any, step: Any, end: Any) -> Any:
    """Return size and address of the key of entry i of a checked body."""
    return load_varint_unchecked(_entry_address(body, i, step, end))


@kernel
def check_body(  # noqa: C901 - a kernel is one loop
    body: Any, size: Any, codes: Any, fields: Any, before: Any, before_size: Any, last: Any, last_size: Any, whole: Any
) -> Any:
    """Check a block body: its tail, every entry, every key's form, and that keys increase up to the index's key.

    whole    False leaves out the form and the order of the keys: a writer that checks them wrote the bytes
    before   address of the last key of the block before, `before_size` -1 for none
    last     address of the index's key for this block, `last_size` -1 to leave that out (the index block itself)
    returns  (position of the fault or -1, entries, entry size or 0, end of the entries, length of the keys' common prefix)
    """
    tail = size - 5
    if tail < 0:
        return 0, 0, 0, 0, 0
    number = np.int64(np.int32(load_u32(body + tail)))
    kind = load_u8(body + tail + 4)
    if kind == 0:
        if number <= 0 or tail % number:
            return tail, 0, 0, 0, 0
        count, step, end = tail // number, number, tail
    else:
        end = tail - 4 * number
        if kind != 1 or number < 0 or end < 0:
            return tail, 0, 0, 0, 0
        count, step = number, np.int64(0)
    at = np.int64(0)
    for i in range(count):
        if step:
            start = i * step
        else:
            start = np.int64(np.int32(load_u32(body + end + 4 * i)))
        if start != at:
            return at, 0, 0, 0, 0
        key_size, key = load_varint(body + at, body + end)
        if key == 0 or key_size > body + end - key:
            return at, 0, 0, 0, 0
        value_size, value = load_varint(key + key_size, body + end)
        if value == 0 or value_size > body + end - value:
            return at, 0, 0, 0, 0
        if whole:
            if fields and row_fault(key, key_size, codes, fields):
                return at, 0, 0, 0, 0
            if before_size >= 0 and compare_keys(before, before_size, key, key_size, codes, fields) >= 0:
                return at, 0, 0, 0, 0
        before, before_size = key, key_size
        at = value + value_size - body
    if at != end:
        return at, 0, 0, 0, 0
    if last_size >= 0 and (
        count == 0 or before_size != last_size or compare_memory(before, before_size, last, last_size)
    ):
        return end, 0, 0, 0, 0
    skip = np.int64(0)
    if count:
        first_size, first = _entry_at(body, 0, step, end)
        skip = common_prefix(first, first_size, before, before_size, codes, fields)
    return -1, count, step, end, skip


@kernel
def check_bodies(
    bodies: Any, sizes: Any, numbers: Any, codes: Any, fields: Any, keys: Any, key_offsets: Any, whole: Any,
    counts: Any, steps: Any, ends: Any, skips: Any,
) -> Any:  # fmt: skip
    """Check the bodies of blocks numbers[...], given by address and size, into arrays by block number.

    keys, key_offsets  addresses of the index's keys
    returns            (which of the blocks is damaged or -1, position of the fault in its body)
    """
    for j in range(len(numbers)):
        number = numbers[j]
        start = load_i64(key_offsets + 8 * number)
        before: Any = np.int64(0)
        before_size: Any = np.int64(-1)
        if number:
            before_size = start - load_i64(key_offsets + 8 * number - 8)
            before = keys + start - before_size
        last_size = load_i64(key_offsets + 8 * number + 8) - start
        fault, count, step, end, skip = check_body(
            bodies[j], sizes[j], codes, fields, before, before_size, keys + start, last_size, whole
        )
        if fault >= 0:
            return np.int64(j), np.int64(fault)
        # The same values whenever a block is loaded again, so readers that still use an old copy are not disturbed.
        counts[number], steps[number], ends[number], skips[number] = count, step, end, skip
    return np.int64(-1), np.int64(0)


@kernel
def body_sizes(data: Any, ends: Any, starts: Any, numbers: Any, out: Any) -> None:
    """Write the body size of each block numbers[...] into out, by its unchecked prefix; 0 when it is not compressed."""
    for j in range(len(numbers)):
        start, end = starts[numbers[j]], ends[numbers[j]]
        out[j] = load_varint(data + start, data + end)[0] if load_u8(data + end) else 0


@kernel
def read_handles(values: Any, sizes: Any, trailer: Any, starts: Any, ends: Any) -> Any:
    """Read the byte ranges of data blocks from the values of the index: one after another from 0 on, each with its trailer.

    values   int64[n], address of each value; sizes int64[n]
    starts   int64[n], of the stored bodies; ends the same
    returns  (which value is damaged or -1, where the last block ends with its trailer)
    """
    place: Any = np.int64(0)
    for i in range(len(values)):
        limit = values[i] + sizes[i]
        offset, at = load_varint(values[i], limit)
        if at == 0 or offset != place:
            return np.int64(i), place
        size, at = load_varint(at, limit)
        if at != limit or size > MAX_INT:
            return np.int64(i), place
        starts[i], ends[i] = place, place + size
        place += size + trailer
    return np.int64(-1), place


@kernel
def spans_of_body(
    body: Any, count: Any, step: Any, end: Any, keys: Any, key_sizes: Any, values: Any, sizes: Any
) -> None:
    """Write the addresses and sizes of all keys and values of a checked body into int64[count] each."""
    for i in range(count):
        at = body + (i * step if step else np.int64(load_u32(body + end + 4 * i)))
        key_sizes[i], keys[i] = load_varint_unchecked(at)
        sizes[i], values[i] = load_varint_unchecked(keys[i] + key_sizes[i])


# Slots of a file's descriptor.
(
    FILTER,  # address of the Bloom filter's bytes, 0 without one
    FILTER_BITS,
    FILTER_PROBES,
    LAST_KEYS,  # address of the last keys of all blocks, one after another
    LAST_KEY_OFFSETS,  # address of int64[blocks + 1]
    BLOCKS,
    CODES,  # key order: address and number of type codes, 0 for plain bytes
    FIELDS,
    BODIES,  # address of int64[blocks]: address of each block body, 0 when it is not in memory
    COUNTS,  # address of int64[blocks]: entries
    STEPS,  # address of int64[blocks]: entry size, 0 when the sizes differ
    ENDS,  # address of int64[blocks]: where the entries end in the body
    SKIPS,  # address of int64[blocks]: length of the prefix all keys of the block share
    LAST_RANKS,  # address of uint64[blocks]: ranks of the last keys
    LAST_SKIP,  # length of the prefix all last keys share
) = range(15)
DESCRIPTOR_SLOTS = 15

ABSENT = -1
_GROUP = 256
#: Keys whose searches wait for memory together.
_ABREAST = 16


@kernel
def _slot(descriptor: Any, slot: Any) -> Any:
    return load_i64(descriptor + 8 * slot)


@kernel
def ranks_of(keys: Any, offsets: Any, n: Any, codes: Any, fields: Any, skip: Any, out: Any) -> None:
    """Rank of each key into out uint64[n]."""
    for i in range(n):
        start = load_i64(offsets + 8 * i)
        out[i] = rank_of(keys + start, load_i64(offsets + 8 * i + 8) - start, codes, fields, skip)


@kernel
def _find_block(descriptor: Any, key: Any, size: Any) -> Any:
    """Find the only block that can contain the key; ABSENT when the key is greater than all."""
    keys, offsets = _slot(descriptor, LAST_KEYS), _slot(descriptor, LAST_KEY_OFFSETS)
    codes, fields = _slot(descriptor, CODES), _slot(descriptor, FIELDS)
    blocks, skip = _slot(descriptor, BLOCKS), _slot(descriptor, LAST_SKIP)
    if blocks == 0:
        return np.int64(ABSENT)
    low = np.int64(0)
    if skip == 0 or shares_prefix(key, size, keys, load_i64(offsets + 8), skip, codes, fields):
        ranks = _slot(descriptor, LAST_RANKS)
        rank = rank_of(key, size, codes, fields, skip)
        n = blocks
        while n > 1:
            half = n >> 1
            low += half if np.uint64(load_i64(ranks + 8 * (low + half - 1))) < rank else 0
            n -= half
        low += 1 if np.uint64(load_i64(ranks + 8 * low)) < rank else 0
        if low == blocks:
            return np.int64(ABSENT)
        if np.uint64(load_i64(ranks + 8 * low)) != rank:
            return low
    high = blocks
    while low < high:
        middle = (low + high) >> 1
        start = load_i64(offsets + 8 * middle)
        if compare_keys(keys + start, load_i64(offsets + 8 * middle + 8) - start, key, size, codes, fields) < 0:
            low = middle + 1
        else:
            high = middle
    return low if low < blocks else np.int64(ABSENT)


@helper
def _find_from(
    body: Any, low: Any, count: Any, step: Any, end: Any, key: Any, size: Any, codes: Any, fields: Any
) -> Any:
    """Search a checked body from `low` on: the first entry whose rank is not smaller than the key's, or the one before it."""
    high = count
    n = np.int64(1)
    while low < high:
        # The first two probes are nearly always the last; only keys of equal rank need a real search.
        middle = low if n > -1 else (low + high) >> 1
        n -= 1
        entry_size, entry = _entry_at(body, middle, step, end)
        order = compare_keys(entry, entry_size, key, size, codes, fields)
        if order == 0:
            value_size, value = load_varint_unchecked(entry + entry_size)
            return value, value_size
        if order < 0:
            low = middle + 1
        else:
            high = middle
    return np.int64(0), np.int64(-1)


@kernel
def locate_many(descriptor: Any, keys: Any, offsets: Any, n: Any, blocks: Any, counts: Any, key_bytes: Any) -> None:
    """Locate the block of each key into blocks int32[n] (ABSENT when filter or index exclude it), with the number and bytes of
    the keys of each block (int64 each).
    """
    hashes, passing = np.empty(_GROUP, np.uint32), np.empty(_GROUP, np.int64)
    filter_address = _slot(descriptor, FILTER)
    bits, probes = _slot(descriptor, FILTER_BITS), _slot(descriptor, FILTER_PROBES)
    for first in range(0, n, _GROUP):
        group = min(np.int64(_GROUP), n - first)
        passed = hash_and_filter(keys, offsets, first, group, filter_address, bits, probes, hashes, passing)
        blocks[first : first + group] = ABSENT
        for at in range(passed):
            i = first + passing[at]
            start = load_i64(offsets + 8 * i)
            size = load_i64(offsets + 8 * i + 8) - start
            block = _find_block(descriptor, keys + start, size)
            blocks[i] = block
            if block >= 0:
                counts[block] += 1
                key_bytes[block] += size


@kernel
def partition(
    keys: Any, offsets: Any, blocks: Any, next_place: Any, next_byte: Any, places: Any, target: Any, starts: Any
) -> None:
    """Copy the keys that have a block to address `target`, block by block.

    next_place, next_byte  int64[number of blocks], the block's first place and byte; used up
    places                 int32[n], place of key i, or -1
    starts                 int64[placed keys + 1], byte at which the key of each place begins; the last number is set before
    """
    for i in range(len(blocks)):
        block = blocks[i]
        if block < 0:
            places[i] = -1
            continue
        start = load_i64(offsets + 8 * i)
        size = load_i64(offsets + 8 * i + 8) - start
        place, at = next_place[block], next_byte[block]
        next_place[block] += 1
        next_byte[block] += size
        copy_bytes(target + at, keys + start, size)
        starts[place] = at
        places[i] = place


@helper
def _search_abreast(
    descriptor: Any, keys: Any, starts: Any, blocks: Any, places: Any, n: Any, found: Any, sizes: Any
) -> Any:
    """Search the keys of n places, each in its block, step by step over all of them: none waits alone for memory.

    returns  bytes of the values found
    """
    codes, fields = _slot(descriptor, CODES), _slot(descriptor, FIELDS)
    bodies, counts, steps = _slot(descriptor, BODIES), _slot(descriptor, COUNTS), _slot(descriptor, STEPS)
    ends, skips = _slot(descriptor, ENDS), _slot(descriptor, SKIPS)
    lows, left, probes = np.zeros(n, np.int64), np.zeros(n, np.int64), np.empty(n, np.int64)
    ranks = np.zeros(n, np.uint64)
    most: Any = np.int64(0)
    for j in range(n):
        at = 8 * blocks[j]
        key, size, skip = keys + starts[places[j]], starts[places[j] + 1] - starts[places[j]], load_i64(skips + at)
        if skip:
            first_size, first = _entry_at(load_i64(bodies + at), 0, load_i64(steps + at), load_i64(ends + at))
            if not shares_prefix(key, size, first, first_size, skip, codes, fields):
                continue
        ranks[j], left[j] = rank_of(key, size, codes, fields, skip), load_i64(counts + at)
        most = max(most, left[j])
    while most > 0:
        for j in range(n):
            at, ahead = 8 * blocks[j], max(np.int64(0), (left[j] >> 1) - 1)
            probes[j] = _entry_address(
                load_i64(bodies + at), lows[j] + ahead, load_i64(steps + at), load_i64(ends + at)
            )
            prefetch(probes[j])
        if most == 1:
            break
        for j in range(n):
            half = left[j] >> 1
            entry_size, entry = load_varint_unchecked(probes[j])
            rank = rank_of(entry, entry_size, codes, fields, load_i64(skips + 8 * blocks[j]))
            lows[j] += half if rank < ranks[j] else 0
            left[j] -= half
        most -= most >> 1
    total: Any = np.int64(0)
    for j in range(n):
        place, at = places[j], 8 * blocks[j]
        found[place], size = _find_from(
            load_i64(bodies + at), lows[j], load_i64(counts + at) if left[j] else lows[j], load_i64(steps + at),
            load_i64(ends + at), keys + starts[place], starts[place + 1] - starts[place], codes, fields,
        )  # fmt: skip
        sizes[place] = size
        total += max(size, np.int64(0))
    return total


@kernel
def search_many(
    descriptor: Any, keys: Any, starts: Any, part: Any, first_places: Any, counts: Any, found: Any, sizes: Any
) -> Any:
    """Search the partitioned keys of the blocks part[...], which must be in memory.

    found    int64[placed keys], address of each value
    sizes    int32[placed keys], its size, or -1
    returns  bytes of all values found
    """
    blocks, places = np.empty(_ABREAST, np.int64), np.empty(_ABREAST, np.int64)
    n, total = np.int64(0), np.int64(0)
    for block in part:
        for place in range(first_places[block], first_places[block] + counts[block]):
            blocks[n], places[n] = block, place
            n += 1
            if n == _ABREAST:
                total += _search_abreast(descriptor, keys, starts, blocks, places, n, found, sizes)
                n = np.int64(0)
    return total + _search_abreast(descriptor, keys, starts, blocks, places, n, found, sizes)


@kernel
def copy_found(first: Any, last: Any, found: Any, sizes: Any, target: Any) -> None:
    """Copy the values of places first..last-1 one after another to address `target`; `found` names the copies then."""
    for place in range(first, last):
        size = np.int64(sizes[place])
        if size > 0:
            copy_bytes(target, found[place], size)
            found[place] = target
            target += size


@kernel
def answer_offsets(places: Any, sizes: Any, found: Any, offsets: Any) -> None:
    """Compute which keys were found (bool[n]) and the running sum of the sizes of their values (int64[n + 1])."""
    total: Any = np.int64(0)
    offsets[0] = 0
    for i in range(len(places)):
        place = places[i]
        size = np.int64(sizes[place]) if place >= 0 else np.int64(-1)
        found[i] = size >= 0
        total += max(size, 0)
        offsets[i + 1] = total


@kernel
def gather_entries(places: Any, found: Any, target: Any, offsets: Any) -> None:
    """Copy the value of each key to its offset from address `target`."""
    for i in range(len(places)):
        size = offsets[i + 1] - offsets[i]
        if size > 0:
            copy_bytes(target + offsets[i], found[places[i]], size)


@kernel
def add_to_filter(keys: Any, key_sizes: Any, filter_address: Any, bits: Any, probes: Any) -> None:
    """Add keys given by address and size to a Bloom filter."""
    for i in range(len(keys)):
        bloom_add(hash_at(keys[i], key_sizes[i]), filter_address, bits, probes)
