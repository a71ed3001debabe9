"""Wall seconds and processor seconds of something done a few times: on a machine that does other work, only the latter tell."""

from __future__ import annotations

import os
import time
from collections.abc import Callable


def best_of(
    rounds: int, work: Callable[[], object], *, prepare: Callable[[], object] = lambda: None
) -> tuple[float, float]:
    """Return the least wall seconds and the least processor seconds of this process over some rounds; `prepare` is not timed."""
    wall, cpu = float("inf"), float("inf")
    for _ in range(rounds):
        prepare()
        begun, used = time.perf_counter(), time.process_time()
        work()
        wall, cpu = min(wall, time.perf_counter() - begun), min(cpu, time.process_time() - used)
    return wall, cpu


def children_seconds() -> float:
    """Return the processor seconds of all child processes that have ended."""
    return sum(os.times()[2:4])
