"""Where stages run: a runner maps functions over items and shuffles Arrow blocks. It knows nothing of tables.

`LocalRunner` runs in this process; `lakeidx.spark.runner.SparkRunner` runs the same functions as Spark tasks. Functions and
items must pickle; they must not keep state between calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pyarrow as pa

T = TypeVar("T")
R = TypeVar("R")

#: Called with (done, total) while a runner works.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Block:
    """Rows on their way to a target.

    target   number of the target, 0 .. targets-1
    order    position of these rows in the batch; a target gets its blocks in ascending order
    rows     the rows
    """

    target: int
    order: int
    rows: pa.Table


class Runner(Protocol):
    """Runs the functions of a stage."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at a time."""

    def map(self, task: Callable[[T], R], items: Sequence[T], *, label: str) -> list[R]:
        """`task(item)` for every item; results in item order. An error of a task is raised as it is."""

    def shuffle(
        self,
        split: Callable[[T], Iterable[Block]],
        items: Sequence[T],
        combine: Callable[[int, Iterator[Block]], R],
        *,
        weights: Sequence[int],
        label: str,
    ) -> list[R]:
        """Send blocks to targets and combine them there.

        split     gives the blocks of one item
        combine   called once per target with its blocks in ascending order
        weights   one number per target: how much work it is (rows); targets are packed into tasks by it
        returns   results in target order
        """


class LocalRunner:
    """Runs everything in this process, tasks on threads (kernels and Arrow release the GIL).

    parallelism   number of threads; 1 runs in the caller's thread
    progress      called after every finished task
    """

    def __init__(self, parallelism: int = 1, *, progress: Progress | None = None) -> None:
        self._parallelism = max(1, parallelism)
        self._progress = progress

    @property
    def parallelism(self) -> int:
        """Number of threads."""
        return self._parallelism

    def map(self, task: Callable[[T], R], items: Sequence[T], *, label: str) -> list[R]:
        """See `Runner.map`."""
        if self._parallelism == 1 or len(items) <= 1:
            out = []
            for i, item in enumerate(items):
                out.append(task(item))
                self._tell(i + 1, len(items))
            return out
        with ThreadPoolExecutor(self._parallelism, thread_name_prefix=label) as pool:
            results = []
            for i, result in enumerate(pool.map(task, items)):
                results.append(result)
                self._tell(i + 1, len(items))
            return results

    def shuffle(
        self,
        split: Callable[[T], Iterable[Block]],
        items: Sequence[T],
        combine: Callable[[int, Iterator[Block]], R],
        *,
        weights: Sequence[int],
        label: str,
    ) -> list[R]:
        """See `Runner.shuffle`; blocks stay in memory."""
        received: list[list[Block]] = [[] for _ in weights]
        for blocks in self.map(lambda item: list(split(item)), items, label=label):
            for block in blocks:
                received[block.target].append(block)

        def finish(target: int) -> R:
            blocks, received[target] = received[target], []
            blocks.sort(key=lambda b: b.order)
            return combine(target, iter(blocks))

        return self.map(finish, range(len(weights)), label=label)

    def _tell(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total)


def pack_targets(weights: Sequence[int], tasks: int) -> list[int]:
    """Give every target a task so that the heaviest task is light: largest first, each to the lightest task.

    returns  one task number per target, 0 .. min(tasks, targets)-1
    """
    count = max(1, min(tasks, len(weights)))
    loads = [0] * count
    out = [0] * len(weights)
    for target in sorted(range(len(weights)), key=lambda t: -weights[t]):
        task = min(range(count), key=loads.__getitem__)
        out[target] = task
        loads[task] += weights[target] + 1
    return out
