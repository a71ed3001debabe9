"""A runner that is made when there is something to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from lakeidx.tasks.routed_rows import Block, RoutedRows
from lakeidx.tasks.runner import R, Runner, T, U


class LazyRunner:
    """Makes its runner at the first `map` or `shuffle` that has something to do."""

    def __init__(self, make: Callable[[], Runner]) -> None:
        self._make = make
        self._made: Runner | None = None

    @property
    def started(self) -> bool:
        """True when the inner runner was made."""
        return self._made is not None

    @property
    def parallelism(self) -> int:
        """Parallelism of the inner runner, which is made if needed."""
        return self._runner().parallelism

    def map(self, task: Callable[[T], R], items: Sequence[T], *, label: str) -> list[R]:
        """See `Runner.map`."""
        return self._runner().map(task, items, label=label) if items else []

    def shuffle(
        self,
        split: Callable[[T], Iterable[RoutedRows]],
        items: Sequence[T],
        combine: Callable[[U, Iterator[Block]], R],
        *,
        targets: Sequence[U],
        weights: Sequence[int],
        label: str,
    ) -> list[R]:
        """See `Runner.shuffle`."""
        if not weights:
            return []
        return self._runner().shuffle(split, items, combine, targets=targets, weights=weights, label=label)

    def _runner(self) -> Runner:
        if self._made is None:
            self._made = self._make()
        return self._made
