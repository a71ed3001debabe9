"""Iterators run side by side on threads, their results given in order, with a bound on what waits in memory."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def available_cores() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


class _Unit(Generic[R]):
    """Results of one item that nobody has taken yet."""

    def __init__(self) -> None:
        self.results: deque[tuple[R, int]] = deque()
        self.done = False
        self.error: BaseException | None = None


def run_ordered(
    items: Sequence[T],
    work: Callable[[T], Iterator[R]],
    size_of: Callable[[R], int],
    *,
    threads: int,
    budget_bytes: int,
) -> Iterator[R]:
    """All results of ``work(item)``, item by item in the order given; up to `threads` items are worked on at a time.

    budget_bytes   workers wait while more than this lies ready, except for the very result that is waited for
    errors         what `work` raises, when its item's turn has come
    stopping       closing the iterator stops the workers after the result they are making
    """
    if threads <= 1 or len(items) <= 1:
        for item in items:
            yield from work(item)
        return
    units: list[_Unit[R]] = [_Unit() for _ in items]
    changed = threading.Condition()
    state = {"head": 0, "bytes": 0, "stop": False}

    def run(number: int) -> None:
        unit = units[number]
        try:
            with changed:
                if state["stop"]:
                    return
            for result in work(items[number]):
                size = size_of(result)
                with changed:
                    while (
                        not state["stop"]
                        and state["bytes"] > budget_bytes
                        and (state["head"] != number or unit.results)
                    ):
                        changed.wait()
                    if state["stop"]:
                        return
                    unit.results.append((result, size))
                    state["bytes"] += size
                    changed.notify_all()
        except BaseException as error:
            unit.error = error
        finally:
            with changed:
                unit.done = True
                changed.notify_all()

    pool = ThreadPoolExecutor(min(threads, len(items)), "lakeidx-scan")
    try:
        for number in range(len(items)):
            pool.submit(run, number)
        for number, unit in enumerate(units):
            with changed:
                state["head"] = number
                changed.notify_all()
            while True:
                with changed:
                    while not unit.results and not unit.done:
                        changed.wait()
                    if not unit.results:
                        break
                    result, size = unit.results.popleft()
                    state["bytes"] -= size
                    changed.notify_all()
                yield result
            if unit.error is not None:
                raise unit.error
    finally:
        with changed:
            state["stop"] = True
            changed.notify_all()
        pool.shutdown(wait=True, cancel_futures=True)
