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
    """Give PLAIN numbers at some places: int64[k], 4-byte ones with their sign. `wanted` may hold -1 for nulls, here and below."""
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
    """Give dictionary indices at some places: int64[k], 0 for a null."""
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
    """Give DELTA_BINARY_PACKED numbers at some places: int64[k], as 64-bit sums; 0 for a null."""
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
def pick_dictionary(data: Any, width: Any, values: Any, sizes: Any) -> Any:
    """Read all of a dictionary's PLAIN values: numbers of a width, or with width 0 where byte strings begin and their sizes."""
    wanted = np.arange(len(values))
    if width:
        return _pick_numbers(data, np.int64(0), width, wanted, values)
    return _pick_strings(data, np.int64(0), wanted, values, sizes)


@kernel
def pick_pages(
    data: Any, starts: Any, headers: Any, rows: Any, firsts: Any, cuts: Any, width: Any, nullable: Any, dictionary: Any,
    lengths: Any, out: Any, sizes: Any, nulls: Any,
) -> Any:  # fmt: skip
    """Pick the wanted rows out of several pages.

    data, starts         uint8[n]: pages as they are before compression, one after another, and int64[p + 1] where each begins
    headers              int64[p, HEADER]
    rows, firsts, cuts   int64[k] wanted rows, rising; int64[p] first row of each page; int64[p + 1] which rows are each page's
    width                bytes of a number; 0 for byte strings
    dictionary, lengths  what the dictionary has: numbers, or starts and sizes of byte strings in it
    out, sizes           int64[k] to fill; byte strings: where they begin in `data`, or -1 - where in the dictionary, and sizes
    nulls                bool[k] to fill; of length 0 when the column has no levels
    returns              the number of the first page that cannot be decoded; -1 for none
    """
    for page in range(len(starts) - 1):
        a, b = cuts[page], cuts[page + 1]
        body, wanted, found = data[: starts[page + 1]], rows[a:b] - firsts[page], out[a:b]
        at = starts[page]
        if nullable:
            if headers[page, KIND] == DATA_2:
                begin, end = at, at + headers[page, DEFINITION]
            else:
                begin = at + 4
                if begin > len(body):
                    return page
                end = begin + np.int64(load_u32(body, at))
            places = np.empty(b - a, np.int64)
            if end > len(body) or _ordinals(body, begin, end, wanted, places) < 0:
                return page
            wanted = places
            for k in range(b - a):
                nulls[a + k] = wanted[k] < 0
            at = end
        encoding = headers[page, ENCODING]
        if encoding in (DICTIONARY, OLD_DICTIONARY):
            if _pick_indices(body, at, wanted, found) < 0:
                return page
            if not _look_up(wanted, found, width, dictionary, lengths, sizes[a:b] if width == 0 else sizes):
                return page
        elif encoding == DELTA:
            if _pick_delta(body, at, wanted, found) < 0:
                return page
        elif width:
            if _pick_numbers(body, at, width, wanted, found) < 0:
                return page
        elif _pick_strings(body, at, wanted, found, sizes[a:b]) < 0:
            return page
    return -1


@helper
def _look_up(wanted: Any, found: Any, width: Any, dictionary: Any, lengths: Any, sizes: Any) -> Any:
    """Replace indices by what the dictionary has; False for one that is beyond it."""
    for k in range(len(wanted)):
        if wanted[k] < 0:
            if width == 0:
                sizes[k] = 0
            continue
        index = found[k]
        if index >= len(dictionary):
            return False
        if width:
            found[k] = dictionary[index]
        else:
            found[k] = -1 - dictionary[index]
            sizes[k] = lengths[index]
    return True


@kernel
def copy_strings(data: Any, dictionary: Any, starts: Any, sizes: Any, out: Any) -> Any:
    """Copy byte strings one after another; those that begin below 0 are the dictionary's."""
    at = 0
    for k in range(len(starts)):
        begin = starts[k]
        if begin >= 0:
            for i in range(sizes[k]):
                out[at + i] = data[begin + i]
        else:
            for i in range(sizes[k]):
                out[at + i] = dictionary[i - 1 - begin]
        at += sizes[k]
