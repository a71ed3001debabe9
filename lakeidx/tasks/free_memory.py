"""What a process has freed, and its allocators keep for later."""

from __future__ import annotations

import ctypes

import pyarrow as pa


def release_free_memory() -> None:
    """Return free memory of this process to the machine.

    Arrow's pool and the C library keep what they are given back: after a task that held much, the next one, with other sizes, takes
    its memory beside that.
    """
    pa.default_memory_pool().release_unused()
    # Of glibc alone.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
