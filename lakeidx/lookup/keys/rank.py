"""Eight-byte stand-ins for keys, so that most steps of a binary search compare two numbers and do not branch.

The rank of a key is a uint64 that never decreases when the key increases; keys of equal rank are distinguished by `compare_keys`.
It comes from the first field (plain bytes: the key itself):

=======================  ==============================================================================
first field              rank
=======================  ==============================================================================
integers, dates, times   the number with its sign bit turned
FLOAT, DOUBLE            its place in Java's order, sign bit turned
strings, bytes           the 8 bytes after the first `skip` ones, big-endian, zeros after the end
DECIMAL p > 18           0: such keys are always compared in full
null                     0
=======================  ==============================================================================

`skip` is the length of a prefix that all keys of a block (or of the index) share; a key looked up that does not have the prefix
gets no rank there and is compared in full.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakeidx.codec.jit import inlined, kernel
from lakeidx.codec.memory import compare_bytes, load_be32, load_be64, load_i64, load_u8
from lakeidx.codec.varint import load_varint_unchecked
from lakeidx.lookup.keys.order import float_rank32, float_rank64, signed_at

_SIGN = np.uint64(1 << 63)


@inlined
def _first_bytes(key: Any, size: Any, codes: Any, fields: Any) -> Any:
    """Address and size of the string that ranks come from; size -1 when they do not come from a string."""
    if fields == 0:
        return key, size
    if load_i64(codes) != 7 or load_u8(key + 1) & 1:
        return key, np.int64(-1)
    length, start = load_varint_unchecked(key + ((fields + 15) >> 3))
    return start, length


@kernel
def common_prefix(first: Any, first_size: Any, last: Any, last_size: Any, codes: Any, fields: Any) -> Any:
    """Return the `skip` of a run of keys in order, from its first and last key."""
    a, a_size = _first_bytes(first, first_size, codes, fields)
    b, b_size = _first_bytes(last, last_size, codes, fields)
    n = np.int64(0)
    while n < min(a_size, b_size) and load_u8(a + n) == load_u8(b + n):
        n += 1
    return n


@kernel
def shares_prefix(key: Any, size: Any, member: Any, member_size: Any, skip: Any, codes: Any, fields: Any) -> Any:
    """Return True when a key begins like the members of a run with this `skip`."""
    a, a_size = _first_bytes(key, size, codes, fields)
    if a_size < skip:
        return False
    b, _ = _first_bytes(member, member_size, codes, fields)
    return compare_bytes(a, skip, b, skip) == 0


@inlined
def _rank_of_bytes(start: Any, size: Any) -> Any:
    if size >= 8:
        return load_be64(start)
    rank = np.uint64(0)
    at = np.int64(0)
    if size >= 4:
        rank = np.uint64(load_be32(start)) << np.uint64(32)
        at = np.int64(4)
    while at < size:
        rank |= np.uint64(load_u8(start + at)) << np.uint64(56 - 8 * at)
        at += 1
    return rank


@kernel
def _rank_of_row(key: Any, codes: Any, fields: Any, skip: Any) -> Any:
    """Rank of a compacted row."""
    if load_u8(key + 1) & 1:
        return np.uint64(0)
    code = load_i64(codes)
    at = key + ((fields + 15) >> 3)
    if code == 7:
        length, start = load_varint_unchecked(at)
        return _rank_of_bytes(start + skip, length - skip)
    if code == 8:
        return np.uint64(0)
    if code == 5:
        return np.uint64(float_rank32(at)) ^ _SIGN
    if code == 6:
        return np.uint64(float_rank64(at)) ^ _SIGN
    size = 8 if code == 4 or code == 9 else (4 if code == 3 else code)
    return np.uint64(signed_at(at, size)) ^ _SIGN


@inlined
def rank_of(key: Any, size: Any, codes: Any, fields: Any, skip: Any) -> Any:
    """Rank of a key that has the run's prefix."""
    if fields == 0:
        return _rank_of_bytes(key + skip, size - skip)
    return _rank_of_row(key, codes, fields, skip)
