"""Compile the kernels ahead of the first real batch: ``lakeidx warm-up``.

Numba compiles a kernel when it is first called with some types and keeps the code beside the source. On a new machine the first
batches would pay for that, a second here and there; the installation does it instead. Which kernels there are and the types
they are called with is a list, ``kernels.txt``, made of what the tests compile.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from lakeidx.tasks.limits import available_cores

LIST = Path(__file__).parent / "kernels.txt"


@dataclass(frozen=True)
class Kernel:
    """A kernel and the types it is compiled for.

    module      it is in
    function    its name there
    arguments   types as in ``const int64[:]``: read-only array of one dimension
    """

    module: str
    function: str
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        """Return the kernel's line in the list."""
        return f"{self.module}.{self.function}({', '.join(self.arguments)})"


def listed() -> list[Kernel]:
    """Return the kernels of the list, in its order: by module."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return [_parsed(line) for line in lines if not line.startswith("#")]


def warm_up(
    on_module: Callable[[str], None] = lambda module: None,
    *,
    packages: Collection[str] = ("lakeidx",),
    processes: int | None = None,
) -> int:
    """Compile the kernels of the list, or find them on disk.

    on_module   called with the name of each module whose kernels are compiled
    packages    packages to take kernels of
    processes   how many compile at once; None for as many as there are processors, 1 for this one, which then has the kernels
                loaded, too
    returns     how many kernels there are
    cost        half a minute on two processors in a fresh install, seconds when they are on disk
    """
    chosen = [k for k in listed() if any(f"{k.module}.".startswith(f"{p}.") for p in packages)]
    modules = sorted((list(of) for _, of in groupby(chosen, lambda k: k.module)), key=len, reverse=True)
    count = available_cores() if processes is None else processes
    if count == 1:
        for kernels in modules:
            on_module(_compile(kernels))
        return len(chosen)
    # Numba compiles one kernel at a time in a process.
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_compile, kernels) for kernels in modules]):
            on_module(done.result())
    return len(chosen)


def _compile(kernels: list[Kernel]) -> str:
    """Compile kernels of one module; return its name."""
    module = importlib.import_module(kernels[0].module)
    for kernel in kernels:
        getattr(module, kernel.function).compile(tuple(_numba_type(text) for text in kernel.arguments))
    return kernels[0].module


def _parsed(line: str) -> Kernel:
    place, _, rest = line.rstrip(")").partition("(")
    module, _, function = place.rpartition(".")
    return Kernel(module, function, tuple(rest.split(", ")) if rest else ())


def _numba_type(text: str) -> Any:
    from numba.core import types

    if text == "bytes":
        return types.Bytes(types.uint8, 1, "C")
    element, _, dimensions = text.removeprefix("const ").partition("[")
    scalar = getattr(types, element)
    return types.Array(scalar, dimensions.count(":"), "C", readonly=text.startswith("const ")) if dimensions else scalar
