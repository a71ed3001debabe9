"""One figure of one way, and how processor seconds are taken."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a way to do something.

    decision   number of the page in docs/decisions
    way        what was done
    chosen     whether lakeidx does it this way
    what, unit what was measured
    """

    decision: int
    way: str
    chosen: bool
    what: str
    value: float
    unit: str


def cpu_seconds(work: Callable[[], T], rounds: int) -> tuple[float, T]:
    """Return the processor seconds of this process for the best of some rounds, after one that is not counted, and the result."""
    result = work()
    best = float("inf")
    for _ in range(rounds):
        started = time.process_time()
        result = work()
        best = min(best, time.process_time() - started)
    return best, result
