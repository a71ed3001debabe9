"""Runner of stages: maps functions over items and shuffles Arrow blocks. It knows nothing of tables.

`LocalRunner` runs in this process; `lakeidx.spark.runner.SparkRunner` runs the same functions as Spark tasks. Functions and
items must pickle; they must not keep state between calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypeVar

from lakeidx.errors import InvalidInputError
from lakeidx.plugins import TOOLS, load_plugin
from lakeidx.tasks.routed_rows import Block, RoutedRows, cut_rows, group_targets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")
U = TypeVar("U")
_Item = TypeVar("_Item", contravariant=True)
_Target = TypeVar("_Target", contravariant=True)
_Made = TypeVar("_Made", covariant=True)

#: Called with (done, total) while a runner works.
Progress = Callable[[int, int], None]


class Shuffle(Protocol[_Item, _Target, _Made]):
    """Functions of the tasks of a shuffle."""

    def split(self, item: _Item, /) -> Iterable[RoutedRows]:
        """Give the rows of one item, with the target of each."""

    def combine(self, target: _Target, blocks: Iterator[Block], /) -> _Made:
        """Make what is wanted of a target; called once for each, with its blocks in ascending order."""


class Runner(Protocol):
    """Runs the functions of a stage."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at a time."""

    def map(self, task: Callable[[T], R], items: Sequence[T], *, label: str) -> list[R]:
        """Run `task(item)` for every item; return results in item order. A task's error is raised as it is.

        label   what the work is called where it runs: a word, and behind a colon what it works on
        """

    def shuffle(
        self, work: Shuffle[T, U, R], items: Sequence[T], *, targets: Sequence[U], weights: Sequence[int], label: str
    ) -> list[R]:
        """Send rows to targets and combine them there.

        targets   what each target is; a task gets its own
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

    def with_threads(self, most: int) -> LocalRunner:
        """Return a runner of that many threads, or of this one's where it has more."""
        return LocalRunner(max(most, self._parallelism), progress=self._progress)

    def map(self, task: Callable[[T], R], items: Sequence[T], *, label: str = "lakeidx") -> list[R]:
        """See `Runner.map`."""
        if self._parallelism == 1 or len(items) <= 1:
            out = []
            for i, item in enumerate(items):
                out.append(task(item))
                self._report(i + 1, len(items))
            return out
        with ThreadPoolExecutor(min(self._parallelism, len(items)), thread_name_prefix=label.partition(":")[0]) as pool:
            results = []
            # Threads log what this one is about.
            contexts = [copy_context() for _ in items]
            for i, result in enumerate(pool.map(lambda c, item: c.run(task, item), contexts, items)):
                results.append(result)
                self._report(i + 1, len(items))
            return results

    def shuffle(
        self, work: Shuffle[T, U, R], items: Sequence[T], *, targets: Sequence[U], weights: Sequence[int], label: str
    ) -> list[R]:
        """See `Runner.shuffle`; rows stay in memory."""
        if not weights:
            return []
        groups = group_targets(weights, 1)
        received: list[list[Block]] = [[] for _ in weights]
        for cuts in self.map(
            lambda item: [cut for routed in work.split(item) for cut in cut_rows(routed, groups)], items, label=label
        ):
            for cut in cuts:
                for block in cut.blocks():
                    received[block.target].append(block)

        def finish(target: int) -> R:
            blocks, received[target] = received[target], []
            blocks.sort(key=lambda b: b.order)
            return work.combine(targets[target], iter(blocks))

        return self.map(finish, range(len(weights)), label=label)

    def _report(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total)


#: None or "local" for this process, "spark" for the session there is (or a new one), a session, or a runner.
RunnerLike: TypeAlias = "Runner | SparkSession | Literal['local', 'spark'] | None"


THREADS = 2


def make_runner(runner: RunnerLike, *, threads: int = THREADS, progress: Progress | None = None) -> Runner:
    """Return the runner that a caller means.

    progress   called with (done, total) after every task; for runners that are made here
    errors     InvalidInputError for anything else, or when pyspark is not installed
    """
    if runner is None or runner == "local":
        return LocalRunner(threads, progress=progress)
    if runner == "spark":
        return spark_runner()
    if hasattr(runner, "shuffle") and hasattr(runner, "map"):
        return runner  # type: ignore[return-value]
    if hasattr(runner, "createDataFrame"):
        return load_plugin(TOOLS, "spark").SparkRunner(runner)  # type: ignore[no-any-return]
    raise InvalidInputError(f"runner must be 'local', 'spark', a Spark session or a runner, not {runner!r}")


def spark_runner(
    master: str | None = None, remote: str | None = None, *, name: str = "lakeidx", parallelism: int | None = None
) -> Runner:
    """Return a runner on a Spark session.

    name         what Spark's own pages call a session that is started here
    parallelism  slots of the cluster; None = as it says
    errors   InvalidInputError when pyspark is not installed, naming the extra
    """
    if find_spec("pyspark") is None:
        raise InvalidInputError("Spark needs pyspark: pip install 'lakeidx[spark]'")
    return load_plugin(TOOLS, "spark").session_runner(master, remote, name, parallelism)  # type: ignore[no-any-return]
