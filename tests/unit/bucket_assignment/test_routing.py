"""Routing by hash, grouping of rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from lakeidx.bucket_assignment.routing import group_rows
from lakeidx.bucket_assignment.rules import assigner_of
from lakeidx.errors import InvalidInputError


def java_remainder(value: int, by: int) -> int:
    """Java's %: truncated, the sign of the dividend."""
    return -(-value % by) if value < 0 else value % by


def column(values: object) -> NDArray[np.int32]:
    return np.array(values, np.int32)


RIMS = [0, 1, -1, 7, -7, 2**31 - 1, -(2**31), 1465514398, -1743959279]


@pytest.mark.parametrize(("channels", "assigners"), [(1, 1), (5, 5), (7, 3), (4096, 4096), (3, 2)])
def test_assigner_is_what_java_computes(channels: int, assigners: int) -> None:
    pairs = [(p, k) for p in RIMS for k in RIMS]
    expected = [(abs(java_remainder(p, channels)) + abs(java_remainder(k, assigners))) % channels for p, k in pairs]
    shape = {"num_channels": channels, "num_assigners": assigners}
    assert assigner_of(column([p for p, _ in pairs]), column([k for _, k in pairs]), **shape).tolist() == expected
    one = assigner_of(RIMS[3], column(RIMS), **shape)
    assert one.tolist() == [e for e, (p, _) in zip(expected, pairs, strict=True) if p == RIMS[3]]
    assert one.dtype == np.int32


def test_grouping_by_task_keeps_every_row_once_in_order() -> None:
    hashes = np.random.default_rng(3).integers(-(2**31), 2**31, 5000).astype(np.int32)
    tasks = assigner_of(12345, hashes, num_channels=6, num_assigners=4)
    groups = group_rows(tasks, 6)
    assert len(groups) == 6
    for task in range(6):
        assert groups.rows(task).tolist() == [i for i, t in enumerate(tasks.tolist()) if t == task]
    assert sorted(groups.order.tolist()) == list(range(5000))


def test_empty_columns_and_empty_groups() -> None:
    groups = group_rows(column([]), 3)
    assert [groups.rows(g).tolist() for g in range(3)] == [[], [], []]
    groups = group_rows(column([2, 0, 2]), 4)
    assert [groups.rows(g).tolist() for g in range(4)] == [[1], [], [0, 2], []]
    assert len(group_rows(column([]), 0)) == 0


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="run from -1 to 3, not 0 to 2"):
        group_rows(column([3, -1]), 3)
    for channels, assigners in ((0, 1), (1, 0)):
        with pytest.raises(InvalidInputError, match="at least 1"):
            assigner_of(0, column([1]), num_channels=channels, num_assigners=assigners)
