"""Joining answers of indexes."""

from __future__ import annotations

import pytest
from pyroaring import BitMap

from lakeidx.file_index.kinds.types import FileIndexResult, Verdict, intersect, unite

REMAIN, SKIP = Verdict.REMAIN, Verdict.SKIP
A, B = BitMap([1, 2]), BitMap([2, 3])


@pytest.mark.parametrize(
    ("left", "right", "both", "either"),
    [
        (REMAIN, REMAIN, REMAIN, REMAIN),
        (REMAIN, SKIP, SKIP, REMAIN),
        (REMAIN, A, A, REMAIN),
        (SKIP, SKIP, SKIP, SKIP),
        (SKIP, A, SKIP, A),
        (A, B, BitMap([2]), BitMap([1, 2, 3])),
    ],
)
def test_results_are_intersected_and_united(
    left: FileIndexResult, right: FileIndexResult, both: FileIndexResult, either: FileIndexResult
) -> None:
    assert intersect(left, right) == intersect(right, left) == both
    assert unite(left, right) == unite(right, left) == either
    assert BitMap([1, 2]) == A
