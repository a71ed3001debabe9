"""Kernels that look keys up in the image of a hash lookup file (`format.lookup.hash_store`).

A file is given as one *descriptor*, the address of an int64 array, see the slots below. The image is seen through a table of
page addresses, in which 0 means "not in memory"; a file that is mapped and checked whole is one page. `hash_store.check_context`
vouches for the position of tables and sections; what slots and values say is checked here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakeidx.codec.jit import inlined, kernel
from lakeidx.codec.memory import compare_memory, copy_bytes, load_i64, load_u8, prefetch
from lakeidx.codec.varint import load_varint
from lakeidx.lookup.bloom import bloom_has, hash_and_filter, hash_at

# Slots of a file's descriptor.
(
    FILTER,  # address of the Bloom filter's bytes, 0 without one
    FILTER_BITS,
    FILTER_PROBES,
    PAGES,  # address of int64[pages]: address of each page, 0 when it is not in memory
    PAGE_SHIFT,  # log2 of the page size
    LENGTHS,  # longest key + 1; the arrays below are int64[LENGTHS], 0 for lengths without keys
    SLOTS,
    SLOT_SIZES,
    INDEX_OFFSETS,
    DATA_OFFSETS,
    DATA_ENDS,
) = range(11)
DESCRIPTOR_SLOTS = 11

# Where a key's search stands, int64 each (see `advance`).
PROBE, PLACE, SIZE = range(3)
ABSENT, FOUND, NEEDS_PAGES, DAMAGED = range(4)
_MAX_VARINT = 5
_GROUP = 64


@kernel
def _slot(descriptor: Any, slot: Any) -> Any:
    return load_i64(descriptor + 8 * slot)


@inlined
def _of_length(descriptor: Any, slot: Any, length: Any) -> Any:
    return load_i64(_slot(descriptor, slot) + 8 * length)


@kernel
def span(descriptor: Any, place: Any, size: Any, scratch: Any) -> Any:
    """Address of `size` > 0 bytes of the image; copied to `scratch` when they cross pages; 0 when a page is not in memory."""
    shift, pages = _slot(descriptor, PAGE_SHIFT), _slot(descriptor, PAGES)
    first, last = place >> shift, (place + size - 1) >> shift
    inside = place - (first << shift)
    if first == last:
        page = load_i64(pages + 8 * first)
        return page + inside if page else np.int64(0)
    for page in range(first, last + 1):
        if load_i64(pages + 8 * page) == 0:
            return np.int64(0)
    at = scratch
    for page in range(first, last + 1):
        part = min(size, (np.int64(1) << shift) - inside)
        copy_bytes(at, load_i64(pages + 8 * page) + inside, part)
        at, size, inside = at + part, size - part, np.int64(0)
    return scratch


@kernel
def _home_slot(descriptor: Any, key: Any, length: Any) -> Any:
    """Find the slot where the search for a key starts; -1 when no key has its length or the filter excludes it."""
    if length >= _slot(descriptor, LENGTHS):
        return np.int64(-1)
    slots = _of_length(descriptor, SLOTS, length)
    if slots == 0:
        return np.int64(-1)
    h = hash_at(key, length)
    bits = _slot(descriptor, FILTER)
    if bits and not bloom_has(h, bits, _slot(descriptor, FILTER_BITS), _slot(descriptor, FILTER_PROBES)):
        return np.int64(-1)
    return np.int64(h & np.uint32(0x7FFFFFFF)) % slots


@kernel
def probe(descriptor: Any, key: Any, length: Any, slot: Any, probes: Any, scratch: Any) -> Any:
    """Probe from a slot until the key or a free slot.

    probes   slots examined before
    returns  (outcome, place, slots examined): FOUND with the value's place in the image; ABSENT; NEEDS_PAGES with the place of
             the slot; DAMAGED with its place
    """
    slots, slot_size = _of_length(descriptor, SLOTS, length), _of_length(descriptor, SLOT_SIZES, length)
    table = _of_length(descriptor, INDEX_OFFSETS, length)
    data, end = _of_length(descriptor, DATA_OFFSETS, length), _of_length(descriptor, DATA_ENDS, length)
    slot += probes
    slot -= slots if slot >= slots else 0
    while probes < slots:
        place = table + slot * slot_size
        at = span(descriptor, place, slot_size, scratch)
        if at == 0:
            return NEEDS_PAGES, place, probes
        if load_u8(at + length) == 0:
            return ABSENT, place, probes
        if compare_memory(at, length, key, length) == 0:
            offset, after = load_varint(at + length, at + slot_size)
            if after == 0 or offset >= end - data:
                return DAMAGED, place + length, probes
            return FOUND, data + offset, probes
        probes += 1
        slot = slot + 1 if slot + 1 < slots else np.int64(0)
    return ABSENT, table, probes


@kernel
def _value_range(descriptor: Any, place: Any, length: Any, scratch: Any) -> Any:
    """Read the size before a value.

    returns  (outcome, place, size): FOUND with place and size of the value; NEEDS_PAGES or DAMAGED with the place given
    """
    end = _of_length(descriptor, DATA_ENDS, length)
    at = span(descriptor, place, min(np.int64(_MAX_VARINT), end - place), scratch)
    if at == 0:
        return NEEDS_PAGES, place, np.int64(0)
    size, after = load_varint(at, at + min(np.int64(_MAX_VARINT), end - place))
    start = place + after - at
    if after == 0 or size > end - start:
        return DAMAGED, place, np.int64(0)
    return FOUND, start, size


@kernel
def lookup_batch(
    descriptor: Any, keys: Any, offsets: Any, i: Any, n: Any, found: Any, out: Any, capacity: Any, out_offsets: Any,
    scratch: Any,
) -> Any:  # fmt: skip
    """Look up keys i, i + 1, ... with every page in memory, writing values one after another to address `out`.

    Slots and values lie all over the image: a group of keys asks for its cache lines before it reads them.
    found, out_offsets  bool[n]; int64[n + 1], set up to i
    returns             (first key not answered, outcome, place): n when all are; else FOUND when the value at `place` does
                        not fit, or DAMAGED
    """
    slots, places = np.empty(_GROUP, np.int64), np.empty(_GROUP, np.int64)
    hashes, passing = np.empty(_GROUP, np.uint32), np.empty(_GROUP, np.int64)
    filter_address, lengths = _slot(descriptor, FILTER), _slot(descriptor, LENGTHS)
    bits, probes = _slot(descriptor, FILTER_BITS), _slot(descriptor, FILTER_PROBES)
    shift, pages = _slot(descriptor, PAGE_SHIFT), _slot(descriptor, PAGES)
    at = out_offsets[i]
    while i < n:
        count = min(np.int64(_GROUP), n - i)
        passed = hash_and_filter(keys, offsets, i, count, filter_address, bits, probes, hashes, passing)
        slots[:] = -1
        for at_passing in range(passed):
            j = passing[at_passing]
            length = load_i64(offsets + 8 * (i + j) + 8) - load_i64(offsets + 8 * (i + j))
            if length < lengths and _of_length(descriptor, SLOTS, length):
                slot = np.int64(hashes[j] & np.uint32(0x7FFFFFFF)) % _of_length(descriptor, SLOTS, length)
                slots[j] = slot
                place = _of_length(descriptor, INDEX_OFFSETS, length) + slot * _of_length(
                    descriptor, SLOT_SIZES, length
                )
                prefetch(load_i64(pages + 8 * (place >> shift)) + (place & ((np.int64(1) << shift) - 1)))
        for j in range(count):
            places[j] = -1
            if slots[j] >= 0:
                start = load_i64(offsets + 8 * (i + j))
                length = load_i64(offsets + 8 * (i + j) + 8) - start
                outcome, place, _ = probe(descriptor, keys + start, length, slots[j], np.int64(0), scratch)
                if outcome == DAMAGED:
                    return i, DAMAGED, place
                if outcome == FOUND:
                    places[j] = place
                    prefetch(load_i64(pages + 8 * (place >> shift)) + (place & ((np.int64(1) << shift) - 1)))
        for j in range(count):
            found[i] = places[j] >= 0
            if places[j] >= 0:
                length = load_i64(offsets + 8 * i + 8) - load_i64(offsets + 8 * i)
                outcome, place, size = _value_range(descriptor, places[j], length, scratch)
                if outcome == DAMAGED:
                    return i, DAMAGED, place
                if size > capacity - at:
                    return i, FOUND, size
                if size:
                    # A value that crosses pages is put together at its target; one that does not is copied there.
                    source = span(descriptor, place, size, out + at)
                    if source != out + at:
                        copy_bytes(out + at, source, size)
                at += size
            i += 1
            out_offsets[i] = at
    return n, ABSENT, np.int64(0)


@kernel
def begin_many(descriptor: Any, keys: Any, offsets: Any, n: Any, slots: Any) -> None:
    """Compute `_home_slot` of each key into slots int64[n]."""
    for i in range(n):
        start = load_i64(offsets + 8 * i)
        slots[i] = _home_slot(descriptor, keys + start, load_i64(offsets + 8 * i + 8) - start)


@kernel
def needs_of(descriptor: Any, offsets: Any, slots: Any, state: Any, todo: Any, first: Any, last: Any) -> None:
    """Compute the first and last page that each key of todo[...] needs for its next step, into int64[len(todo)] each."""
    shift = _slot(descriptor, PAGE_SHIFT)
    for j in range(len(todo)):
        i = todo[j]
        length = load_i64(offsets + 8 * i + 8) - load_i64(offsets + 8 * i)
        if state[i, SIZE] >= 0:
            place, size = state[i, PLACE], state[i, SIZE]
        elif state[i, PLACE] >= 0:
            place = state[i, PLACE]
            size = min(np.int64(_MAX_VARINT), _of_length(descriptor, DATA_ENDS, length) - place)
        else:
            size = _of_length(descriptor, SLOT_SIZES, length)
            slot = (slots[i] + state[i, PROBE]) % _of_length(descriptor, SLOTS, length)
            place = _of_length(descriptor, INDEX_OFFSETS, length) + slot * size
        first[j], last[j] = place >> shift, (place + max(size, 1) - 1) >> shift


@kernel
def advance(
    descriptor: Any, keys: Any, offsets: Any, slots: Any, state: Any, todo: Any, outcomes: Any, scratch: Any
) -> Any:
    """Advance the keys todo[...] as far as the pages in memory allow.

    state     int64[n, 3]: slots examined; place of the value (or of its size), -1 while searching; size of the value, -1
              while it is not known
    outcomes  int64[len(todo)]: FOUND when all pages of the value are in memory, ABSENT, or NEEDS_PAGES
    returns   place of damage, or -1
    """
    shift, pages = _slot(descriptor, PAGE_SHIFT), _slot(descriptor, PAGES)
    for j in range(len(todo)):
        i = todo[j]
        start = load_i64(offsets + 8 * i)
        length = load_i64(offsets + 8 * i + 8) - start
        if state[i, PLACE] < 0:
            outcome, place, probes = probe(descriptor, keys + start, length, slots[i], state[i, PROBE], scratch)
            state[i, PROBE] = probes
            outcomes[j] = outcome
            if outcome == DAMAGED:
                return place
            if outcome != FOUND:
                continue
            state[i, PLACE] = place
        if state[i, SIZE] < 0:
            outcome, place, size = _value_range(descriptor, state[i, PLACE], length, scratch)
            outcomes[j] = outcome
            if outcome == DAMAGED:
                return place
            if outcome != FOUND:
                continue
            state[i, PLACE], state[i, SIZE] = place, size
        outcomes[j] = FOUND
        if state[i, SIZE]:
            for page in range(state[i, PLACE] >> shift, ((state[i, PLACE] + state[i, SIZE] - 1) >> shift) + 1):
                if load_i64(pages + 8 * page) == 0:
                    outcomes[j] = NEEDS_PAGES
    return np.int64(-1)


@kernel
def copy_values(descriptor: Any, state: Any, done: Any, target: Any, addresses: Any) -> None:
    """Copy the values of the keys done[...] one after another to address `target`; addresses int64[n] names the copies."""
    for i in done:
        size = state[i, SIZE]
        addresses[i] = target
        if size:
            source = span(descriptor, state[i, PLACE], size, target)
            if source != target:
                copy_bytes(target, source, size)
        target += size


@kernel
def gather_slots(state: Any, addresses: Any, found: Any, target: Any, offsets: Any) -> None:
    """Copy the values of the found keys to their offsets (int64[n + 1]) from address `target`."""
    for i in range(len(found)):
        if found[i]:
            copy_bytes(target + offsets[i], addresses[i], state[i, SIZE])
