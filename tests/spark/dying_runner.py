"""A runner whose tasks do all their work and then die, before they can answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lakeidx.tasks.routed_rows import Block, RoutedRows
from lakeidx.tasks.runner import Runner
from tests.kit.shuffles import Tasks


class DyingRunner:
    """Calls `die` behind each task, in its process, with ``STAGE task``, ``STAGE split`` or ``STAGE combine``.

    die   pickled by value, so it is made in a function; decides whether to end the process
    """

    def __init__(self, inner: Runner, die: Callable[[str], None]) -> None:
        self.inner, self.die = inner, die

    @property
    def parallelism(self) -> int:
        return self.inner.parallelism

    def map(self, task: Any, items: Sequence[Any], *, label: str) -> list[Any]:
        die, stage = self.die, label.partition(":")[0]

        def dying(item: Any) -> Any:
            out = task(item)
            die(f"{stage} task")
            return out

        return self.inner.map(dying, items, label=label)

    def shuffle(
        self, work: Any, items: Sequence[Any], *, targets: Sequence[Any], weights: Sequence[int], label: str
    ) -> list[Any]:
        die, stage = self.die, label.partition(":")[0]

        def dying_split(item: Any) -> Iterator[RoutedRows]:
            yield from list(work.split(item))
            die(f"{stage} split")

        def dying_combine(target: Any, blocks: Iterator[Block]) -> Any:
            out = work.combine(target, blocks)
            die(f"{stage} combine")
            return out

        return self.inner.shuffle(
            Tasks(dying_split, dying_combine), items, targets=targets, weights=weights, label=label
        )
