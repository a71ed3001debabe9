"""Frames that only look like Spark's: a `lakeidx.spark.runner.SparkRunner` works on them in this process, without a JVM.

Functions are pickled as Spark would. What goes to tasks, and between them, is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle


class Frame:
    """Rows of some tasks, made when they are asked for."""

    def __init__(self, session: Session, tasks: Callable[[], list[pa.Table]]) -> None:
        self.session, self.tasks = session, tasks

    def mapInArrow(self, function: Callable[..., Any], _: str) -> Frame:
        """Run a function on the rows of each task."""
        sent = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
        self.session.sent.append(len(sent))

        def tasks() -> list[pa.Table]:
            out = []
            for table in self.tasks():
                made = list(cloudpickle.loads(sent)(iter(table.combine_chunks().to_batches())))
                out += [pa.Table.from_batches(made)] if made else []
            return out

        return Frame(self.session, tasks)

    def union(self, other: Frame) -> Frame:
        """Give the tasks of both."""
        return Frame(self.session, lambda: [*self.tasks(), *other.tasks()])

    def repartitionById(self, count: int, column: str) -> Frame:
        """Send rows to tasks by a number."""

        def tasks() -> list[pa.Table]:
            whole = pa.concat_tables(self.tasks())
            self.session.moved += whole.nbytes
            owner = whole.column(column).to_numpy() % count
            return [whole.filter(pa.array(owner == task)) for task in range(count)]

        return Frame(self.session, tasks)

    def select(self, *names: str) -> Frame:
        """Keep some columns."""
        return Frame(self.session, lambda: [t.select(list(names)) for t in self.tasks()])

    def sortWithinPartitions(self, *names: str) -> Frame:
        """Sort the rows of each task."""
        return Frame(self.session, lambda: [t.sort_by([(n, "ascending") for n in names]) for t in self.tasks()])

    def toArrow(self) -> pa.Table:
        """Return all rows."""
        return pa.concat_tables(self.tasks())


class Session:
    """A Spark session as far as the runner uses one.

    sent    sizes of the functions that went to tasks
    moved   bytes of rows that went from task to task
    """

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.moved = 0
        self.conf = self.sparkContext = self

    def getLocalProperty(self, _: str) -> None:
        """Know of no property."""

    def setLocalProperty(self, *_: str) -> None:
        """Take a property."""

    def get(self, _: str, default: str) -> str:
        """Return what is asked for as default."""
        return default

    def set(self, *_: str) -> None:
        """Take a setting."""

    def range(self, start: int, end: int, step: int, numPartitions: int) -> Frame:
        """Give a task for each number."""
        return Frame(self, lambda: [pa.table({"id": [n]}) for n in range(start, end, step)])

    def createDataFrame(self, table: pa.Table) -> Frame:
        """Give one task all rows."""
        return Frame(self, lambda: [table])
