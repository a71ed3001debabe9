"""Kernels that check SST blocks (`format.lookup.sst`) before they are searched, and read their handles and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from lakeidx.codec.jit import inlined, kernel
from lakeidx.codec.memory import compare_bytes, load_i64, load_u8, load_u32
from lakeidx.codec.varint import MAX_INT, load_varint, load_varint_unchecked
from lakeidx.lookup.keys.order import compare_keys, row_fault
from lakeidx.lookup.keys.rank import common_prefix


@inlined
def entry_address(body: Any, i: Any, step: Any, end: Any) -> Any:
    """Return where entry i of a checked body begins."""
    return body + (i * step if step else np.int64(load_u32(body + end + 4 * i)))


@inlined
def entry_at(body: Any, i: Any, step: Any, end: Any) -> Any:
    """Return size and address of the key of entry i of a checked body."""
    return load_varint_unchecked(entry_address(body, i, step, end))


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
        count == 0 or before_size != last_size or compare_bytes(before, before_size, last, last_size)
    ):
        return end, 0, 0, 0, 0
    skip = np.int64(0)
    if count:
        first_size, first = entry_at(body, 0, step, end)
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
def body_sizes(data: Any, ends: Any, starts: Any, numbers: Any, out: Any, payloads: Any) -> None:
    """Write the body size of each block numbers[...] into out, by its unchecked prefix; 0 when it is not compressed.

    payloads   int64[n], takes where the compressed bytes begin; -1 where the prefix is damaged
    """
    for j in range(len(numbers)):
        start, end = starts[numbers[j]], ends[numbers[j]]
        out[j], payloads[j] = 0, start
        if load_u8(data + end):
            out[j], at = load_varint(data + start, data + end)
            payloads[j] = at - data if at and out[j] <= MAX_INT else np.int64(-1)


@kernel
def entry_counts(data: Any, starts: Any, ends: Any, out: Any) -> None:
    """Write the number of entries of each block, by its unchecked tail; 0 for an impossible number."""
    for i in range(len(starts)):
        size = ends[i] - starts[i] - 5
        out[i] = 0
        if size >= 0:
            number = np.int64(np.int32(load_u32(data + ends[i] - 5)))
            if load_u8(data + ends[i] - 1):
                out[i] = max(np.int64(0), number)
            elif number > 0:
                out[i] = size // number


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
