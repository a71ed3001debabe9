"""Import what checks and pictures need while the first stage works: Great Expectations alone takes seconds to import."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Collection
from functools import cache

from dagster_project.names import ASSIGNMENT_CHECKS, COMMIT_CHECKS, COMMIT_STEP, LANDED_CHECKS

#: The last part of a step's name, and what it needs.
_NEEDED = {
    LANDED_CHECKS: "dagster_project.expectations.verdicts",
    ASSIGNMENT_CHECKS: "dagster_project.expectations.verdicts",
    COMMIT_CHECKS: "dagster_project.expectations.verdicts",
    COMMIT_STEP: "dagster_project.metadata.table_plots",
}


def preload_imports(steps: Collection[str]) -> None:
    """Start the imports of some steps in the background; an import error shows where the module is used.

    steps   those of the run: one that judges nothing imports nothing
    """
    modules = dict.fromkeys(m for name, m in _NEEDED.items() if any(s.endswith(f"__{name}") for s in steps))
    if modules:
        start_imports(tuple(modules))


@cache
def start_imports(modules: tuple[str, ...]) -> threading.Thread:
    """Start imports in the background, once per process.

    SQLAlchemy's object mapper is imported before that. Its modules add themselves to a registry while they are being
    imported, and Dagster's storage asks that registry in this thread: it would meet a module that is half there, and
    the run would fail. Great Expectations imports it, too.
    """
    importlib.import_module("sqlalchemy.orm")
    thread = threading.Thread(target=_import_all, args=[modules], name="lakeidx-preload", daemon=True)
    thread.start()
    return thread


def _import_all(modules: tuple[str, ...]) -> None:
    for module in modules:
        importlib.import_module(module)
