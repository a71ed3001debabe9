"""Run stage functions in processes of this machine; rows between tasks are in local files, as compressed Arrow blocks.

What a task holds is its own process's, so the process that calls holds nothing that grows with rows: of a shuffle it gets where
each block lies. A map task writes the blocks of its item one after another into a file of its own; a reduce task reads those of one
group of targets. All of it is gone when the shuffle ends.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from lakeidx.errors import InternalError
from lakeidx.tasks.blocks import (
    BlockWriter,
    block_folder,
    decode_block,
    release_free_memory,
    take_block,
)
from lakeidx.tasks.limits import available_bytes, available_cores
from lakeidx.tasks.routed_rows import (
    Block,
    GroupBlock,
    RoutedRows,
    TargetGroups,
    blocks_by_target,
    cut_rows,
    group_targets,
)
from lakeidx.tasks.runner import Shuffle

T = TypeVar("T")
R = TypeVar("R")
U = TypeVar("U")

#: Memory that is reckoned for each process.
_PROCESS_BYTES = 1 << 30


def process_count() -> int:
    """Return how many processes this machine, or its container, has processors and memory for; at least one."""
    return max(1, min(available_cores(), available_bytes() // _PROCESS_BYTES))


class ProcessRunner(AbstractContextManager["ProcessRunner"]):
    """A `lakeidx.tasks.runner.Runner` on processes, which start with the first task and end with the context.

    parallelism   number of processes
    folder        where rows between tasks lie; None = the system's folder for temporary files
    """

    def __init__(self, parallelism: int, *, folder: str | None = None) -> None:
        self._parallelism = max(1, parallelism)
        self._folder = folder
        # Not forked: the caller may have threads, whose locks a fork would copy as they are.
        start = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(self._parallelism, mp_context=start, initializer=_end_with_parent)

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    @property
    def parallelism(self) -> int:
        """Number of processes."""
        return self._parallelism

    def map(self, task: Callable[[T], R], items: Sequence[T], *, label: str) -> list[R]:
        """See `lakeidx.tasks.runner.Runner.map`.

        errors   InternalError when a process was ended from outside
        """
        try:
            return list(self._pool.map(task, items))
        except BrokenProcessPool as error:
            raise InternalError(
                f"{label}: a worker process was killed, as the system does when it runs out of memory;"
                f" {self._parallelism} run at a time"
            ) from error

    def shuffle(
        self, work: Shuffle[T, U, R], items: Sequence[T], *, targets: Sequence[U], weights: Sequence[int], label: str
    ) -> list[R]:
        """See `lakeidx.tasks.runner.Runner.shuffle`.

        errors   as `map`; UnavailableError when the folder's disk is full
        """
        if not weights:
            return []
        groups = group_targets(weights, self._parallelism)
        with block_folder(self._folder) as folder:
            written = self.map(_Spill(work.split, groups, folder), list(enumerate(items)), label=label)
            shares = list(_shares(targets, groups, written))
            combined = self.map(partial(_combine, work.combine, folder), shares, label=label)
        out: list[Any] = [None] * len(weights)
        for share, results in zip(shares, combined, strict=True):
            for target, result in zip(share.numbers, results, strict=True):
                out[target] = result
        return out


#: Where blocks lie, int64[n, 5]: group, order, item, first byte, bytes.
_Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Spill(Generic[T]):
    """Map: write the blocks of one item; pickles."""

    split: Callable[[T], Iterable[RoutedRows]]
    groups: TargetGroups
    folder: str

    def __call__(self, numbered: tuple[int, T]) -> tuple[str, _Places]:
        """Return the name of the file, and the place of each block in it."""
        number, item = numbered
        places = []
        with BlockWriter(self.folder) as writer:
            for routed in self.split(item):
                for block in cut_rows(routed, self.groups):
                    written = writer.write(block, self.groups)
                    places += [(block.group, block.order, number, *place) for place in written]
        return writer.name, np.array(places, np.int64).reshape(-1, 5)


@dataclass(frozen=True, slots=True)
class _Share(Generic[U]):
    """Input of a reduce task: the targets of one group, and the places of its blocks, in the wanted order.

    names   of the files of items
    """

    group: int
    numbers: list[int]
    targets: list[U]
    places: _Places
    names: dict[int, str]


def _shares(targets: Sequence[U], groups: TargetGroups, written: Sequence[tuple[str, _Places]]) -> Iterator[_Share[U]]:
    """Yield a share for each group, the largest first."""
    places = np.concatenate([np.zeros((0, 5), np.int64), *(p for _, p in written)])
    group, order, item, start, size = places.T
    places = places[np.lexsort((start, item, order, group))]
    edges = np.searchsorted(places[:, 0], np.arange(len(groups.task_of) + 1))
    numbers: list[list[int]] = [[] for _ in groups.task_of]
    for target, of in enumerate(groups.group_of.tolist()):
        numbers[of].append(target)
    sizes = np.bincount(group, weights=size, minlength=len(numbers))
    for of in np.argsort(-sizes, kind="stable").tolist():
        own = places[edges[of] : edges[of + 1]]
        names = {item: written[item][0] for item in np.unique(own[:, 2]).tolist()}
        yield _Share(of, numbers[of], [targets[number] for number in numbers[of]], own, names)


def _combine(combine: Callable[[U, Iterator[Block]], R], folder: str, share: _Share[U]) -> list[R]:
    """Reduce: combine the targets of one group (in a process of the pool, whose next task finds the memory free)."""
    named = dict(zip(share.numbers, share.targets, strict=True))
    try:
        blocks = blocks_by_target(_read(folder, share), share.numbers)
        return [combine(named[target], received) for target, received in blocks]
    finally:
        release_free_memory()


def _read(folder: str, share: _Share[Any]) -> Iterator[GroupBlock]:
    for group, order, item, start, size in share.places.tolist():
        yield decode_block(group, order, take_block(folder, share.names[item], start, size))


def _end_with_parent() -> None:
    """Let this process end when the one that started it has died; else it would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True, name="lakeidx-parent").start()
