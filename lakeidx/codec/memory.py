"""Unaligned loads, stores and copies by address, for kernels that read memory-mapped files and packed rows.

All addresses and lengths are ``int64``; multi-byte words are little-endian in memory whatever their name's register form
(``load_be64`` gives the number whose order equals the order of the 8 bytes). Nothing here checks bounds: a kernel that uses
these functions has checked its lengths before, and its caller keeps the arrays behind the addresses alive.

Every function is a Numba intrinsic or is inlined: they can be called from kernels only.
"""

from __future__ import annotations

import sys
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from lakeidx.codec.jit import inlined
from lakeidx.errors import UnsupportedError

if sys.byteorder != "little":  # pragma: no cover
    raise UnsupportedError(
        "the lookup store reads little-endian words in place and runs on little-endian machines only"
    )


def _make_load(bits: int, result: types.Integer, *, swap: bool = False) -> Any:
    @intrinsic
    def load(typing_context: Any, address: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word = ir.IntType(bits)
            value = builder.load(builder.inttoptr(args[0], word.as_pointer()), align=1, typ=word)
            if swap:
                value = builder.bswap(value)
            target = context.get_value_type(signature.return_type)
            return value if target.width == bits else builder.zext(value, target)

        return result(types.int64), emit

    return load


load_u8 = _make_load(8, types.int64)
load_u16 = _make_load(16, types.int64)
load_u32 = _make_load(32, types.uint32)
load_be32 = _make_load(32, types.int64, swap=True)
load_i64 = _make_load(64, types.int64)
load_be64 = _make_load(64, types.uint64, swap=True)


def _make_store(bits: int) -> Any:
    @intrinsic
    def store(typing_context: Any, address: Any, value: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word = ir.IntType(bits)
            value = args[1] if bits == 64 else builder.trunc(args[1], word)
            builder.store(value, builder.inttoptr(args[0], word.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), emit

    return store


store_u8 = _make_store(8)
store_u32 = _make_store(32)
store_i64 = _make_store(64)


_get_function: Any = cgutils.get_or_insert_function


def _prefetch(typing_context: Any, address: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, word, word, word])
        function = _get_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [builder.inttoptr(args[0], pointer), word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(types.int64), emit


# Ask for the cache line of an address; any address is allowed.
prefetch: Any = intrinsic(_prefetch)


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
def compare_memory(a: Any, a_length: Any, b: Any, b_length: Any) -> Any:
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
