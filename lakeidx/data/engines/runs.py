"""Runs of rows with one key, row operations, and the columns of key-value tables as arrays.

A key-value table is in merge order: rows of a key one after another. Engines work on whole columns; what a column does
with each row is an *operation* code, so that all engines share the column functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.arrays import frozen
from lakeidx.codec.jit import kernel
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND

Int64s = npt.NDArray[np.int64]
Int8s = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]

#: The row does not concern the column.
SKIP = 0
#: Take the value in.
ADD = 1
#: Aggregate a value that is older than those accumulated.
OLDER = 2
#: Take the value back.
RETRACT = 3
#: Replace what was accumulated by the value, null included.
SET = 4
#: `SET`, then `RETRACT` the same value (a key that begins with a retract of a sequence group).
SET_RETRACT = 5


@dataclass(frozen=True, slots=True)
class Runs:
    """Beginnings of the runs of a key-value table.

    starts   int64[g], ascending, first 0; every run has at least one row
    rows     number of rows n
    """

    starts: Int64s
    rows: int

    @property
    def count(self) -> int:
        """Number of runs g."""
        return len(self.starts)

    @property
    def lasts(self) -> Int64s:
        """int64[g]: the last row of each run."""
        out = np.empty(self.count, np.int64)
        out[:-1] = self.starts[1:]
        if self.count:
            out[-1] = self.rows
        return out - 1

    @property
    def lengths(self) -> Int64s:
        """int64[g]: rows of each run."""
        return self.lasts - self.starts + 1

    def last_true(self, flags: Bools) -> Int64s:
        """Return int64[g]: the last row of each run whose flag is set, -1 where none is."""
        out = np.empty(self.count, np.int64)
        _last_true(frozen(flags), frozen(self.starts), self.rows, out)
        return out

    def first_true(self, flags: Bools) -> Int64s:
        """Return int64[g]: the first row of each run whose flag is set, -1 where none is."""
        out = np.empty(self.count, np.int64)
        _first_true(frozen(flags), frozen(self.starts), self.rows, out)
        return out

    def any_true(self, flags: Bools) -> Bools:
        """Return bool[g]: whether any row of the run has its flag set."""
        return self.last_true(flags) >= 0

    def of_rows(self, per_run: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return [n]: the run's value for each of its rows."""
        return np.repeat(per_run, self.lengths)


@kernel
def _last_true(flags, starts, rows, out):  # type: ignore[no-untyped-def]
    for g in range(len(starts)):
        i = (starts[g + 1] if g + 1 < len(starts) else rows) - 1
        while i >= starts[g] and not flags[i]:
            i -= 1
        out[g] = i if i >= starts[g] else -1


@kernel
def _first_true(flags, starts, rows, out):  # type: ignore[no-untyped-def]
    for g in range(len(starts)):
        i = starts[g]
        end = starts[g + 1] if g + 1 < len(starts) else rows
        while i < end and not flags[i]:
            i += 1
        out[g] = i if i < end else -1


def make_runs(kv: pa.Table, starts: npt.NDArray[Any]) -> Runs:
    """Check and wrap the run starts of a key-value table.

    errors   InvalidInputError when they are not the ascending starts of the table's rows
    """
    starts = np.ascontiguousarray(starts, np.int64)
    ok = len(starts) == 0 if kv.num_rows == 0 else len(starts) > 0 and starts[0] == 0 and starts[-1] < kv.num_rows
    if not ok or (len(starts) > 1 and int(np.diff(starts).min()) <= 0):
        raise InvalidInputError(f"run starts must rise from 0 and stay below the {kv.num_rows} rows")
    return Runs(starts, kv.num_rows)


def kinds_of(kv: pa.Table) -> Int8s:
    """Return int8[n]: row kinds of a key-value table."""
    found: Int8s = one_chunk(kv.column(VALUE_KIND)).to_numpy(zero_copy_only=False).astype(np.int8, copy=False)
    return found


def sequences_of(kv: pa.Table) -> Int64s:
    """Return int64[n]: sequence numbers of a key-value table."""
    found: Int64s = one_chunk(kv.column(SEQUENCE_NUMBER)).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found


def one_chunk(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one array.

    errors   InvalidInputError when its strings do not fit one array (2 GiB)
    """
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if column.num_chunks == 0:
        return pa.array([], column.type)
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        if combined.num_chunks != 1:
            raise InvalidInputError("a column of more than 2 GiB cannot be merged at once; merge smaller key ranges")
        return combined.chunk(0)
    return combined


def valid_rows(column: pa.ChunkedArray | pa.Array) -> Bools | None:
    """Return bool[n]: rows that are not null; None when all are."""
    if column.null_count == 0:
        return None
    found: Bools | None = one_chunk(column.is_valid()).to_numpy(zero_copy_only=False)
    return found


def take_positions(column: pa.ChunkedArray | pa.Array, positions: Int64s) -> pa.Array:
    """Take the values at the positions; -1 gives null.

    positions   int64[g], each -1 or a row
    """
    indices = pa.array(positions, mask=positions < 0) if len(positions) and positions.min() < 0 else pa.array(positions)
    return one_chunk(column.take(indices))


def assemble(kv: pa.Table, sequences: Int64s, kinds: Int8s, columns: dict[str, pa.Array]) -> pa.Table:
    """Build a key-value table of merged rows with the schema of the input.

    columns   by name, in any order; every column of `kv` but the two system columns
    """
    system = {SEQUENCE_NUMBER: pa.array(sequences, pa.int64()), VALUE_KIND: pa.array(kinds, pa.int8())}
    return pa.Table.from_arrays([system.get(n, columns.get(n)) for n in kv.schema.names], schema=kv.schema)


def value_names(kv: pa.Table) -> list[str]:
    """Return the table columns of a key-value table: all but the two system columns."""
    return [n for n in kv.schema.names if n not in (SEQUENCE_NUMBER, VALUE_KIND)]
