"""Routing by hash, grouping of rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from lakeidx.bucket_assignment.routing import group_rows
from lakeidx.errors import InvalidInputError


def column(values: object) -> NDArray[np.int32]:
    return np.array(values, np.int32)


def test_empty_columns_and_empty_groups() -> None:
    groups = group_rows(column([]), 3)
    assert [g.tolist() for g in groups] == [[], [], []]
    groups = group_rows(column([2, 0, 2]), 4)
    assert [g.tolist() for g in groups] == [[1], [], [0, 2], []]
    assert group_rows(column([]), 0) == []
    assert [g.tolist() for g in group_rows(column([70_000, 3, 70_000]), 70_001)][3::69_997] == [[1], [0, 2]]


@pytest.mark.parametrize("codes", [[0, 3], [-1, 0]])
def test_numbers_without_a_group_are_refused(codes: list[int]) -> None:
    with pytest.raises(InvalidInputError, match="group numbers run from"):
        group_rows(column(codes), 3)
