"""The code location of this repository: what `dg` finds in `dagster_project.defs`."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

import dagster_project.defs

defs = dg.ComponentTree.from_module(dagster_project.defs, Path(__file__).parent.parent).build_defs()
