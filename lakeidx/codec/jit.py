"""How kernels are compiled, and unaligned access to byte arrays for them.

Kernels compile at their first call (a second at most) and are kept on disk beside the source, so that a later process
loads them in milliseconds; a wheel has them compiled (`lakeidx.codec.shipped`). Several processes may compile one kernel at once:
the cache files are replaced whole. A process may put Numba off until a kernel needs it (`lakeidx.codec.deferred`).

Inputs of kernels are always *frozen* (read-only, aligned, contiguous): Arrow's buffers are read-only arrays, ours are
not, and Numba would compile each kernel once for every mixture of the two.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.deferred import declared


def kernel(function: Callable[..., Any]) -> Any:
    """Compile on first call, keep on disk, release the interpreter lock while running."""
    return declared(function, partial(_on_disk, function, nogil=True), kernel=True)


def small_kernel(function: Callable[..., Any]) -> Any:
    """Declare a `kernel` that may run in Python while Numba is deferred and rows are few: with NumPy's types the result is the
    same.
    """
    return declared(function, partial(_on_disk, function, nogil=True), kernel=True, small=True)


def kernel_with_lock(function: Callable[..., Any]) -> Any:
    """Compile as `kernel` does, but keep the interpreter lock: for very short calls, and to read what other threads drop."""
    return declared(function, partial(_on_disk, function), kernel=True)


def helper(function: Callable[..., Any]) -> Any:
    """Compile a function that kernels call."""
    return declared(function, partial(_compiled, function))


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function into each kernel that calls it."""
    return declared(function, partial(_compiled, function, inline="always"))


def intrinsic(emitted: Callable[[], Any], python: Callable[..., Any]) -> Any:
    """Return code that Numba emits.

    emitted   gives it, and may import Numba
    python    does the same with NumPy's numbers
    """
    # A new object for each: modules are searched for it.
    return declared(partial(python), emitted)


def _on_disk(function: Callable[..., Any], **options: Any) -> Any:
    from lakeidx.codec.compiler import with_cache

    try:
        return with_cache(_compiled(function, cache=True, **options))
    except RuntimeError:
        # No folder to keep the compiled code in (read-only install without a home): compile in every process.
        return with_cache(_compiled(function, **options))


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    from lakeidx.codec.compiler import njit

    # No C program calls a kernel. Numba's types do not know of the option.
    options["no_cfunc_wrapper"] = True
    return njit(**options)(function)


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the array in the form kernels expect; copy only when it is strided or unaligned."""
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned):
        array = np.array(array, order="C")
        flags = array.flags
    if flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def _load(kind: str, data: Any, index: Any) -> Any:
    return np.frombuffer(data, kind, 1, int(index))[0]


def _store(data: Any, index: Any, value: Any) -> None:
    data[index : index + 8].view("<u8")[0] = value


def _emitted(name: str) -> Any:
    from lakeidx.codec import array_intrinsics

    return getattr(array_intrinsics, name)


# (uint8 array, byte index) -> little-endian word; no bounds check: the kernel has made it.
load_u32 = intrinsic(partial(_emitted, "load_u32"), partial(_load, "<u4"))
load_u64 = intrinsic(partial(_emitted, "load_u64"), partial(_load, "<u8"))
# (uint8 array, byte index, word): the same for writing.
store_u64 = intrinsic(partial(_emitted, "store_u64"), _store)
