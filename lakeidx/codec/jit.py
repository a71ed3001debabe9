"""Declaration of kernels, and unaligned access to byte arrays for them.

Kernels compile at their first call (a second at most) and are kept on disk by Numba beside the source, so that a later process
loads them in milliseconds. Several processes may compile one kernel at once: the cache files are replaced whole. A process that
compiles says so once, to this module's logger at WARNING, which a program without logging prints.

Inputs of kernels are always *frozen* (`lakeidx.codec.arrays.frozen`): Arrow's buffers are read-only arrays, ours are
not, and Numba would compile each kernel once for every mixture of the two.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import event, types
from numba.extending import intrinsic

log = logging.getLogger(__name__)


class _Notice(event.Listener):
    """Logs before the first kernel of lakeidx is compiled that this takes time; nothing when kernels are found on disk."""

    given = False

    def on_start(self, event: Any) -> None:
        """Note a compilation that starts, unless it is another package's."""
        if not self.given and str(event.data["dispatcher"].py_func.__module__).startswith("lakeidx."):
            type(self).given = True
            log.warning("compiling kernels for this processor, seconds and once; `lakeidx warm-up` compiles all")

    def on_end(self, event: Any) -> None:
        """Do nothing."""


event.register("numba:compile", _Notice())  # type: ignore[no-untyped-call]


def kernel(function: Callable[..., Any]) -> Any:
    """Compile on first call, keep on disk, release the interpreter lock while running."""
    try:
        return _compiled(function, cache=True, nogil=True)
    except RuntimeError:
        # No folder to keep the compiled code in (read-only install without a home): compile in every process.
        return _compiled(function, nogil=True)


def helper(function: Callable[..., Any]) -> Any:
    """Compile a function that kernels call."""
    return _compiled(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function into each kernel that calls it."""
    return _compiled(function, inline="always")


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    # No C program calls a kernel. Numba's types do not know of the option.
    options["no_cfunc_wrapper"] = True
    return numba.njit(**options)(function)


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


# (uint8 array, byte index) -> little-endian word; no bounds check: the kernel has made it.
load_u32 = _loader(32, types.uint32)
load_u64 = _loader(64, types.uint64)
# (uint8 array, byte index, word): the same for writing.
store_u64 = _storer(64, types.uint64)


@helper
def load_word(data: Any, at: Any, count: Any) -> Any:
    """Return `count` (0..8) bytes at `at` as a little-endian u64, zero above; never reads past the array."""
    if at + 8 <= len(data):
        if count == 8:
            return load_u64(data, at)
        return load_u64(data, at) & ((np.uint64(1) << np.uint64(8 * count)) - np.uint64(1))
    word = np.uint64(0)
    for b in range(count):
        word |= np.uint64(data[at + b]) << np.uint64(8 * b)
    return word
