"""Unaligned loads, stores and copies by address, for kernels that read memory-mapped files and packed rows.

All addresses and lengths are ``int64``; multi-byte words are little-endian in memory whatever their name's register form
(``load_be64`` gives the number whose order equals the order of the 8 bytes). Nothing here checks bounds: a kernel that uses
these functions has checked its lengths before, and its caller keeps the arrays behind the addresses alive.

Every function is a Numba intrinsic or is inlined: they can be called from kernels only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from lakeidx.codec.jit import inlined, intrinsic
from lakeidx.errors import InternalError, UnsupportedError

if sys.byteorder != "little":  # pragma: no cover
    raise UnsupportedError(
        "the lookup store reads little-endian words in place and runs on little-endian machines only"
    )


def _absent(*args: Any) -> Any:
    raise InternalError("addresses are for compiled kernels only")


def _nothing(address: Any) -> None:
    pass


def _intrinsic(name: str, python: Callable[..., Any] = _absent) -> Any:
    return intrinsic(partial(_emitted, name), python)


def _emitted(name: str) -> Any:
    from lakeidx.codec import address_intrinsics

    return getattr(address_intrinsics, name)


load_u8 = _intrinsic("load_u8")
load_u16 = _intrinsic("load_u16")
load_u32 = _intrinsic("load_u32")
load_be32 = _intrinsic("load_be32")
load_i64 = _intrinsic("load_i64")
load_be64 = _intrinsic("load_be64")
store_u8 = _intrinsic("store_u8")
store_u32 = _intrinsic("store_u32")
store_i64 = _intrinsic("store_i64")
# Address of the first byte of a Python ``bytes`` argument.
bytes_address = _intrinsic("bytes_address")
# Ask for the cache line of an address; any address is allowed.
prefetch = _intrinsic("prefetch", _nothing)


@inlined
def copy_bytes(target: Any, source: Any, length: Any) -> Any:
    """Copy `length` bytes between regions that do not overlap; short ones without a call."""
    if length >= 8:
        at = 0
        while at + 8 <= length:
            store_i64(target + at, load_i64(source + at))
            at += 8
        if at < length:
            store_i64(target + length - 8, load_i64(source + length - 8))
    elif length >= 4:
        last = length - 4
        head, tail = load_u32(source), load_u32(source + last)
        store_u32(target, head)
        store_u32(target + last, tail)
    else:
        for at in range(length):
            store_u8(target + at, load_u8(source + at))


@inlined
def compare_bytes(a: Any, a_length: Any, b: Any, b_length: Any) -> Any:
    """Return -1, 0 or 1: order of two byte strings as unsigned bytes, a prefix before what it begins."""
    common = min(a_length, b_length)
    if common >= 8:
        at = 0
        while at < common:
            # The last word overlaps the one before it: bytes already found equal do not matter.
            at = min(at, common - 8)
            x, y = load_be64(a + at), load_be64(b + at)
            if x != y:
                return -1 if x < y else 1
            at += 8
    else:
        at = 0
        if common >= 4:
            u, v = load_be32(a), load_be32(b)
            if u != v:
                return -1 if u < v else 1
            at = 4
        while at < common:
            u, v = load_u8(a + at), load_u8(b + at)
            if u != v:
                return -1 if u < v else 1
            at += 1
    if a_length == b_length:
        return 0
    return -1 if a_length < b_length else 1
