"""Where the rows of one target stand together in a part, and which rows among them are strays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lakeidx.batch.target_files import find_stretches, stray_rows


def column(*runs: tuple[int, int]) -> NDArray[np.int32]:
    """Return the targets of a part from (target, rows) of its runs."""
    return np.repeat([t for t, _ in runs], [n for _, n in runs]).astype(np.int32)


@pytest.mark.parametrize(
    ("runs", "stretches"),
    [
        pytest.param([(3, 5000)], [(3, 5000)], id="one target"),
        pytest.param([(0, 9000), (1, 1000)], [(0, 9000), (1, 1000)], id="no strays"),
        pytest.param([(0, 9000), (7, 1), (0, 4000), (1, 5000)], [(0, 13001), (1, 5000)], id="a stray inside"),
        pytest.param([(7, 2), (0, 9000), (1, 9000), (7, 3)], [(0, 9002), (1, 9003)], id="strays at both ends"),
        pytest.param([(0, 9000), (7, 63), (1, 9000)], [(0, 9063), (1, 9000)], id="a short run"),
        pytest.param([(0, 20), (1, 20)], [(0, 20), (1, 20)], id="few rows"),
        pytest.param([], [], id="no rows"),
    ],
)
def test_stretches_of_a_part(runs: list[tuple[int, int]], stretches: list[tuple[int, int]]) -> None:
    assert find_stretches([column(*runs)]) == (tuple(stretches),)


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param([(t, 1000) for t in range(17)], id="too many stretches"),
        pytest.param([(0, 1), (1, 1)] * 5000, id="row by row"),
        pytest.param([(0, 100), (1, 100)] * 500, id="short runs"),
        pytest.param([(0, 300), *[(1, 60), (2, 60)] * 7], id="mostly strays"),
    ],
)
def test_mixed_rows_have_no_stretches(runs: list[tuple[int, int]]) -> None:
    assert find_stretches([column(*runs)]) == ()


def test_one_part_of_mixed_rows_is_enough_that_all_are_sent() -> None:
    assert find_stretches([column((0, 5000)), column(*[(0, 1), (1, 1)] * 5000)]) == ()


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 2000)), max_size=60))
def test_every_row_is_in_one_stretch_or_a_stray_of_it(runs: list[tuple[int, int]]) -> None:
    targets = column(*runs)
    found = find_stretches([targets])
    if not found:
        return
    assert sum(rows for _, rows in found[0]) == len(targets)
    rebuilt, start = np.full(len(targets), -1, np.int32), 0
    for target, rows in found[0]:
        own = np.full(rows, target, np.int32)
        strays = stray_rows(targets[start : start + rows], target)
        own[strays] = targets[start + strays]
        rebuilt[start : start + rows] = own
        start += rows
    assert (rebuilt == targets).all()
