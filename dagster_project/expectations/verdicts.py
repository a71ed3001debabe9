"""Verdicts of Great Expectations on rule results: one ephemeral context, one validation for all checks of a step.

It judges a frame with a row per figure: check, figure, value, least, most. Three expectations hold for every row, however many
checks there are: the library's time goes with the number of expectations, not of rows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pandas as pd

from dagster_project.expectations.figures import Figure, figures_of
from lakeidx.errors import InternalError
from lakeidx.pipeline_file.sections import ChecksConfig
from lakeidx.quality.result import RuleResult

# Read by the library when it is imported.
os.environ["GX_ANALYTICS_ENABLED"] = "false"

import great_expectations as gx
from great_expectations import expectations as gxe
from great_expectations.core import ExpectationSuiteValidationResult as SuiteResult
from great_expectations.data_context.types.base import ProgressBarsConfig

__all__ = ["LIBRARY_VERSION", "SuiteResult", "Verdict", "judge", "row_batch"]

LIBRARY_VERSION = str(gx.__version__)
_ROW = ["check", "figure"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the expectations say of one check.

    passed         all of its figures are within their limits
    expectations   plain values per figure: what was expected, what was seen, whether it holds
    """

    check: str
    passed: bool
    expectations: tuple[dict[str, Any], ...]

    @property
    def failed(self) -> list[str]:
        """The metrics that are not as expected, with what was seen and what was expected."""
        return [_broken(e) for e in self.expectations if not e["holds"]]


def _broken(expectation: dict[str, Any]) -> str:
    figure, seen, least, most = (expectation[k] for k in ("figure", "observed", "min", "max"))
    if " = " in figure:
        return f"{figure} is not met ({seen}, {most})"
    limits = [f"at least {least}"] if least is not None and seen.startswith("-") else []
    limits += [f"at most {most}"] if most is not None else []
    return f"{figure} = {seen} ({' and '.join(limits)})" if limits else f"{figure} = {seen}"


@cache
def _data_source() -> Any:
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_pandas("metrics").add_dataframe_asset("figures")
    return asset.add_batch_definition_whole_dataframe("run")


def row_batch(frame: pd.DataFrame) -> Any:
    """Return rows as the library takes them."""
    return _data_source().get_batch(batch_parameters={"dataframe": frame})


def _suite() -> Any:
    """Expect a value in every row, not below `least`, not above `most`; a row without a limit is not asked for it."""

    def not_above(lower: str, upper: str) -> Any:
        return gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A=upper, column_B=lower, or_equal=True, ignore_row_if="either_value_is_missing"
        )

    expected = [
        gxe.ExpectColumnValuesToNotBeNull(column="value"),
        not_above("least", "value"),
        not_above("value", "most"),
    ]
    return gx.ExpectationSuite(name="checks", expectations=expected)


def judge(results: Sequence[RuleResult], limits: ChecksConfig) -> dict[str, Verdict]:
    """Validate the figures of rule results.

    returns  verdicts by the rule's name
    errors   InternalError when an expectation could not be evaluated: no verdict is no pass
    """
    if not results:
        return {}
    figures = {r.name: figures_of(r, limits) for r in results}
    rows = [(name, *figure) for name, of_rule in figures.items() for figure in of_rule]
    frame = pd.DataFrame(rows, columns=[*_ROW, "value", "least", "most"]).astype(
        dict.fromkeys(("value", "least", "most"), float)
    )
    batch = row_batch(frame)
    outcome = batch.validate(
        _suite(), result_format={"result_format": "COMPLETE", "unexpected_index_column_names": _ROW}
    )
    broken: set[tuple[str, str]] = set()
    for item in outcome.results:
        kind = item.expectation_config.type
        if item.exception_info and item.exception_info.get("raised_exception"):
            raise InternalError(f"{kind} failed: {item.exception_info}")
        found = item.result["unexpected_index_list"] or []
        if item.result["element_count"] != len(rows) or item.success != (not found):
            raise InternalError(f"{kind} looked at {item.result['element_count']} of {len(rows)} figures")
        broken |= {(row["check"], row["figure"]) for row in found}
    verdicts = {}
    for name, of_rule in figures.items():
        parts = tuple(_described(f, holds=(name, f.name) not in broken) for f in of_rule)
        verdicts[name] = Verdict(name, all(e["holds"] for e in parts), parts)
    return verdicts


def _described(figure: Figure, *, holds: bool) -> dict[str, Any]:
    """Show a figure with its limits."""
    return {
        "figure": figure.name,
        "min": figure.least,
        "max": figure.most,
        "observed": str(figure.value),
        "holds": holds,
    }
