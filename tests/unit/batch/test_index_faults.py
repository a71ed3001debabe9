"""A batch that dies between tagging, writing and commit, and is run again: each row is there once, and the index is right."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from lakeidx.batch import index_types
from lakeidx.batch.artifacts import BatchFiles, BucketAssignmentReport, CommitReport, IndexWriteReport
from lakeidx.errors import UnavailableError
from lakeidx.key_index.hbase.client import StoredLocation
from lakeidx.table.commit.commit_changes import commit_changes
from tests.kit.index_history import (
    GLOBAL_TYPES,
    LOCAL_TYPES,
    IndexedTable,
    Model,
    Row,
    apply,
    fixed_history,
    hbase_stand_in,
    options_of,
)
from tests.unit.key_index.hbase.test_hbase_index import StandIn

#: Those that keep something outside the table, or move keys, differ most; the others take more time than the fast lane has.
FAST = {("hbase", True), ("cross-partition", True)}
_ALL = [(n, False) for n in LOCAL_TYPES] + [(n, True) for n in GLOBAL_TYPES]
TYPES = [
    pytest.param(n, g, id=f"{n}{' over partitions' if g else ''}", marks=() if (n, g) in FAST else pytest.mark.slow)
    for n, g in _ALL
]


class DeathError(BaseException):
    """The process ends here; nothing may catch it."""


def _close_dies(report: type[Any]) -> Any:
    close = BatchFiles.close

    def dies(self: BatchFiles, given: Any, **more: Any) -> Any:
        if isinstance(given, report):
            raise DeathError
        return close(self, given, **more)

    return mock.patch.object(BatchFiles, "close", dies)


def _dies(*_: object, **__: object) -> None:
    raise DeathError


def _commits_and_dies(*args: Any, **given: Any) -> None:
    commit_changes(*args, **given)
    raise DeathError


#: Where a process may die -> what is patched for that.
POINTS: Mapping[str, Callable[[], AbstractContextManager[Any]]] = {
    "tagged": lambda: _close_dies(BucketAssignmentReport),
    "written": lambda: _close_dies(IndexWriteReport),
    "before the index is prepared": lambda: mock.patch("lakeidx.batch.stages.commit._check_files", _dies),
    "prepared": lambda: mock.patch("lakeidx.batch.stages.commit.commit_changes", _dies),
    "committed": lambda: mock.patch("lakeidx.batch.stages.commit.commit_changes", _commits_and_dies),
    "the index was told": lambda: _close_dies(CommitReport),
}


def _new_process() -> None:
    index_types._in_memory.clear()


@pytest.mark.share(0.4)
@pytest.mark.slow
@pytest.mark.parametrize(("name", "over_partitions"), TYPES)
def test_a_batch_dies_at_every_point(tmp_path: Path, name: str, over_partitions: bool) -> None:
    """One batch per point: it dies there, and is run again by a new process."""
    history = fixed_history(7, batches=len(POINTS) + 2, size=20)
    model: Model = {}
    with hbase_stand_in(StandIn()):
        table = IndexedTable.make(tmp_path, name, options_of(name, over_partitions))
        for number, (batch, point) in enumerate(zip(history, [None, *POINTS, None], strict=True)):
            apply(model, batch, over_partitions=over_partitions)
            if point is not None:
                with POINTS[point](), pytest.raises(DeathError):
                    table.upsert(batch, f"b{number}")
                _new_process()
            table.upsert(batch, f"b{number}")
        table.check(model)
        snapshots = table.table.metadata.latest_snapshot()
        assert snapshots is not None
        assert snapshots.id == len(history)


@pytest.mark.share(0.4)
@pytest.mark.slow
@pytest.mark.parametrize("point", ["prepared", "committed"])
@pytest.mark.parametrize(("name", "over_partitions"), TYPES)
def test_another_batch_comes_in_between(tmp_path: Path, name: str, over_partitions: bool, point: str) -> None:
    """A batch dies before or after its commit, another one with the same keys is committed, and the first is run again: it comes
    later if it was not in the table yet, and changes nothing if it was."""
    first, one, between, last = fixed_history(11, batches=4, size=20)
    model: Model = {}
    with hbase_stand_in(StandIn()):
        table = IndexedTable.make(tmp_path, name, options_of(name, over_partitions))
        table.upsert(first, "first")
        with POINTS[point](), pytest.raises(DeathError):
            table.upsert(one, "one")
        _new_process()
        table.upsert(between, "between")
        table.upsert(one, "one")
        table.upsert(last, "last")
        order = (first, between, one, last) if point == "prepared" else (first, one, between, last)
        for batch in order:
            apply(model, batch, over_partitions=over_partitions)
        table.check(model)


@pytest.mark.slow
def test_hbase_is_away(tmp_path: Path) -> None:
    """Before the commit: nothing is written. After it: the stage fails, and runs through when HBase is back."""
    history = fixed_history(5, batches=3, size=24)
    model: Model = {}
    stand_in = StandIn()
    with hbase_stand_in(stand_in):
        table = IndexedTable.make(tmp_path, "hbase", GLOBAL_TYPES["hbase"])
        table.upsert(history[0], "b0")
        apply(model, history[0], over_partitions=True)

        def away(*_: object) -> dict[bytes, StoredLocation]:
            raise UnavailableError("HBase is away")

        with mock.patch.object(stand_in, "get", away), pytest.raises(UnavailableError):
            table.upsert(history[1], "b1")
        table.check(model)
        with mock.patch.object(stand_in, "put", away), pytest.raises(UnavailableError):
            table.upsert(history[1], "b1")
        table.check(model)
        apply(model, history[1], over_partitions=True)
        with mock.patch.object(stand_in, "delete", away), pytest.raises(UnavailableError):
            table.upsert(history[1], "b1")
        table.check(model)
        table.upsert(history[1], "b1")
        table.upsert(history[2], "b2")
        apply(model, history[2], over_partitions=True)
        table.check(model)


_KILLED = """
import os, sys
from pathlib import Path
from unittest import mock
from tests.kit.index_history import IndexedTable, fixed_history
from lakeidx.api.table import Table

def dies(*_, **__):
    os._exit(9)

table = IndexedTable("state", Table.open(sys.argv[1]))
batches = fixed_history(3, batches=3, size=24)
table.upsert(batches[1], "b1")
with mock.patch(sys.argv[2], dies):
    table.upsert(batches[2], "b2")
"""


@pytest.mark.share(0.5)
@pytest.mark.parametrize(
    "place",
    [
        "lakeidx.batch.key_state.update.StateUpdate.write",
        "lakeidx.batch.assignment.keyed_batch.write_located",
        "lakeidx.batch.key_state.state_table.StateTables.commit",
        "lakeidx.batch.key_state.state_table.StateTables.upkeep",
    ],
)
@pytest.mark.slow
def test_the_process_is_killed(tmp_path: Path, place: str) -> None:
    """Before the state is written, after tagging, before its snapshot is put, and before older ones go."""
    history: list[list[Row]] = fixed_history(3, batches=3, size=24)
    table = IndexedTable.make(tmp_path, "state", GLOBAL_TYPES["state"])
    table.upsert(history[0], "b0")
    run = subprocess.run([sys.executable, "-c", _KILLED, table.table.uri, place], check=False)
    assert run.returncode == 9
    table.upsert(history[1], "b1")
    table.upsert(history[2], "b2")
    model: Model = {}
    for batch in history:
        apply(model, batch, over_partitions=True)
    table.check(model)
    assert table.table.metadata.latest_snapshot_id() == 3
