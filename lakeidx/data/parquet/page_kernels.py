"""Values at some rows of one data page, found without making the others: kernels over the page's bytes.

==========================  ==========================================================================================
encoding                    how a row's value is found
==========================  ==========================================================================================
PLAIN 0                     numbers: by their place; byte strings: by walking the lengths
PLAIN_DICTIONARY 2,         an index into the dictionary; runs without a wanted row are passed over
RLE_DICTIONARY 8
DELTA_BINARY_PACKED 5       the sum of the differences so far; miniblocks without a wanted row are only added up
==========================  ==========================================================================================

Definition levels of a column that may be null are RLE runs of one bit: a null row has no value among the encoded ones. Every length
is checked against the bytes there are; damage is said by a number below 0.

source   parquet-format 2.10 ``Encodings.md``
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakeidx.codec.jit import helper, inlined, kernel, load_u32, load_u64
from lakeidx.codec.memory import bytes_at, copy_bytes, load_i64
from lakeidx.codec.memory import load_u32 as load_word
from lakeidx.data.parquet.page_headers import DATA_2, DEFINITION, ENCODING, KIND
from lakeidx.data.parquet.thrift import read_varint, zigzag

PLAIN, OLD_DICTIONARY, DELTA, DICTIONARY = 0, 2, 5, 8
_NULL = np.int64(-1)
_MOST_BLOCK = 1 << 20


@inlined
def _word(data: Any, at: Any) -> Any:
    """Load 8 bytes, zeros after the end."""
    if at + 8 <= len(data):
        return load_u64(data, at)
    word = np.uint64(0)
    for i in range(len(data) - at):
        word |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return word


@helper
def _packed(data: Any, bit: Any, width: Any) -> Any:
    """Load a number of up to 64 bits that begins at a bit; the caller has made sure of its bytes."""
    at, shift = bit >> 3, np.uint64(bit & 7)
    word = _word(data, at) >> shift
    if width + (bit & 7) > 64:
        word |= np.uint64(data[at + 8]) << (np.uint64(64) - shift)
    return word if width == 64 else word & ((np.uint64(1) << np.uint64(width)) - np.uint64(1))


@helper
def _run(data: Any, at: Any, end: Any, width: Any) -> Any:
    """Read the head of a run: (values, bit where packed values begin or -1, value of a repeated one, position after the run)."""
    head, at = read_varint(data[:end], at)
    if at < 0 or head < 0:
        return np.int64(0), _NULL, np.int64(0), np.int64(-1)
    if head & 1:
        groups = head >> 1
        # What follows the last value may be left out.
        fit = (end - at + width - 1) // width if width else groups
        groups = min(groups, fit)
        return groups * 8, at * 8, np.int64(0), min(end, at + groups * width)
    size = (width + 7) >> 3
    if size > end - at:
        return np.int64(0), _NULL, np.int64(0), np.int64(-1)
    value = np.int64(0)
    for i in range(size):
        value |= np.int64(data[at + i]) << (8 * i)
    return head >> 1, _NULL, value, at + size


@helper
def _ordinals(data: Any, at: Any, end: Any, wanted: Any, out: Any) -> Any:
    """Turn rows into places among the values that are not null.

    at, end   of the definition levels, runs of one bit
    wanted    int64[k] rising rows of the page
    out       int64[k]: the place, or -1 for a null
    returns   0, or -1 for damage
    """
    done, places, k = np.int64(0), np.int64(0), 0
    while k < len(wanted):
        count, packed, value, at = _run(data, at, end, np.int64(1))
        if at < 0 or count == 0:
            return -1
        if packed < 0:
            while k < len(wanted) and wanted[k] < done + count:
                out[k] = places + wanted[k] - done if value else _NULL
                k += 1
            places += count if value else 0
        else:
            for i in range(min(count, end * 8 - packed)):
                here = data[(packed + i) >> 3] >> np.uint8((packed + i) & 7) & 1
                if k < len(wanted) and wanted[k] == done + i:
                    out[k] = places if here else _NULL
                    k += 1
                places += here
        done += count
        if k < len(wanted) and wanted[k] < done:
            return -1
    return 0


@helper
def _pick_numbers(data: Any, at: Any, width: Any, wanted: Any, out: Any) -> Any:
    """Return PLAIN numbers at some places: int64[k], 4-byte ones sign-extended. `wanted` may have -1 for nulls, here and below."""
    room = (len(data) - at) // width
    for k in range(len(wanted)):
        if wanted[k] >= room:
            return -1
        out[k] = 0
        if wanted[k] >= 0:
            place = at + wanted[k] * width
            out[k] = np.int64(load_u64(data, place)) if width == 8 else np.int64(np.int32(load_u32(data, place)))
    return 0


@helper
def _pick_strings(data: Any, at: Any, wanted: Any, starts: Any, sizes: Any) -> Any:
    """Find PLAIN byte strings at some places: where each begins and its size; a null has none and no size."""
    end, place = len(data), np.int64(0)
    for k in range(len(wanted)):
        starts[k] = sizes[k] = 0
        if wanted[k] < 0:
            continue
        while True:
            if at + 4 > end:
                return -1
            size = np.int64(load_u32(data, at))
            at += 4
            if size > end - at:
                return -1
            if place == wanted[k]:
                starts[k] = at
                sizes[k] = size
            at += size
            place += 1
            if place > wanted[k]:
                break
    return 0


@helper
def _pick_indices(data: Any, at: Any, wanted: Any, out: Any) -> Any:
    """Return dictionary indices at some places: int64[k], 0 for a null."""
    end = len(data)
    if at >= end:
        width = np.int64(0)
    else:
        width = np.int64(data[at])
        at += 1
    if width > 32:
        return -1
    done, k = np.int64(0), 0
    while True:
        while k < len(wanted) and wanted[k] < 0:
            out[k] = 0
            k += 1
        if k == len(wanted):
            return 0
        count, packed, value, at = _run(data, at, end, width)
        if at < 0 or count <= 0:
            return -1
        while k < len(wanted) and wanted[k] < done + count:
            if wanted[k] < 0:
                out[k] = 0
            elif packed < 0:
                out[k] = value
            else:
                bit = packed + (wanted[k] - done) * width
                if bit + width > end * 8:
                    return -1
                out[k] = np.int64(_packed(data, bit, width))
            k += 1
        done += count


@inlined
def _sum_packed(data: Any, at: Any, width: Any, n: Any) -> Any:
    """Add up n packed numbers of a miniblock."""
    total = np.uint64(0)
    if width == 0:
        return total
    if width <= 56 and at + ((n * width) >> 3) + 8 <= len(data):
        mask = (np.uint64(1) << np.uint64(width)) - np.uint64(1)
        bit = at * 8
        for _ in range(n):
            total += (load_u64(data, bit >> 3) >> np.uint64(bit & 7)) & mask
            bit += width
        return total
    for i in range(n):
        total += _packed(data, at * 8 + i * width, width)
    return total


@helper
def _pick_delta(data: Any, at: Any, wanted: Any, out: Any) -> Any:
    """Return DELTA_BINARY_PACKED numbers at some places: int64[k], as 64-bit sums; 0 for a null."""
    block, at = read_varint(data, at)
    minis, at = read_varint(data, at) if at >= 0 else (block, at)
    total, at = read_varint(data, at) if at >= 0 else (block, at)
    first, at = read_varint(data, at) if at >= 0 else (block, at)
    if at < 0 or not 0 < minis <= block <= _MOST_BLOCK or block % minis or (block // minis) & 7:
        return -1
    each = block // minis
    value, done, k = zigzag(first), np.int64(1), 0
    while k < len(wanted) and wanted[k] <= 0:
        out[k] = 0 if wanted[k] < 0 else value
        k += 1
    while k < len(wanted):
        low, at = read_varint(data, at)
        widths = at
        at += minis
        if widths < 0 or at > len(data):
            return -1
        low = zigzag(low)
        for m in range(minis):
            width = np.int64(data[widths + m])
            size = (each * width) >> 3
            n = min(each, total - done)
            if n <= 0 or width > 64 or size > len(data) - at:
                return -1
            last = np.int64(-1)
            while k < len(wanted) and wanted[k] < done + n:
                out[k] = 0
                if wanted[k] >= 0:
                    while done + last < wanted[k]:
                        last += 1
                        value += low + np.int64(_packed(data, at * 8 + last * width, width))
                    out[k] = value
                k += 1
            if k == len(wanted):
                return 0
            rest = last + 1
            if rest:
                for i in range(rest, n):
                    value += low + np.int64(_packed(data, at * 8 + i * width, width))
            else:
                value += n * low + np.int64(_sum_packed(data, at, width, n))
            done += n
            at += size
    return 0


@kernel
def find_strings(address: Any, size: Any, addresses: Any, sizes: Any) -> Any:
    """Find all PLAIN byte strings of a dictionary: address and size of each; a number below 0 for damage."""
    bad = _pick_strings(bytes_at(address, size), np.int64(0), np.arange(len(sizes)), addresses, sizes)
    addresses += address
    return bad


@kernel
def pick_pages(  # noqa: C901 - a kernel is one loop
    bodies: Any, headers: Any, places: Any, rows: Any, columns: Any, dictionaries: Any, out: Any, sizes: Any, nulls: Any
) -> Any:
    """Pick the wanted rows out of pages of several columns.

    bodies         int64[p, 2]: address and size of each page as it is before compression
    headers        int64[p, HEADER]
    places         int64[p, 4]: column, first row, and which of the rows are the page's: the first, and the one after the last
    rows           int64[k] wanted rows, rising
    columns        int64[c, 2]: bytes of a number, 0 for byte strings; 1 where there are definition levels
    dictionaries   int64[p, 3]: numbers: address of the first, bytes of all; byte strings: addresses of int64[n] addresses and of
                   int64[n] sizes; and n. Of the column chunk that a page is of
    out, sizes     int64[c, k] to fill; byte strings: the address of each, and its size
    nulls          bool[c, k] to fill
    returns        bytes of the strings; or -1 - the number of the first page that cannot be decoded
    """
    total = np.int64(0)
    for page in range(len(places)):
        column, a, b = places[page, 0], places[page, 2], places[page, 3]
        width, nullable = columns[column, 0], columns[column, 1]
        address, at = bodies[page, 0], np.int64(0)
        body, wanted = bytes_at(address, bodies[page, 1]), rows[a:b] - places[page, 1]
        found, lengths = out[column, a:b], sizes[column, a:b]
        if nullable:
            if headers[page, KIND] == DATA_2:
                begin, end = np.int64(0), headers[page, DEFINITION]
            else:
                begin = np.int64(4)
                if begin > len(body):
                    return -1 - page
                end = begin + np.int64(load_u32(body, 0))
            ordinals = np.empty(b - a, np.int64)
            if end > len(body) or _ordinals(body, begin, end, wanted, ordinals) < 0:
                return -1 - page
            wanted = ordinals
            for k in range(b - a):
                nulls[column, a + k] = wanted[k] < 0
            at = end
        encoding = headers[page, ENCODING]
        if encoding in (DICTIONARY, OLD_DICTIONARY):
            if _pick_indices(body, at, wanted, found) < 0:
                return -1 - page
            if not _look_up(wanted, found, width, dictionaries[page], lengths):
                return -1 - page
        elif encoding == DELTA:
            if _pick_delta(body, at, wanted, found) < 0:
                return -1 - page
        elif width:
            if _pick_numbers(body, at, width, wanted, found) < 0:
                return -1 - page
        else:
            if _pick_strings(body, at, wanted, found, lengths) < 0:
                return -1 - page
            for k in range(b - a):
                found[k] += address
        if width == 0:
            total += lengths.sum()
    return total


@helper
def _look_up(wanted: Any, found: Any, width: Any, dictionary: Any, sizes: Any) -> Any:
    """Replace indices by what the dictionary has; False for one that is beyond it."""
    first, second, count = dictionary[0], dictionary[1], dictionary[2]
    for k in range(len(wanted)):
        if wanted[k] < 0:
            sizes[k] = 0
            continue
        index = found[k]
        if index >= count:
            return False
        if width == 8:
            found[k] = load_i64(first + 8 * index)
        elif width:
            found[k] = np.int64(np.int32(load_word(first + 4 * index)))
        else:
            found[k] = load_i64(first + 8 * index)
            sizes[k] = load_i64(second + 8 * index)
    return True


@kernel
def keep_strings(places: Any, columns: Any, addresses: Any, sizes: Any, target: Any) -> None:
    """Copy the strings of pages one after another to address `target`; `addresses` names the copies then.

    places, columns, addresses, sizes   as of `pick_pages`
    """
    for page in range(len(places)):
        column = places[page, 0]
        if columns[column, 0] == 0:
            for k in range(places[page, 2], places[page, 3]):
                copy_bytes(target, addresses[column, k], sizes[column, k])
                addresses[column, k] = target
                target += sizes[column, k]


@kernel
def copy_strings(addresses: Any, sizes: Any, target: Any) -> None:
    """Copy byte strings one after another to address `target`."""
    for k in range(len(sizes)):
        copy_bytes(target, addresses[k], sizes[k])
        target += sizes[k]
