"""The list of kernels that ``lakeidx warm-up`` compiles, made of what tests compiled: ``python -m tests.kernel_list``.

Run it after ``make test``, when a kernel is new or is called with other types. It reads what Numba keeps on disk for the sources
as they are now.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numba.core import types
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

import lakeidx
from lakeidx.maintenance.warm_up import LIST, listed


def unlisted() -> list[str]:
    """Return the lines of kernels that are on disk and not in the list."""
    return sorted(set(_on_disk()) - {str(kernel) for kernel in listed()})


def kept_kernels() -> Iterator[tuple[Dispatcher, tuple[types.Type, ...], Path]]:
    """Yield each kernel that Numba keeps on disk, with the types of its arguments and the file of its code.

    errors   RuntimeError when it keeps none: a list of none would miss nothing
    """
    found = False
    for module in _modules():
        for kernel in vars(module).values():
            if not isinstance(kernel, Dispatcher) or kernel.py_func.__module__ != module.__name__:
                continue
            cache = vars(kernel)["_cache"]
            if not isinstance(cache, FunctionCache):
                continue
            kept = cache._cache_file
            for (signature, *_), file in kept._load_index().items():  # type: ignore[no-untyped-call]
                found = True
                yield kernel, signature, Path(kept._data_path(file))  # type: ignore[no-untyped-call]
    if not found:
        raise RuntimeError("Numba keeps no kernel of these sources on disk: run `lakeidx warm-up`, or the tests")


def _on_disk() -> Iterator[str]:
    for kernel, signature, _ in kept_kernels():
        yield f"{kernel.py_func.__module__}.{kernel.py_func.__name__}({', '.join(_text(t) for t in signature)})"


def _modules() -> Iterator[Any]:
    """Yield the modules that may define kernels: to import all of them, with Dagster and Spark, takes six CPU seconds."""
    package = Path(lakeidx.__path__[0])
    for file in sorted(package.rglob("*.py")):
        if re.search("kernel|numba", file.read_text(encoding="utf-8")):
            name = ".".join(("lakeidx", *file.relative_to(package).with_suffix("").parts))
            yield importlib.import_module(name.removesuffix(".__init__"))


def _text(numba_type: Any) -> str:
    """Return how the list writes a type."""
    if isinstance(numba_type, types.Literal):
        # A kernel's constant, for another kernel.
        return _text(numba_type.literal_type)
    if isinstance(numba_type, types.Bytes):
        return "bytes"
    if isinstance(numba_type, types.Array):
        if numba_type.layout != "C" or not numba_type.aligned:
            raise ValueError(f"kernels take contiguous, aligned arrays, not {numba_type}")
        dimensions = ",".join(":" * numba_type.ndim)
        return f"{'' if numba_type.mutable else 'const '}{numba_type.dtype}[{dimensions}]"
    return str(numba_type)


def main() -> int:
    """Write the list anew."""
    lines = sorted(set(_on_disk()))
    head = [line for line in LIST.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    LIST.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")
    print(f"{len(lines)} kernels")
    return 0


if __name__ == "__main__":
    sys.exit(main())
