"""Result of a quality rule: a small typed value that a caller can show, store or fail on.

A rule never raises because of what it finds; it reads no store. Rules that look at a partition or a bucket at a time
can be run piece by piece and put together with `combine`, so that a verification needs no more memory than its largest
piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any

from lakeidx.errors import InvalidInputError

SAMPLE_LIMIT = 20
"""Offenders a result shows; `metrics` count all of them."""

BucketId = tuple[bytes, int]
"""Partition bytes (prefixed BinaryRow) and bucket, as manifests name a bucket."""

PartitionName = Callable[[bytes], Any]
"""How a sample names a partition; `bytes.hex` unless the caller can decode it."""


class Severity(StrEnum):
    """Severity of a failed rule."""

    ERROR = "error"
    """Data is wrong, or will be after the next batch: stop what follows."""
    WARN = "warn"
    """Worth a look: space, speed or balance suffers, answers are right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """The answer of one rule.

    name         of the rule, snake_case, stable: checks and dashboards go by it
    passed       nothing was found
    severity     what a failure would mean; set whether passed or not
    metrics      counts by name. Names that start with ``largest_`` or ``smallest_`` are extremes, all others are sums
    sample       up to `SAMPLE_LIMIT` offenders, plain values only
    description  one sentence: what holds when the rule passes
    """

    name: str
    passed: bool
    severity: Severity
    metrics: Mapping[str, int | float]
    sample: Sequence[Mapping[str, Any]] = ()
    description: str

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        return {
            "name": self.name,
            "passed": self.passed,
            "severity": self.severity.value,
            "metrics": dict(self.metrics),
            "sample": [dict(offender) for offender in self.sample],
            "description": self.description,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RuleResult:
        """Make a result from the output of `to_json`."""
        return cls(**{**data, "severity": Severity(data["severity"]), "sample": tuple(data["sample"])})


def bounded(offenders: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """Return the first offenders, as many as a result may show."""
    return tuple(islice(offenders, SAMPLE_LIMIT))


def combine(results: Iterable[RuleResult]) -> RuleResult:
    """Combine the results of one rule over different pieces of a table.

    returns  passed when all passed; metrics added up (extremes stay extremes); the first offenders
    errors   InvalidInputError for no result, or results of different rules
    """
    found = list(results)
    if len({r.name for r in found}) != 1:
        raise InvalidInputError(f"results of one rule can be combined, not of {sorted({r.name for r in found})}")
    metrics: dict[str, int | float] = {}
    for result in found:
        for name, value in result.metrics.items():
            if name not in metrics:
                metrics[name] = value
            elif name.startswith("largest_"):
                metrics[name] = max(metrics[name], value)
            elif name.startswith("smallest_"):
                metrics[name] = min(metrics[name], value)
            else:
                metrics[name] += value
    return RuleResult(
        name=found[0].name,
        passed=all(r.passed for r in found),
        severity=Severity.ERROR if any(r.severity is Severity.ERROR for r in found) else Severity.WARN,
        metrics=metrics,
        sample=bounded(offender for r in found for offender in r.sample),
        description=found[0].description,
    )
