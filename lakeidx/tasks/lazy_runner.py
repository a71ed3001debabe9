"""A runner that is made when there is something to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from lakeidx.tasks.runner import R, Runner, Shuffle, T, U


class LazyRunner:
    """Makes its runner at the first `map` or `shuffle` that has something to do."""

    def __init__(self, make: Callable[[], Runner]) -> None:
        self._make = make

    @cached_property
    def _runner(self) -> Runner:
        return self._make()

    @property
    def parallelism(self) -> int:
        """Parallelism of the inner runner, which is made if needed."""
        return self._runner.parallelism

    def map(self, task: Callable[[T], R], items: Sequence[T], *, label: str) -> list[R]:
        """See `Runner.map`."""
        return self._runner.map(task, items, label=label) if items else []

    def shuffle(
        self, work: Shuffle[T, U, R], items: Sequence[T], *, targets: Sequence[U], weights: Sequence[int], label: str
    ) -> list[R]:
        """See `Runner.shuffle`."""
        return self._runner.shuffle(work, items, targets=targets, weights=weights, label=label) if weights else []
