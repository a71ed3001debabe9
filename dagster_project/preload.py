"""Import what checks and pictures need while the first stage works: Great Expectations alone takes seconds to import."""

from __future__ import annotations

import importlib
import threading
from functools import cache

_MODULES = ("dagster_project.expectations.verdicts", "dagster_project.metadata.table_plots")


@cache
def preload_imports() -> threading.Thread:
    """Start the imports in the background, once per process; an import error shows where the module is used.

    SQLAlchemy's object mapper is imported before that. Its modules add themselves to a registry while they are being
    imported, and Dagster's storage asks that registry in this thread: it would meet a module that is half there, and
    the run would fail. Great Expectations imports it, too.
    """
    importlib.import_module("sqlalchemy.orm")
    thread = threading.Thread(target=_import_all, name="lakeidx-preload", daemon=True)
    thread.start()
    return thread


def _import_all() -> None:
    for module in _MODULES:
        importlib.import_module(module)
