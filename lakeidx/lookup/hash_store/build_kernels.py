"""Kernels that build the image of a hash lookup file (`format.lookup.hash_store`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from lakeidx.codec.jit import kernel
from lakeidx.codec.memory import compare_bytes, copy_bytes, load_i64, load_u8, prefetch
from lakeidx.codec.varint import store_varint, varint_size
from lakeidx.lookup.bloom import bloom_add, hash_at

_AHEAD = 12


@kernel
def hash_keys(keys: Any, offsets: Any, n: Any, hashes: Any) -> None:
    """Hash of each key into hashes uint32[n]."""
    for i in range(n):
        start = load_i64(offsets + 8 * i)
        hashes[i] = hash_at(keys + start, load_i64(offsets + 8 * i + 8) - start)


@kernel
def lay_out_values(
    key_offsets: Any, values: Any, value_offsets: Any, n: Any, counts: Any, data_sizes: Any, widths: Any, last: Any,
    places: Any,
) -> None:  # fmt: skip
    """Assign each value its offset in the data section of its key's length, in insertion order.

    counts, data_sizes, widths  int64[longest key + 1]: keys, bytes of the data section, longest varint of an offset
    last                        int64[longest key + 1]: entry whose value was put last for the length; -1 at first
    places                      int64[n]: offset of the value; negated when it is that of the value before
    """
    for i in range(n):
        length = load_i64(key_offsets + 8 * i + 8) - load_i64(key_offsets + 8 * i)
        start = load_i64(value_offsets + 8 * i)
        size = load_i64(value_offsets + 8 * i + 8) - start
        before = last[length]
        last[length] = i
        counts[length] += 1
        if before >= 0:
            old = load_i64(value_offsets + 8 * before)
            old_size = load_i64(value_offsets + 8 * before + 8) - old
            if old_size == size and compare_bytes(values + old, old_size, values + start, size) == 0:
                places[i] = -abs(places[before])
                continue
        else:
            data_sizes[length] = 1
        places[i] = data_sizes[length]
        widths[length] = max(widths[length], varint_size(data_sizes[length]))
        data_sizes[length] += varint_size(size) + size


@kernel
def fill_image(
    image: Any, keys: Any, key_offsets: Any, values: Any, value_offsets: Any, n: Any, hashes: Any, places: Any,
    slots: Any, slot_sizes: Any, index_offsets: Any, data_offsets: Any, filter_bits: Any, probes: Any,
) -> Any:  # fmt: skip
    """Write filter, slots and values into a zeroed image.

    slots, slot_sizes, index_offsets, data_offsets   int64[longest key + 1]
    filter_bits   bits of the filter at the start of the image, 0 without one
    returns       number of the first entry whose key was put before, or n
    """
    for i in range(n):
        # Slots are hit at random: have the coming ones on their way.
        j = min(i + _AHEAD, n - 1)
        far = load_i64(key_offsets + 8 * j + 8) - load_i64(key_offsets + 8 * j)
        prefetch(
            image + index_offsets[far] + np.int64(hashes[j] & np.uint32(0x7FFFFFFF)) % slots[far] * slot_sizes[far]
        )
        key = keys + load_i64(key_offsets + 8 * i)
        length = keys + load_i64(key_offsets + 8 * i + 8) - key
        table, slot_size, count = image + index_offsets[length], slot_sizes[length], slots[length]
        slot = np.int64(hashes[i] & np.uint32(0x7FFFFFFF)) % count
        while load_u8(table + slot * slot_size + length):
            if compare_bytes(table + slot * slot_size, length, key, length) == 0:
                return i
            slot = slot + 1 if slot + 1 < count else np.int64(0)
        at = table + slot * slot_size
        copy_bytes(at, key, length)
        store_varint(at + length, abs(places[i]))
        if places[i] > 0:
            start = load_i64(value_offsets + 8 * i)
            size = load_i64(value_offsets + 8 * i + 8) - start
            copy_bytes(store_varint(image + data_offsets[length] + places[i], size), values + start, size)
        if filter_bits:
            bloom_add(hashes[i], image, filter_bits, probes)
    return n
