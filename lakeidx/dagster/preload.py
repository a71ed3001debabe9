"""Imports of checks and pictures while the first stage works: Great Expectations alone takes seconds to import."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Collection
from functools import cache

from lakeidx.dagster.names import ASSIGNMENT_CHECKS, COMMIT_CHECKS, COMMIT_STEP, LANDED_CHECKS
from lakeidx.pipeline_file.model import PipelineConfig

_LIBRARY = "lakeidx.dagster.expectations.of_rows"


def preload_imports(config: PipelineConfig, steps: Collection[str]) -> None:
    """Start the imports of some steps in the background; an import error shows where the module is used.

    steps   those of the run: one that judges nothing imports nothing, and rules alone need no Great Expectations
    """
    found = {s.rsplit("__", 1)[-1] for s in steps}
    judging = {LANDED_CHECKS} if any(e.on == "landed" for e in config.expectations) else set()
    if config.data_docs is not None:
        judging |= {ASSIGNMENT_CHECKS, COMMIT_CHECKS}
    if any(e.on == "batches" for e in config.expectations):
        judging.add(COMMIT_CHECKS)
    modules = [_LIBRARY] if judging & found else []
    if COMMIT_STEP in found:
        modules.append("lakeidx.dagster.metadata.table_plots")
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
