"""A batch of ten times the state's keys came into few shards, which the committing process then split: it held all keys.

With index type `state` 5 million rows took 559 MiB in a driver that may hold 128. Room is made before, by tasks.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from lakeidx.key_index.port import TagTasks
from lakeidx.key_index.state import key_state
from lakeidx.key_index.state.shard_runs import ShardWriter
from lakeidx.key_index.state.state_index import StateKeyIndex
from lakeidx.tasks.runner import LocalRunner
from tests.unit.key_index.fake_table import FakeTable
from tests.unit.key_index.state.test_state_index import check, commit_rows


@pytest.mark.parametrize("known", [0, 5])
def test_shards_are_split_before_the_rows_of_a_batch_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: int
) -> None:
    monkeypatch.setattr(key_state, "SHARD_ROWS", 4)
    table, key_index, split_by = FakeTable(tmp_path / "t"), StateKeyIndex(), []
    if known:
        commit_rows(table, key_index, [("a", (k,)) for k in range(known)], {}, bucket=1)
    rows = [("a", (k,)) for k in range(59)]
    commit = commit_rows(table, key_index, rows, {}, bucket=1, tell=False)
    context = table.context({})

    class Tasks(LocalRunner):
        def map(self, task, items, *, label="t"):  # type: ignore[no-untyped-def]
            split_by.append(label)
            return super().map(task, items, label=label)

    begun = key_index.begin_update(
        replace(commit, batch=None), commit.partitions, context, len(rows), TagTasks(Tasks(3), lambda: context, "room")
    )
    assert begun is not None
    update, shares = begun
    assert sum(len(share.runs) for share in shares) == 8
    assert set(split_by) == {"room"}
    sent, to = update.route(commit)
    stored = [update.store(share, [sent.filter(to == task)]) for task, share in enumerate(shares)]
    with mock.patch.object(ShardWriter, "split", side_effect=AssertionError("split by the process that commits")):
        key_index.finish_update(stored, context)
    check(table, rows, StateKeyIndex(), {})
