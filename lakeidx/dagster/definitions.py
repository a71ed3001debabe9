"""A code location for a folder of pipeline files, without a project: ``dagster dev -m lakeidx.dagster.definitions``.

The folder is ``pipelines`` in the directory where Dagster is started, or the one that LAKEIDX_PIPELINES names.
"""

from __future__ import annotations

import os
from pathlib import Path

from lakeidx.dagster.folder import build_definitions

defs = build_definitions(Path(os.environ.get("LAKEIDX_PIPELINES") or "pipelines"))
