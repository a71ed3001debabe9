"""The files of one bucket as levels of sorted runs.

source   org.apache.paimon.mergetree.Levels, org.apache.paimon.mergetree.SortedRun, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lakeidx.compaction.pick import LevelRun
from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.format.data_file import DataFileMeta
from lakeidx.table.intervals import RankedFile, rank_files
from lakeidx.types import DataType


@dataclass(frozen=True, slots=True)
class Levels:
    """Levels of one (partition, bucket).

    runs         newest first: one run per level-0 file, then one per level that has files, upwards
    num_levels   levels of the tree, 0 included; more than requested when a file sits higher
    """

    runs: tuple[LevelRun, ...]
    num_levels: int

    @property
    def max_level(self) -> int:
        """The highest level a compaction may write to."""
        return self.num_levels - 1

    @property
    def non_empty_highest_level(self) -> int:
        """The highest level with files, -1 when there are none."""
        return self.runs[-1].level if self.runs else -1


def build_levels(files: Sequence[DataFileMeta], key_types: Sequence[DataType], *, num_levels: int) -> Levels:
    """Sort the files of a bucket into levels.

    files        any order
    key_types    types of the trimmed primary key
    num_levels   option num-levels; raised when a file sits higher
    errors       CorruptFileError naming two files that overlap in one level >= 1, a file that is listed twice, or one
                 whose key bounds cannot be read; InvalidInputError when there would be fewer than two levels
    """
    needed = max(num_levels, max((f.level for f in files), default=-1) + 1)
    if needed < 2:
        raise InvalidInputError(f"num-levels must be at least 2, not {num_levels}")
    seen: set[str] = set()
    for f in files:
        if f.file_name in seen:
            raise CorruptFileError("the file is listed twice in one bucket", path=f.file_name)
        if f.level < 0:
            raise CorruptFileError(f"the file is at level {f.level}", path=f.file_name)
        seen.add(f.file_name)
    runs = [LevelRun(0, (f,)) for f in sorted((f for f in files if f.level == 0), key=_level_0_order)]
    above: dict[int, list[RankedFile]] = {}
    for ranked in rank_files([f for f in files if f.level > 0], key_types):
        above.setdefault(ranked.file.level, []).append(ranked)
    runs += [LevelRun(level, _sorted_run(level, above[level])) for level in sorted(above)]
    return Levels(tuple(runs), needed)


def _level_0_order(f: DataFileMeta) -> tuple[int, int, int, str]:
    # Files without a creation time are older than the field itself.
    created = -(1 << 63) if f.creation_time_ms is None else f.creation_time_ms
    return -f.max_sequence_number, f.min_sequence_number, created, f.file_name


def _sorted_run(level: int, files: list[RankedFile]) -> tuple[DataFileMeta, ...]:
    files.sort(key=lambda f: (f.low, f.high))
    for left, right in pairwise(files):
        if right.low <= left.high:
            raise CorruptFileError(
                f"files {left.file.file_name} and {right.file.file_name} overlap in level {level}; "
                "keys of one level must not",
                path=right.file.file_name,
            )
    return tuple(f.file for f in files)
