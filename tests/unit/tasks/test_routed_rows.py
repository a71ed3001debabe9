"""Rows cut by groups of targets: every row arrives once and in order, whatever the groups are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.tasks.routed_rows import RoutedRows, cut_rows, group_targets, pack_targets
from lakeidx.tasks.runner import LocalRunner
from tests.kit.shuffles import Tasks


@given(
    st.lists(st.integers(0, 9), max_size=200),
    st.lists(st.integers(0, 40), min_size=10, max_size=10),
    st.integers(1, 12),
    st.integers(1, 60),
)
@settings(max_examples=150, deadline=None)
def test_cutting_keeps_every_row_in_order(targets: list[int], weights: list[int], tasks: int, most: int) -> None:
    groups = group_targets(weights, tasks, most=most)
    table = pa.table({"i": pa.array(range(len(targets)), pa.int64())})
    cuts = list(cut_rows(RoutedRows(4, table, np.array(targets, np.int32)), groups))
    assert len({c.group for c in cuts}) == len(cuts)
    assert all(groups.group_of[t] == c.group for c in cuts for t in c.targets.tolist())
    assert all(c.rows.num_rows == int(c.lengths.sum()) for c in cuts)
    blocks = [b for c in cuts for b in c.blocks()]
    found = {b.target: b.rows.column("i").to_pylist() for b in blocks}
    assert len(blocks) == len(found)
    assert found == {t: [i for i, x in enumerate(targets) if x == t] for t in set(targets)}
    assert all(b.order == 4 for b in blocks)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(1, 12), st.integers(1, 60))
def test_groups_are_of_one_task_and_bounded(weights: list[int], tasks: int, most: int) -> None:
    groups = group_targets(weights, tasks, most=most)
    task = pack_targets(weights, tasks)
    assert [int(groups.task_of[g]) for g in groups.group_of.tolist()] == task
    assert groups.tasks == max(task) + 1
    for group in range(len(groups.task_of)):
        members = np.flatnonzero(groups.group_of == group)
        assert len(members) == groups.sizes[group] >= 1
        assert len(members) == 1 or sum(weights[m] for m in members) <= most


def test_the_heaviest_targets_are_spread_first() -> None:
    assert pack_targets([5, 9, 1, 5], 2) == [1, 0, 0, 1]
    assert pack_targets([1, 1], 5) == [0, 1]


@pytest.mark.parametrize("threads", [1, 3])
def test_rows_of_a_single_target_are_combined_in_order_as_they_are(threads: int) -> None:
    def split(item: int) -> list[RoutedRows]:
        rows = pa.table({"v": list(range(item, 2 * item))})
        return [RoutedRows(-item, rows, np.zeros(item, np.int32))]

    found = LocalRunner(threads).shuffle(
        Tasks(split, lambda t, blocks: (t, [(b.order, b.rows["v"].to_pylist()) for b in blocks])), range(4),
        targets=["only"], weights=[6], label="t",
    )  # fmt: skip
    assert found == [("only", [(-3, [3, 4, 5]), (-2, [2, 3]), (-1, [1])])]


@pytest.mark.parametrize("threads", [1, 3])
def test_a_local_shuffle_combines_every_target_in_order(threads: int) -> None:
    def split(item: int) -> list[RoutedRows]:
        return [RoutedRows(item, pa.table({"v": [item, item + 100]}), np.array([item % 3, 3], np.int32))]

    found = LocalRunner(threads).shuffle(
        Tasks(split, lambda t, blocks: (t, [v for b in blocks for v in b.rows["v"].to_pylist()])), range(5),
        targets=range(5), weights=[2, 2, 1, 5, 0], label="t",
    )  # fmt: skip
    assert found == [(0, [0, 3]), (1, [1, 4]), (2, [2]), (3, [100, 101, 102, 103, 104]), (4, [])]
    assert LocalRunner(threads).shuffle(Tasks(split, lambda t, b: t), range(5), targets=[], weights=[], label="t") == []
