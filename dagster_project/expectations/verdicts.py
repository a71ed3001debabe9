"""Verdicts of Great Expectations on rule results: one ephemeral context, one validation for all checks of a step."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pandas as pd

from lakeidx.errors import InternalError
from lakeidx.pipeline_file.sections import ChecksConfig
from lakeidx.quality.result import RuleResult

# Read by the library when it is imported.
os.environ["GX_ANALYTICS_ENABLED"] = "false"

import great_expectations as gx
from great_expectations.data_context.types.base import ProgressBarsConfig

from dagster_project.expectations.suites import SUITES


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the expectations say of one check.

    passed         all of its expectations hold
    expectations   plain values per expectation: what, of which figure, what was seen, whether it holds
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
        return f"{figure} is not met ({seen})"
    limits = [f"at least {least}"] if least is not None and seen.startswith("-") else []
    limits += [f"at most {most}"] if most is not None else []
    return f"{figure} = {seen} ({' and '.join(limits)})" if limits else f"{figure} = {seen}"


@cache
def _data_source() -> Any:
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_pandas("metrics").add_dataframe_asset("rules")
    return asset.add_batch_definition_whole_dataframe("run")


def _metrics_frame(results: Sequence[RuleResult]) -> pd.DataFrame:
    """Make a frame of one row: a column ``<rule>.<metric>`` per metric, and the sums that pairs of metrics are compared with."""
    row: dict[str, int | float] = {}
    for result in results:
        row |= {f"{result.name}.{name}": value for name, value in _with_sums(result).items()}
    return pd.DataFrame([row])


def _with_sums(result: RuleResult) -> dict[str, int | float]:
    metrics = dict(result.metrics)
    if result.name == "batch_rows_accounted":
        metrics["accounted"] = sum(metrics[n] for n in ("inserted", "updated", "deleted", "rejected"))
    elif result.name == "staged_rows_committed":
        metrics["committed_or_superseded"] = metrics["committed"] + metrics["superseded"]
    elif result.name == "stale_hashes":
        metrics["stale_share"] = metrics["stale_hashes"] / metrics["hashes"] if metrics["hashes"] else 0.0
    return metrics


def judge(results: Sequence[RuleResult], limits: ChecksConfig) -> dict[str, Verdict]:
    """Validate rule results, each with its own suite.

    returns  verdicts by the rule's name
    errors   InternalError when an expectation could not be evaluated: no verdict is no pass
    """
    if not results:
        return {}
    expectations = []
    for result in results:
        for number, expectation in enumerate(SUITES[result.name](limits)):
            for field in ("column", "column_A", "column_B"):
                if hasattr(expectation, field):
                    setattr(expectation, field, f"{result.name}.{getattr(expectation, field)}")
            expectation.meta = {"check": result.name, "number": number}
            expectations.append(expectation)
    suite = gx.ExpectationSuite(name="checks", expectations=expectations)
    frame = _metrics_frame(results)
    outcome = _data_source().get_batch(batch_parameters={"dataframe": frame}).validate(suite)
    seen: dict[str, list[dict[str, Any]]] = {r.name: [] for r in results}
    for item in outcome.results:
        config = item.expectation_config
        if item.exception_info and item.exception_info.get("raised_exception"):
            raise InternalError(f"an expectation of {config.meta['check']} failed: {item.exception_info}")
        seen[config.meta["check"]].append(_described(item, frame))
    return {name: Verdict(name, all(e["holds"] for e in parts), tuple(parts)) for name, parts in seen.items()}


def _described(item: Any, frame: pd.DataFrame) -> dict[str, Any]:
    config = item.expectation_config
    columns = [config.kwargs[k] for k in ("column", "column_A", "column_B") if k in config.kwargs]
    return {
        "expectation": config.type,
        "figure": " = ".join(c.partition(".")[2] for c in columns),
        "min": config.kwargs.get("min_value"),
        "max": config.kwargs.get("max_value"),
        "observed": ", ".join(str(frame[c].iloc[0]) for c in columns),
        "holds": bool(item.success),
    }
