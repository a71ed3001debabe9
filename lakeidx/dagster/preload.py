"""The import of Great Expectations while the first stage works."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Collection
from functools import cache

from lakeidx.dagster.names import COMMIT_STEP, LOAD_STEP
from lakeidx.pipeline_file.model import PipelineConfig

_LIBRARY = "lakeidx.dagster.expectations.of_rows"


def preload_imports(config: PipelineConfig, steps: Collection[str]) -> None:
    """Start the import for some steps in the background; an import error shows where the module is used.

    steps   those of the run: one that judges nothing imports nothing, and rules alone need no Great Expectations
    """
    found = {s.rsplit("__", 1)[-1] for s in steps}
    judges = {"landed": "ingest", "batches": COMMIT_STEP}
    judging = {judges[e.on] for e in config.expectations if e.on in judges}
    if judging & found or (judging and LOAD_STEP in found):
        start_import(_LIBRARY)


@cache
def start_import(module: str) -> threading.Thread:
    """Start an import in the background, once per process.

    SQLAlchemy's object mapper is imported before that. Its modules add themselves to a registry while they are being
    imported, and Dagster's storage asks that registry in this thread: it would meet a module that is half there, and
    the run would fail. Great Expectations imports it, too.
    """
    importlib.import_module("sqlalchemy.orm")
    thread = threading.Thread(target=importlib.import_module, args=[module], name="lakeidx-preload", daemon=True)
    thread.start()
    return thread
