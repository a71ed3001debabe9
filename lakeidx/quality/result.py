"""What a quality rule says: a small typed answer that a caller can show, store or fail on.

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
"""Offenders a result shows; `figures` count all of them."""

BucketId = tuple[bytes, int]
"""Partition bytes (prefixed BinaryRow) and bucket, as manifests name a bucket."""

PartitionName = Callable[[bytes], Any]
"""How a sample names a partition; `bytes.hex` unless the caller can decode it."""


class Severity(StrEnum):
    """How bad a failed rule is."""

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
    figures      counts by name. Names that start with ``largest_`` or ``smallest_`` are extremes, all others are sums
    sample       up to `SAMPLE_LIMIT` offenders, plain values only
    description  one sentence: what holds when the rule passes
    """

    name: str
    passed: bool
    severity: Severity
    figures: Mapping[str, int | float]
    sample: Sequence[Mapping[str, Any]] = ()
    description: str

    @property
    def failed_badly(self) -> bool:
        """Whether this is a reason to stop."""
        return not self.passed and self.severity is Severity.ERROR

    def to_json(self) -> dict[str, Any]:
        """The result as plain JSON values."""
        return {
            "name": self.name,
            "passed": self.passed,
            "severity": self.severity.value,
            "figures": dict(self.figures),
            "sample": [dict(offender) for offender in self.sample],
            "description": self.description,
        }


def bounded(offenders: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """The first offenders, as many as a result may show."""
    return tuple(islice(offenders, SAMPLE_LIMIT))


def combine(results: Iterable[RuleResult]) -> RuleResult:
    """One result of several runs of the same rule over different pieces of a table.

    returns  passed when all passed; figures added up (extremes stay extremes); the first offenders
    errors   InvalidInputError for no result, or results of different rules
    """
    found = list(results)
    if len({r.name for r in found}) != 1:
        raise InvalidInputError(f"results of one rule can be combined, not of {sorted({r.name for r in found})}")
    figures: dict[str, int | float] = {}
    for result in found:
        for name, value in result.figures.items():
            if name not in figures:
                figures[name] = value
            elif name.startswith("largest_"):
                figures[name] = max(figures[name], value)
            elif name.startswith("smallest_"):
                figures[name] = min(figures[name], value)
            else:
                figures[name] += value
    return RuleResult(
        name=found[0].name,
        passed=all(r.passed for r in found),
        severity=Severity.ERROR if any(r.severity is Severity.ERROR for r in found) else Severity.WARN,
        figures=figures,
        sample=bounded(offender for r in found for offender in r.sample),
        description=found[0].description,
    )
