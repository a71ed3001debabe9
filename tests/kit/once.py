"""What is dear to make is made once for all workers of a test run; each would make a fixture of its own."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return the folder that `make` fills in the first worker that asks; the others wait for it.

    A worker in which it fails or skips leaves the next one to try again, in an empty folder.
    """
    base = factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = shared / f"{name}.made"
        if not found.exists():
            folder = factory.mktemp(name)
            make(folder)
            found.write_text(str(folder), encoding="utf-8")
        return Path(found.read_text(encoding="utf-8"))
