"""Numba as kernels use it: code that is found runs as it is, and there is a word before any is compiled.

Numba's own cache prepares Numba to compile before it searches for code: it imports and registers all that can be compiled, which
takes longer than everything else that a process does for its first kernel. Numba does the same when it compiles, and the cache here
leaves it to that. A process that compiles says so once, to this module's logger at INFO; the command line shows it.

`lakeidx.codec.jit` imports this module when the first kernel needs it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numba
from numba.core import caching
from numba.core import event as events
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.runtime import nrt

from lakeidx.codec import shipped

log = logging.getLogger(__name__)


class _Word(events.Listener):
    """Logs before the first kernel is compiled that this takes time; nothing when kernels are found on disk."""

    said = False

    def on_start(self, event: Any) -> None:
        """Note a compilation that starts, unless it is another package's."""
        if not self.said and str(event.data["dispatcher"].py_func.__module__).startswith("lakeidx."):
            self.said = True
            why = shipped.why_none()
            log.info(
                "compiling kernels that this command needs, seconds and once%s; `lakeidx warm-up` compiles all (a minute)",
                f" ({why})" if why else "",
            )

    def on_end(self, event: Any) -> None:
        """Do nothing."""


events.register("numba:compile", _Word())  # type: ignore[no-untyped-call]


njit = numba.njit


def with_cache(kernel: Any) -> Any:
    """Let a declared kernel search for its code here; anything else is returned unchanged."""
    if isinstance(kernel, Dispatcher):
        kept = vars(kernel)
        kept["_cache"] = KernelCache(kernel.py_func, kept["_cache"])
    return kernel


class KernelCache(caching._Cache):
    """A kernel's code cache as Numba uses it; what is compiled here is kept on disk.

    function   the kernel as Python has it
    disk       Numba's own cache, or one that keeps nothing
    """

    def __init__(self, function: Callable[..., Any], disk: Any) -> None:
        self._function, self.disk = function, disk

    @property
    def cache_path(self) -> Any:
        """Return the folder of the disk's part."""
        return self.disk.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for the types, None when it is to be compiled."""
        # Kernels that make arrays call Numba's runtime.
        nrt.rtsys.initialize(target_context)
        found = self._load_from_disk(sig, target_context)
        parts = shipped.find(self._function, sig) if found is None else None
        if parts is None:
            return found
        return CompileResult._rebuild(target_context, *parts)  # type: ignore[no-untyped-call]

    def _load_from_disk(self, sig: Any, target_context: Any) -> Any:
        if not isinstance(self.disk, caching.Cache):
            return self.disk.load_overload(sig, target_context)
        with self.disk._guard_against_spurious_io_errors():
            return self.disk._load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep code that was compiled here."""
        self.disk.save_overload(sig, data)

    def enable(self) -> None:
        """Use the disk."""
        self.disk.enable()

    def disable(self) -> None:
        """Do not use the disk."""
        self.disk.disable()

    def flush(self) -> None:
        """Forget what is on disk."""
        self.disk.flush()
