"""The tables that the files in ``pipelines/`` describe, or in the folder that LAKEIDX_PIPELINES names."""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg

from lakeidx.dagster.factory import shared_resources
from lakeidx.dagster.folder import build_definitions


@dg.definitions
def pipelines() -> dg.Definitions:
    """Build the definitions of all pipeline files."""
    folder = Path(os.environ.get("LAKEIDX_PIPELINES") or Path(__file__).parents[2] / "pipelines")
    return build_definitions(folder, resources=shared_resources())
