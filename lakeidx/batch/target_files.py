"""Files with the target of each staged row; -1 = the row is dropped.

Rows placed in one process: one file per staged part, ``targets-<part>.arrow``. Rows placed in several tasks: each task writes a
file per part that it has rows of, ``targets-<part>-<task>.arrow``, and numbers its own targets in them, since no task knows
the others' buckets. The stage then writes what each of these numbers means, ``numbers-<task>.arrow``.

===================  ===============  ================================================================================
file                 columns, int32   one line per
===================  ===============  ================================================================================
targets-p            target           row of the part
targets-p-t          row, target      row of the part that task t placed, ascending; its own number of the target
numbers-t            target           target of task t: its number in the batch
===================  ===============  ================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.batch.arrow_files import read_columns, write_columns
from lakeidx.errors import CorruptFileError, InternalError
from lakeidx.storage.base import ObjectStore
from lakeidx.tasks.in_parallel import in_parallel

_SCHEMA = pa.schema([pa.field("target", pa.int32(), nullable=False)])
_SHARE_SCHEMA = pa.schema([pa.field(n, pa.int32(), nullable=False) for n in ("row", "target")])
_DROPPED, _MISSING = -1, -2

#: Stretches of a part, and runs and strays for each of its rows, beyond which its rows count as mixed.
_MOST_STRETCHES, _STRAYS = 16, 1 / 16
#: Rows of a run of one target that are no strays.
_LONG_RUN = 64

Int32s = NDArray[np.int32]
#: (target, rows) of stretches of rows that mostly go to one target, in their order.
RowStretches = tuple[tuple[int, int], ...]
#: Of each part, of each share that a task placed of it, or of all its rows.
Stretches = tuple[tuple[RowStretches, ...], ...]


def targets_path(directory: str, part: int) -> str:
    """Return the path of the targets of a part."""
    return f"{directory}/targets-{part:05d}.arrow"


def tasks_of_part(placing_tasks: Sequence[tuple[int, ...]], part: int) -> tuple[int, ...] | None:
    """Return the tasks that placed rows of a part, from those of each part; None where one process placed the batch."""
    return placing_tasks[part] if placing_tasks else None


def find_stretches(targets: Sequence[Int32s]) -> tuple[RowStretches, ...]:
    """Find where each part has the rows of one target together, but for a few strays; () when some part has them mixed.

    A first load in key order looks so: bucket after bucket is filled, and a row is a stray whose hash an earlier bucket has. Where
    tasks place rows, each fills buckets of its own, so it is the rows of each task that are looked at.

    targets   int32[rows] of each part, or of what a task placed of each
    returns   of each part: stretches that follow one another; `stray_rows` of one go to other targets
    """
    out = []
    for of_part in targets:
        found = _stretches_of(of_part)
        if found is None:
            return ()
        out.append(found)
    return tuple(out)


def _stretches_of(targets: Int32s) -> RowStretches | None:
    if not len(targets):
        return ()
    starts = np.flatnonzero(np.diff(targets, prepend=_MISSING))
    if len(starts) > max(_MOST_STRETCHES, len(targets) * _STRAYS):
        return None
    lengths = np.diff(starts, append=len(targets))
    # A run that is short is of strays, and lies in the stretch of the long one before it; the first ones in that of the one after.
    long = starts[lengths >= min(_LONG_RUN, int(lengths.max()))]
    long = long[np.flatnonzero(np.diff(targets[long], prepend=_MISSING))]
    sizes = np.diff(long[1:], prepend=0, append=len(targets))
    strays = np.count_nonzero(np.repeat(targets[long], sizes) != targets)
    if len(long) > _MOST_STRETCHES or strays > len(targets) * _STRAYS:
        return None
    return tuple(zip(targets[long].tolist(), sizes.tolist(), strict=True))


def stray_rows(targets: Int32s, target: int) -> NDArray[np.int64]:
    """Return which rows of a stretch go to another target than the stretch does, int64[n]."""
    return np.flatnonzero(targets != target)


def write_targets(store: ObjectStore, path: str, targets: Int32s) -> None:
    """Write the targets of one part as an Arrow IPC file."""
    write_columns(store, path, [targets], _SCHEMA)


def read_targets(store: ObjectStore, path: str) -> Int32s:
    """Read the target of each row of the part, int32[rows]."""
    (targets,), _ = read_columns(store, path, _SCHEMA)
    return targets


def write_part_share(store: ObjectStore, path: str, task: int, rows: Int32s, targets: Int32s) -> None:
    """Write the targets of the rows of a part that a task placed.

    path      of the part's targets
    rows      int32[n] positions in the part, ascending
    targets   int32[n] the task's own numbers
    """
    write_columns(store, share_path(path, task), [rows, targets], _SHARE_SCHEMA)


def write_numbers(store: ObjectStore, directory: str, task: int, numbers: Int32s) -> None:
    """Write the batch's numbers of a task's targets, int32[k]."""
    write_targets(store, _numbers_path(directory, task), numbers)


@dataclass(frozen=True, slots=True, eq=False)
class PlacedRows:
    """Rows of a part that one process placed.

    rows      int64[n] positions in the part, ascending; None: all its rows
    targets   int32[n]
    """

    rows: NDArray[np.int64] | None
    targets: Int32s

    def positions(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where in the part some of them are."""
        return chosen if self.rows is None else self.rows[chosen]


def read_part_targets(store: ObjectStore, path: str, tasks: Sequence[int] | None, rows: int) -> Int32s:
    """Read the target of each row of a part, int32[rows], whichever process placed it.

    path     of the part's targets
    tasks    those that placed rows of the part; None: its targets are in one file
    errors   InternalError when some row has no target, CorruptFileError
    """
    shares = read_shares(store, path, tasks, rows)
    if tasks is None:
        return shares[0].targets
    out = np.full(rows, _MISSING, np.int32)
    for share in shares:
        out[share.rows] = share.targets
    missing = int(np.count_nonzero(out == _MISSING))
    if missing:
        raise InternalError(f"{missing} of {rows} rows got no bucket", path=path)
    return out


def read_shares(store: ObjectStore, path: str, tasks: Sequence[int] | None, rows: int) -> list[PlacedRows]:
    """Read what each task placed of a part of so many rows; without tasks, one share of all rows.

    errors   InternalError when there are not as many targets as rows, CorruptFileError
    """
    if tasks is None:
        shares = [PlacedRows(None, read_targets(store, path))]
    else:
        shares = in_parallel(lambda task: read_share(store, path, task, rows), tasks)
    placed = sum(len(share.targets) for share in shares)
    if placed != rows:
        raise InternalError(f"{placed} targets for {rows} rows", path=path)
    return shares


def read_share(store: ObjectStore, path: str, task: int, rows: int) -> PlacedRows:
    """Read what a task placed of a part of so many rows, with the batch's numbers of its targets."""
    (at, own), _ = read_columns(store, share_path(path, task), _SHARE_SCHEMA)
    if len(at) and not 0 <= int(at.min()) <= int(at.max()) < rows:
        raise CorruptFileError(f"a target of a row that the part of {rows} rows does not have", path=path)
    return PlacedRows(at.astype(np.int64), as_numbered(store, path, task, own))


def as_numbered(store: ObjectStore, path: str, task: int, own: Int32s) -> Int32s:
    """Return the batch's numbers for a task's own numbers; dropped rows stay dropped.

    path   of a file in the directory of the targets
    """
    numbers = read_targets(store, _numbers_path(path.rpartition("/")[0], task))
    if len(own) and not _DROPPED <= int(own.min()) <= int(own.max()) < len(numbers):
        raise CorruptFileError(f"task {task} has {len(numbers)} targets, but a row is routed to another one", path=path)
    return np.append(numbers, np.int32(_DROPPED))[own]


def share_path(path: str, task: int) -> str:
    """Return the path of what a task wrote of a part, from that of the part."""
    return f"{path.removesuffix('.arrow')}-{task:05d}.arrow"


def _numbers_path(directory: str, task: int) -> str:
    return f"{directory}/numbers-{task:05d}.arrow"
