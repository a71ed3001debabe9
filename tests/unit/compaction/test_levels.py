"""Files of a bucket as levels: order of level 0, and what must not be."""

from __future__ import annotations

import dataclasses

import pytest

from lakeidx.compaction.levels import build_levels
from lakeidx.errors import CorruptFileError, InvalidInputError
from tests.kit.compaction_files import INT_KEY, a_file


def test_level_0_is_newest_first_and_files_without_time_are_oldest() -> None:
    files = [
        a_file("old", sequence=9),
        a_file("b", sequence=30, created=7),
        a_file("a", sequence=30, created=7),
        a_file("early", sequence=30, created=3),
        a_file("timeless", sequence=30, created=None),
    ]
    levels = build_levels(files, INT_KEY, num_levels=6)
    assert [f.file_name for r in levels.runs for f in r.files] == ["timeless", "early", "a", "b", "old"]


@pytest.mark.parametrize(("low", "high"), [(5, 20), (9, 20), (0, 0), (3, 4)])
def test_overlap_in_a_level_names_both_files(low: int, high: int) -> None:
    files = [a_file("left.parquet", 2, 0, 9), a_file("right.parquet", 2, low, high), a_file("far", 2, 30, 39)]
    with pytest.raises(
        CorruptFileError, match=r"files (left|right)\.parquet and (left|right)\.parquet overlap in level 2"
    ):
        build_levels(files, INT_KEY, num_levels=6)


def test_a_file_listed_twice() -> None:
    with pytest.raises(CorruptFileError, match=r"same\.parquet: the file is listed twice"):
        build_levels([a_file("same.parquet", 0), a_file("same.parquet", 5)], INT_KEY, num_levels=6)


def test_key_bounds_that_cannot_be_read_name_the_file() -> None:
    cut = dataclasses.replace(a_file("cut.parquet", 1), min_key=b"\0\0\0\1abc")
    with pytest.raises(CorruptFileError, match=r"^cut\.parquet: its key bounds cannot be read"):
        build_levels([cut], INT_KEY, num_levels=6)
    wide = dataclasses.replace(a_file("wide.parquet", 1), max_key=b"\0\0\0\2" + bytes(24))
    with pytest.raises(CorruptFileError, match=r"^wide\.parquet: .* have 2 columns, the primary key has 1"):
        build_levels([wide], INT_KEY, num_levels=6)
    with pytest.raises(CorruptFileError, match=r"^turned: its smallest key is above its largest"):
        build_levels([a_file("turned", 1, 5, 4)], INT_KEY, num_levels=6)


def test_one_level_is_too_few() -> None:
    with pytest.raises(InvalidInputError, match="num-levels must be at least 2, not 1"):
        build_levels([], INT_KEY, num_levels=1)
