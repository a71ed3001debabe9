"""Great Expectations: one ephemeral context for all frames of a process. Importing this takes seconds of processor time."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import pandas as pd

# Read by the library when it is imported.
os.environ["GX_ANALYTICS_ENABLED"] = "false"

import great_expectations as gx
from great_expectations.core import ExpectationSuiteValidationResult as SuiteResult
from great_expectations.data_context.types.base import ProgressBarsConfig

__all__ = ["LIBRARY_VERSION", "SuiteResult", "row_batch"]

LIBRARY_VERSION = str(gx.__version__)


@cache
def _data_source() -> Any:
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_pandas("metrics").add_dataframe_asset("figures")
    return asset.add_batch_definition_whole_dataframe("run")


def row_batch(frame: pd.DataFrame) -> Any:
    """Return rows in the form of the library."""
    return _data_source().get_batch(batch_parameters={"dataframe": frame})
