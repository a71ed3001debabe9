"""Routing by hash, grouping of rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from lakeidx.bucket_assignment.routing import group_rows
from lakeidx.bucket_assignment.rules import assigner_of
from lakeidx.errors import InvalidInputError


def column(values: object) -> NDArray[np.int32]:
    return np.array(values, np.int32)


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
