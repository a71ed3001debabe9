"""Kernels that turn columns of keys and values into SST block bodies (`format.lookup.sst`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from lakeidx.codec.jit import kernel
from lakeidx.codec.memory import compare_bytes, copy_bytes, load_i64, store_i64, store_u8, store_u32
from lakeidx.codec.varint import store_varint, varint_size
from lakeidx.lookup.bloom import bloom_add
from lakeidx.lookup.keys.order import compare_keys

# State of the block being filled: int64 each.
SIZE, COUNT, ALIGNED, ENTRY_SIZE, STOP, NEEDED = range(6)
STATE_SLOTS = 6
# Why `append_entries` came back.
INPUT_USED_UP, BLOCK_FULL, BODY_TOO_SMALL, ENTRY_TOO_LARGE = range(4)
_MAX_BODY = 2147483647
_TAIL = 5


@kernel
def append_entries(
    state: Any,
    body: Any,
    body_capacity: Any,
    starts: Any,
    keys: Any,
    key_offsets: Any,
    values: Any,
    value_offsets: Any,
    i: Any,
    n: Any,
    block_size: Any,
) -> Any:
    """Append entries i, i+1, ... to the open block until it is full, the input ends or memory is short.

    state    address of int64[6]; zeros with ALIGNED 1 for a new block
    body     address of the block's bytes, `body_capacity` of them
    starts   address of int64[body_capacity / 2 + 1], start of each entry
    returns  number of the first entry that was not appended; state[STOP] says why it stopped
    """
    size, count = load_i64(state), load_i64(state + 8)
    aligned, entry_size = load_i64(state + 16), load_i64(state + 24)
    stop = INPUT_USED_UP
    while i < n:
        key, key_end = load_i64(key_offsets + 8 * i), load_i64(key_offsets + 8 * i + 8)
        value, value_end = load_i64(value_offsets + 8 * i), load_i64(value_offsets + 8 * i + 8)
        key_size, value_size = key_end - key, value_end - value
        now = varint_size(key_size) + key_size + varint_size(value_size) + value_size
        needed = size + now + 4 * (count + 1) + _TAIL
        if needed > body_capacity:
            stop = BODY_TOO_SMALL if needed <= _MAX_BODY else ENTRY_TOO_LARGE
            store_i64(state + 8 * NEEDED, needed)
            break
        at = store_varint(body + size, key_size)
        copy_bytes(at, keys + key, key_size)
        at = store_varint(at + key_size, value_size)
        copy_bytes(at, values + value, value_size)
        store_i64(starts + 8 * count, size)
        size += now
        count += 1
        if entry_size == 0:
            entry_size = now
        elif entry_size != now:
            aligned = 0
        i += 1
        if size + _TAIL + (0 if aligned else 4 * count) > block_size:
            stop = BLOCK_FULL
            break
    store_i64(state, size)
    store_i64(state + 8, count)
    store_i64(state + 16, aligned)
    store_i64(state + 24, entry_size)
    store_i64(state + 8 * STOP, stop)
    return i


@kernel
def close_body(state: Any, body: Any, starts: Any) -> Any:
    """Append the tail of the block and make the state that of a new one.

    returns  bytes of the body
    """
    size, count = load_i64(state), load_i64(state + 8)
    if load_i64(state + 16):
        store_u32(body + size, load_i64(state + 24))
        store_u8(body + size + 4, 0)
    else:
        for i in range(count):
            store_u32(body + size, load_i64(starts + 8 * i))
            size += 4
        store_u32(body + size, count)
        store_u8(body + size + 4, 1)
    for slot in range(STATE_SLOTS):
        store_i64(state + 8 * slot, 0)
    store_i64(state + 16, 1)
    return size + _TAIL


@kernel
def first_disorder(keys: Any, offsets: Any, n: Any, before: Any, before_size: Any, codes: Any, fields: Any) -> Any:
    """Find the first key that is not greater than the one before it, or n.

    before   address of the key that precedes keys[0]; `before_size` -1 for none
    """
    for i in range(n):
        start, end = load_i64(offsets + 8 * i), load_i64(offsets + 8 * i + 8)
        key, size = keys + start, end - start
        if before_size >= 0:
            if fields == 0:
                order = compare_bytes(before, before_size, key, size)
            else:
                order = compare_keys(before, before_size, key, size, codes, fields)
            if order >= 0:
                return i
        before, before_size = key, size
    return n


@kernel
def add_hashes(hashes: Any, filter_address: Any, bits: Any, probes: Any) -> Any:
    """Add keys given by their int32 hashes to a Bloom filter."""
    if bits:
        for h in hashes:
            bloom_add(np.uint32(h), filter_address, bits, probes)
