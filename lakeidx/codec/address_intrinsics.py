"""Unaligned access by address, as code of Numba: what `lakeidx.codec.memory` has under the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array


def _make_load(bits: int, result: types.Integer, *, swap: bool = False) -> Callable[[int], int]:
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

    return load  # type: ignore[return-value]


load_u8 = _make_load(8, types.int64)
load_u16 = _make_load(16, types.int64)
load_u32 = _make_load(32, types.uint32)
load_be32 = _make_load(32, types.int64, swap=True)
load_i64 = _make_load(64, types.int64)
load_be64 = _make_load(64, types.uint64, swap=True)


def _make_store(bits: int) -> Callable[[int, int], None]:
    @intrinsic
    def store(typing_context: Any, address: Any, value: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word = ir.IntType(bits)
            value = args[1] if bits == 64 else builder.trunc(args[1], word)
            builder.store(value, builder.inttoptr(args[0], word.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), emit

    return store  # type: ignore[return-value]


store_u8 = _make_store(8)
store_u32 = _make_store(32)
store_i64 = _make_store(64)


_struct_proxy: Any = cgutils.create_struct_proxy
_get_function: Any = cgutils.get_or_insert_function
_populate_array: Any = populate_array


def _bytes_address(typing_context: Any, value: Any) -> Any:
    if not isinstance(value, types.Bytes):
        return None

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = _struct_proxy(signature.args[0])(context, builder, value=args[0])
        return builder.ptrtoint(view.data, ir.IntType(64))

    return types.int64(value), emit


bytes_address: Any = intrinsic(_bytes_address)


def _prefetch(typing_context: Any, address: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, word, word, word])
        function = _get_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [builder.inttoptr(args[0], pointer), word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(types.int64), emit


prefetch: Any = intrinsic(_prefetch)
