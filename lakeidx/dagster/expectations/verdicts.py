"""Verdicts on rule results: each figure against its limits. Great Expectations, which judges rows (`of_rows`), is not needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakeidx.dagster.expectations.figures import Figure, figures_of
from lakeidx.pipeline_file.sections import ChecksConfig
from lakeidx.quality.result import RuleResult


@dataclass(frozen=True, slots=True)
class ExpectationVerdict:
    """The verdict of one check.

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


def judge(results: Sequence[RuleResult], limits: ChecksConfig) -> dict[str, ExpectationVerdict]:
    """Return verdicts on rule results by the rule's name.

    errors   KeyError for a rule that says nothing of its figures
    """
    verdicts = {}
    for result in results:
        parts = tuple(_described(f) for f in figures_of(result, limits))
        verdicts[result.name] = ExpectationVerdict(result.name, all(e["holds"] for e in parts), parts)
    return verdicts


def _described(figure: Figure) -> dict[str, Any]:
    """Show a figure with its limits."""
    return {
        "figure": figure.name,
        "min": figure.least,
        "max": figure.most,
        "observed": str(figure.value),
        "holds": figure.holds,
    }


def _broken(expectation: dict[str, Any]) -> str:
    figure, seen, least, most = (expectation[k] for k in ("figure", "observed", "min", "max"))
    if " = " in figure:
        return f"{figure} is not met ({seen}, {most})"
    limits = [f"at least {least}"] if least is not None and seen.startswith("-") else []
    limits += [f"at most {most}"] if most is not None else []
    return f"{figure} = {seen} ({' and '.join(limits)})" if limits else f"{figure} = {seen}"
