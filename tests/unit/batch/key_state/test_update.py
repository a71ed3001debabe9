"""Tasks that store a batch's locations leave the state that one process leaves."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lakeidx.batch.key_state import state_table
from lakeidx.batch.key_state.index import StateKeyIndex
from lakeidx.errors import InternalError
from lakeidx.key_index.locations import CommitInfo
from lakeidx.key_index.port import TagTasks
from lakeidx.tasks.runner import LocalRunner
from tests.unit.batch.key_state.test_index import check, commit_rows
from tests.unit.key_index.fake_table import FakeTable


def _part(commit: CommitInfo, start: int, stop: int) -> CommitInfo:
    """Some rows of a commit."""
    batch, was = commit.batch, commit.was
    assert batch is not None
    assert was is not None
    assert commit.partition is not None
    assert commit.bucket is not None
    assert commit.deleted is not None
    rows = slice(start, stop)
    return replace(
        commit,
        batch=replace(
            batch,
            partition=batch.partition[rows],
            keys=batch.keys.slice(start, stop - start),
            hashes=batch.hashes[rows],
        ),
        was=replace(was, bucket=was.bucket[rows], partition=was.partition[rows], file=was.file[rows]),
        partition=commit.partition[rows],
        bucket=commit.bucket[rows],
        deleted=commit.deleted[rows],
    )


def _tell_in_tasks(table: FakeTable, key_index: StateKeyIndex, commit: CommitInfo, tasks: int) -> None:
    assert commit.batch is not None
    context = table.context({})
    work = TagTasks(LocalRunner(tasks), lambda: context, "t")
    begun = key_index.begin_update(replace(commit, batch=None), commit.partitions, context, len(commit.batch), work)
    assert begun is not None
    sent, shares = pickle.dumps(begun[0]), pickle.loads(pickle.dumps(begun[1]))
    update = pickle.loads(sent)
    n = len(commit.batch)
    routed = [update.route(_part(commit, start, min(n, start + 3))) for start in range(0, n, 3)]
    stored = [update.store(share, (rows.filter(to == t) for rows, to in routed)) for t, share in enumerate(shares)]
    assert pickle.loads(pickle.dumps(stored)) == stored
    key_index.finish_update(stored, context)


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("is_global", [True, False], ids=["global", "by partition"])
def test_tasks_leave_what_one_process_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_global: bool, tasks: int
) -> None:
    monkeypatch.setattr(state_table, "BUCKET_KEYS", 4)
    rng = np.random.default_rng(tasks)
    tables = [FakeTable(tmp_path / name / "t") for name in ("one", "tasks")]
    indexes = [StateKeyIndex(is_global=is_global) for _ in tables]
    for number in range(6):
        # Keys come several times; over partitions they have one at a time.
        keys = rng.integers(0, 40, 12).tolist()
        rows = [("a" if is_global else "ab"[k * number % 2], (k,)) for k in keys]
        gone = (rng.random(40) < 0.2)[keys].tolist()
        for table, key_index, in_tasks in zip(tables, indexes, (False, True), strict=True):
            commit = commit_rows(table, key_index, rows, {}, bucket=number, deleted=gone, tell=not in_tasks)
            if in_tasks:
                _tell_in_tasks(table, key_index, commit, tasks)
        one, other = (i.count_keys(t.context({})) or {} for t, i in zip(tables, indexes, strict=True))
        assert {p: n for p, n in one.items() if n} == {p: n for p, n in other.items() if n}
        asked = [(p, (k,)) for p in "ab" for k in range(45)]
        fresh = StateKeyIndex(is_global=is_global)
        check(tables[1], asked, fresh, {})
        assert fresh.last_action is not None
        assert (fresh.last_action.kind, fresh.last_action.keys) == ("warm", 0)


def test_nothing_is_stored_for_a_snapshot_that_does_not_follow(tmp_path: Path) -> None:
    table, key_index = FakeTable(tmp_path / "t"), StateKeyIndex()
    commit = commit_rows(table, key_index, [("a", (1,))], {}, tell=False)
    work = TagTasks(LocalRunner(2), lambda: table.context({}), "t")
    assert key_index.begin_update(replace(commit, base_id=7), commit.partitions, table.context({}), 1, work) is None
    with pytest.raises(InternalError, match="without begin_update"):
        key_index.finish_update([], table.context({}))
