"""Kernels that check and search SST blocks (`format.sst`).

A file is given to kernels as one *descriptor*: the address of an int64 array of addresses and sizes, see the slots below. Blocks
are searched only after `check_body` accepted them, so searching needs no bounds checks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakeidx.codec.jit import kernel
from lakeidx.codec.memory import bytes_address, compare_bytes, copy_bytes, load_i64, load_u8, load_u32
from lakeidx.codec.varint import load_varint, load_varint_unchecked
from lakeidx.lookup.bloom import bloom_add, bloom_has, hash_at
from lakeidx.lookup.key_order import compare_keys, row_fault
from lakeidx.lookup.packed import kernel_with_lock

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
) = range(12)
DESCRIPTOR_SLOTS = 12

# What `lookup_one` says in its first number when it is no block number.
ABSENT = -1
BAD_KEY = -2
_MAX_INT = 2147483647


@kernel
def _slot(descriptor: Any, slot: Any) -> Any:
    return load_i64(descriptor + 8 * slot)


@kernel
def check_body(
    body: Any, size: Any, codes: Any, fields: Any, before: Any, before_size: Any, last: Any, last_size: Any
) -> Any:
    """Check a block body: its tail, every entry, every key's form, and that keys increase up to the index's key.

    before   address of the last key of the block before, `before_size` -1 for none
    last     address of the index's key for this block, `last_size` -1 to leave that out (the index block itself)
    returns  (position of the fault or -1, entries, entry size or 0, end of the entries)
    """
    tail = size - 5
    if tail < 0:
        return 0, 0, 0, 0
    number = np.int64(np.int32(load_u32(body + tail)))
    kind = load_u8(body + tail + 4)
    if kind == 0:
        if number <= 0 or tail % number:
            return tail, 0, 0, 0
        count, step, end = tail // number, number, tail
    else:
        end = tail - 4 * number
        if kind != 1 or number < 0 or end < 0:
            return tail, 0, 0, 0
        count, step = number, np.int64(0)
    at = np.int64(0)
    for i in range(count):
        if step:
            start = i * step
        else:
            start = np.int64(np.int32(load_u32(body + end + 4 * i)))
        if start != at:
            return at, 0, 0, 0
        key_size, key = load_varint(body + at, body + end)
        if key == 0 or key_size > body + end - key:
            return at, 0, 0, 0
        value_size, value = load_varint(key + key_size, body + end)
        if value == 0 or value_size > body + end - value:
            return at, 0, 0, 0
        if fields and row_fault(key, key_size, codes, fields):
            return at, 0, 0, 0
        if before_size >= 0 and compare_keys(before, before_size, key, key_size, codes, fields) >= 0:
            return at, 0, 0, 0
        before, before_size = key, key_size
        at = value + value_size - body
    if at != end:
        return at, 0, 0, 0
    if last_size >= 0 and (count == 0 or before_size != last_size or compare_bytes(before, before_size, last, last_size)):
        return end, 0, 0, 0
    return -1, count, step, end


@kernel
def find_block(descriptor: Any, key: Any, size: Any) -> Any:
    """Number of the only block that can hold the key; ABSENT when the filter or the index says no."""
    filter_address = _slot(descriptor, FILTER)
    if filter_address and not bloom_has(
        hash_at(key, size), filter_address, _slot(descriptor, FILTER_BITS), _slot(descriptor, FILTER_PROBES)
    ):
        return np.int64(ABSENT)
    keys, offsets = _slot(descriptor, LAST_KEYS), _slot(descriptor, LAST_KEY_OFFSETS)
    codes, fields = _slot(descriptor, CODES), _slot(descriptor, FIELDS)
    low, high = np.int64(0), _slot(descriptor, BLOCKS)
    blocks = high
    while low < high:
        middle = (low + high) >> 1
        start = load_i64(offsets + 8 * middle)
        length = load_i64(offsets + 8 * middle + 8) - start
        if fields == 0:
            order = compare_bytes(keys + start, length, key, size)
        else:
            order = compare_keys(keys + start, length, key, size, codes, fields)
        if order < 0:
            low = middle + 1
        else:
            high = middle
    return low if low < blocks else np.int64(ABSENT)


@kernel
def find_in_body(body: Any, count: Any, step: Any, end: Any, key: Any, size: Any, codes: Any, fields: Any) -> Any:
    """Search a checked body.

    returns  (address of the value, its size); size -1 when the key is not there
    """
    low, high = np.int64(0), count
    while low < high:
        middle = (low + high) >> 1
        if step:
            at = body + middle * step
        else:
            at = body + np.int64(load_u32(body + end + 4 * middle))
        length, at = load_varint_unchecked(at)
        if fields == 0:
            order = compare_bytes(at, length, key, size)
        else:
            order = compare_keys(at, length, key, size, codes, fields)
        if order == 0:
            value_size, value = load_varint_unchecked(at + length)
            return value, value_size
        if order < 0:
            low = middle + 1
        else:
            high = middle
    return np.int64(0), np.int64(-1)


@kernel_with_lock
def lookup_one(descriptor: Any, key: Any) -> Any:
    """Look one key (Python bytes) up. Holds the interpreter lock, so that no block is dropped while it is read.

    returns  (block, start of the value in its body, size); block may be ABSENT or BAD_KEY (then start is the fault);
             size -1 when the block is not in memory
    """
    address, size = bytes_address(key), np.int64(len(key))
    codes, fields = _slot(descriptor, CODES), _slot(descriptor, FIELDS)
    if fields:
        fault = row_fault(address, size, codes, fields)
        if fault:
            return np.int64(BAD_KEY), np.int64(fault), np.int64(0)
    block = find_block(descriptor, address, size)
    if block < 0:
        return block, np.int64(0), np.int64(0)
    body = load_i64(_slot(descriptor, BODIES) + 8 * block)
    if body == 0:
        return block, np.int64(0), np.int64(-1)
    value, value_size = find_in_body(
        body,
        load_i64(_slot(descriptor, COUNTS) + 8 * block),
        load_i64(_slot(descriptor, STEPS) + 8 * block),
        load_i64(_slot(descriptor, ENDS) + 8 * block),
        address,
        size,
        codes,
        fields,
    )
    if value_size < 0:
        return np.int64(ABSENT), np.int64(0), np.int64(0)
    return block, value - body, value_size


@kernel
def locate_many(descriptor: Any, keys: Any, offsets: Any, n: Any, blocks: Any, counts: Any) -> None:
    """`find_block` of each key into blocks int32[n]; counts int64[number of blocks] takes how many keys each block has."""
    for i in range(n):
        start = load_i64(offsets + 8 * i)
        block = find_block(descriptor, keys + start, load_i64(offsets + 8 * i + 8) - start)
        blocks[i] = block
        if block >= 0:
            counts[block] += 1


@kernel
def order_by_block(blocks: Any, next_place: Any, order: Any) -> None:
    """Numbers of the keys that have a block, by block: next_place int64[number of blocks] holds each block's first place."""
    for i in range(len(blocks)):
        block = blocks[i]
        if block >= 0:
            order[next_place[block]] = i
            next_place[block] += 1


@kernel
def search_many(descriptor: Any, keys: Any, offsets: Any, blocks: Any, order: Any, found: Any, sizes: Any) -> None:
    """Search the keys order[...] in their blocks, which must be in memory.

    Going block by block keeps a block in the CPU's cache for all its keys.
    found    int64[n], address of each value
    sizes    int64[n], its size, or -1
    """
    codes, fields = _slot(descriptor, CODES), _slot(descriptor, FIELDS)
    bodies, counts = _slot(descriptor, BODIES), _slot(descriptor, COUNTS)
    steps, ends = _slot(descriptor, STEPS), _slot(descriptor, ENDS)
    for at in range(len(order)):
        i = order[at]
        place = 8 * np.int64(blocks[i])
        start = load_i64(offsets + 8 * i)
        found[i], sizes[i] = find_in_body(
            load_i64(bodies + place),
            load_i64(counts + place),
            load_i64(steps + place),
            load_i64(ends + place),
            keys + start,
            load_i64(offsets + 8 * i + 8) - start,
            codes,
            fields,
        )


@kernel
def value_offsets(sizes: Any, offsets: Any) -> Any:
    """Running sum of the sizes (-1 counts as 0) into offsets int64[n + 1]; returns the total."""
    total = np.int64(0)
    offsets[0] = 0
    for i in range(len(sizes)):
        total += max(sizes[i], 0)
        offsets[i + 1] = total
    return total


@kernel
def gather(found: Any, sizes: Any, target: Any, offsets: Any) -> None:
    """Copy the value of each key to its place at address `target`."""
    for i in range(len(sizes)):
        if sizes[i] > 0:
            copy_bytes(target + offsets[i], found[i], sizes[i])


@kernel
def gather_part(found: Any, sizes: Any, order: Any, target: Any) -> None:
    """Copy the values of the keys order[...] one after another to address `target` and let `found` name the copies."""
    for at in range(len(order)):
        i = order[at]
        if sizes[i] > 0:
            copy_bytes(target, found[i], sizes[i])
            found[i] = target
            target += sizes[i]


@kernel
def spans_of_body(body: Any, count: Any, step: Any, end: Any, keys: Any, key_sizes: Any, values: Any, sizes: Any) -> None:
    """Addresses and sizes of all keys and values of a checked body, into int64[count] each."""
    for i in range(count):
        at = body + (i * step if step else np.int64(load_u32(body + end + 4 * i)))
        key_sizes[i], keys[i] = load_varint_unchecked(at)
        sizes[i], values[i] = load_varint_unchecked(keys[i] + key_sizes[i])


@kernel
def add_to_filter(keys: Any, key_sizes: Any, filter_address: Any, bits: Any, probes: Any) -> None:
    """Put keys given by address and size into a Bloom filter."""
    for i in range(len(keys)):
        bloom_add(hash_at(keys[i], key_sizes[i]), filter_address, bits, probes)
