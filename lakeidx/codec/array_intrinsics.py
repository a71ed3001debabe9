"""Unaligned access to byte arrays, as code of Numba: what `lakeidx.codec.jit` has under the same names."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any, bits: int) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index], inbounds=True), ir.IntType(bits).as_pointer())


def _loader(bits: int, result: Any) -> Any:
    def load(typing_context: Any, array: Any, index: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = builder.load(_address(context, builder, signature.args[0], args[0], args[1], bits))
            value.align = 1
            return value

        return result(array, types.intp), codegen

    return intrinsic(load)


def _storer(bits: int, kind: Any) -> Any:
    def store(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            done = builder.store(args[2], _address(context, builder, signature.args[0], args[0], args[1], bits))
            done.align = 1
            return context.get_dummy_value()

        return types.void(array, types.intp, kind), codegen

    return intrinsic(store)


load_u32 = _loader(32, types.uint32)
load_u64 = _loader(64, types.uint64)
store_u64 = _storer(64, types.uint64)
