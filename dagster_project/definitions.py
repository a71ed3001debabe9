"""The code location: what `dg` finds in `dagster_project.defs`, also where the package is installed without the project."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

import dagster_project.defs

defs = dg.ComponentTree.from_module(dagster_project.defs, Path(__file__).parent.parent).build_defs()
