"""Searches for garbage that a process of Dagster need not make: modules and definitions stay for as long as it lives."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


@contextmanager
def no_search() -> Iterator[None]:
    """Make modules or definitions without a search for garbage among them: there is next to none, and much to look through.

    Searches that follow pass over them, too: with a hundred components they took a fifth of the time to load.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.freeze()
            gc.enable()


@cache
def search_what_runs_make() -> None:
    """Let searches of a run's process pass over what was loaded for it, once, and let it end without one: over all that Dagster has
    loaded each takes a tenth of a second of a processor.
    """
    gc.freeze()
    atexit.register(_without_search)


def _without_search() -> None:
    # Extensions made with nanobind (DuckDB) print what is still there when they are unloaded, however harmless.
    if not any(kind.__module__ == "nanobind" for kind in type.__subclasses__(type)):
        gc.freeze()
