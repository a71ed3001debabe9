"""Work on a whole table in groups: what is made of a group is committed before the next one is begun.

An item that fails costs only itself, and is named at the end; a driver that dies loses the group it was in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from lakeidx.errors import InternalError, LakeIdxError, NotFoundError
from lakeidx.tasks.runner import Runner

T = TypeVar("T")
R = TypeVar("R")

#: Items, and bytes that they read, that are committed together: what is lost with a driver that dies.
GROUP_ITEMS, GROUP_BYTES = 1000, 64 << 30
#: Failed items that an error names.
_NAMED = 5
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FailedItem:
    """An item that could not be worked on, and why."""

    name: str
    error: LakeIdxError


@dataclass(frozen=True, slots=True)
class _Try(Generic[T, R]):
    """A task whose failure is its result (runs in a task); pickles."""

    task: Callable[[T], R]
    name_of: Callable[[T], str]

    def __call__(self, item: T) -> R | FailedItem:
        try:
            return self.task(item)
        except LakeIdxError as error:
            found = error
        except Exception as error:
            _log.exception("%s: the task failed", self.name_of(item))
            found = InternalError(f"{type(error).__name__}: {error}")
        return FailedItem(self.name_of(item), found)


@dataclass(slots=True)
class GroupedWork(Generic[T, R]):
    """Items of one stage, worked on in groups; an error in one does not affect the others, whose work is kept.

    task      of one item; with `name_of`, the path that a message names, it must pickle
    size_of   bytes that it reads
    said      what an item is and what is done to it, for messages: ``("buckets", "compacted")``
    failed    items that could not be worked on
    """

    runner: Runner
    task: Callable[[T], R]
    name_of: Callable[[T], str]
    size_of: Callable[[T], int]
    label: str
    said: tuple[str, str]
    failed: list[FailedItem] = field(default_factory=list)

    def groups(self, work: Sequence[T]) -> Iterator[list[T]]:
        """Cut work into what is committed together, in its order."""
        group: list[T] = []
        size = 0
        for item in work:
            if group and (len(group) >= GROUP_ITEMS or size + self.size_of(item) > GROUP_BYTES):
                yield group
                group, size = [], 0
            group.append(item)
            size += self.size_of(item)
        if group:
            yield group

    def run(self, work: Sequence[T]) -> list[tuple[T, R]]:
        """Run the tasks of items; return those that succeeded, each with what it made."""
        made = self.runner.map(_Try(self.task, self.name_of), work, label=self.label)
        kept = []
        for item, result in zip(work, made, strict=True):
            if isinstance(result, FailedItem):
                _log.error("%s was not %s: %s", result.name, self.said[1], result.error)
                # Several tasks may have shares of one item.
                if result.name not in {f.name for f in self.failed}:
                    self.failed.append(result)
            else:
                kept.append((item, result))
        return kept

    def take_missing(self) -> set[str]:
        """Forget the items that failed because a file was missing, for others may have put new ones in their place; their names."""
        missing = {f.name for f in self.failed if isinstance(f.error, NotFoundError)}
        self.failed = [f for f in self.failed if f.name not in missing]
        return missing

    def raise_failed(self, planned: int, committed: int) -> None:
        """Raise an error that names the items that failed, if there are any; of the first one's kind."""
        if not self.failed:
            return
        first = self.failed[0].error
        items, done = self.said
        named = "; ".join(f"{f.name}: {f.error}" for f in self.failed[:_NAMED])
        rest = f"; and {len(self.failed) - _NAMED} more" if len(self.failed) > _NAMED else ""
        raise type(first)(
            f"{len(self.failed)} of {planned} {items} were not {done}, {committed} were committed: {named}{rest}"
        ) from first
