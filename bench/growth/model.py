"""The cost model: what a stage costs is a sum of what it may follow, each with a constant that is not negative.

The constants are fitted to the points by least squares of the relative errors, so that small points count as much as large
ones. What is looked at: a figure of a stage (processor seconds, requests, MiB), and of the stage `bucket_assignment` once for
each index type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.growth.points import STAGE_FIGURES, STAGES, Measured

#: What each stage may follow, besides a constant.
FEATURES: Mapping[str, tuple[str, ...]] = {
    "ingest": ("rows",),
    "bucket_assignment": ("rows", "keys", "buckets", "partitions"),
    "index_write": ("rows", "buckets"),
    "commit": ("buckets", "files", "partitions"),
}
#: Index types are measured at fewer points, so fewer constants can be told apart.
TYPE_FEATURES = ("rows", "keys")
HELD_OUT, TYPES, ROWS, EACH = "held out", "types", "rows", "each batch"
#: Along these not one measure of a table grows.
NOT_GROWING = (HELD_OUT, TYPES, ROWS)


@dataclass(frozen=True, slots=True)
class Cost:
    """Constants of one figure of one stage, by what they follow; `each batch` is what a batch costs anyway."""

    constants: Mapping[str, float]

    def of(self, work: Mapping[str, int]) -> float:
        """Return the figure for some work."""
        return sum(c * (1 if name == EACH else work[name]) for name, c in self.constants.items())


def fit(features: Sequence[str], work: Sequence[Mapping[str, int]], found: Sequence[float]) -> Cost:
    """Return the constants for some points.

    errors   ValueError when no point has a figure above 0
    """
    # Takes most of a second, which those who read the figures only need not wait for.
    from scipy.optimize import nnls

    used = [(w, y) for w, y in zip(work, found, strict=True) if y > 0]
    if not used:
        raise ValueError("no point has a figure above 0")
    matrix = np.array([[1, *(w[name] for name in features)] for w, _ in used], np.float64)
    values = np.array([y for _, y in used])
    scale = np.maximum(np.abs(matrix).max(axis=0), 1)
    solved, _ = nnls(matrix / scale / values[:, None], np.ones(len(values)))
    return Cost(dict(zip((EACH, *features), (float(c) for c in solved / scale), strict=True)))


def stage_costs(measured: Sequence[Measured]) -> dict[str, dict[str, Cost]]:
    """Per stage and figure, from tables of index type `hash`; the held-out point is not looked at."""
    used = [m for m in measured if m.point.axis not in NOT_GROWING]
    out: dict[str, dict[str, Cost]] = {}
    for stage in STAGES:
        of = [m for m in used if stage in m.stages]
        for figure in STAGE_FIGURES:
            there = [m for m in of if m.stages[stage].get(figure, 0) > 0]
            if there:
                cost = fit(FEATURES[stage], [m.work for m in there], [m.stages[stage][figure] for m in there])
                out.setdefault(stage, {})[figure] = cost
    return out


def type_costs(measured: Sequence[Measured]) -> dict[str, Cost]:
    """Return the processor seconds of `bucket_assignment` per index type."""
    by_type: dict[str, list[Measured]] = {}
    for m in measured:
        if m.point.axis == TYPES:
            by_type.setdefault(m.point.index, []).append(m)
    stage = "bucket_assignment"
    return {
        t: fit(TYPE_FEATURES, [m.work for m in of], [m.stages[stage]["cpu"] for m in of]) for t, of in by_type.items()
    }
