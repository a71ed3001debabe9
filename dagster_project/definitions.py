"""The code location: what every file in pipelines/ describes, or in the folder that LAKEIDX_PIPELINES names."""

from __future__ import annotations

import os
from pathlib import Path

from dagster_project.folder import build_definitions

defs = build_definitions(Path(os.environ.get("LAKEIDX_PIPELINES", Path(__file__).parent.parent / "pipelines")))
