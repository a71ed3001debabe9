"""Changes of keys, computed while sorted runs are merged: the content of a compaction's changelog file.

=====================  =====================  ==========================================================
record before          merged record          rows
=====================  =====================  ==========================================================
none                   adds                   +I
adds                   adds                   -U, +U; none when equal and ``row-deduplicate`` is on
adds                   retracts, or is gone   -D
none                   retracts, or is gone   none
=====================  =====================  ==========================================================

-U and -D hold the row and the sequence number of the record before, +I and +U those of the merged one. Which record was there
before, and which keys have news at all, follows from the levels of the records:

``lookup``            keys with a record of level 0; before: the record of the lowest level above 0
``full-compaction``   keys with a record below the top level; before: the record of the top level
first-row tables      keys whose records are all of level 0: the merged record, kind and all

source   org.apache.paimon.mergetree.compact.{LookupChangelogMergeFunctionWrapper, FullChangelogMergeFunctionWrapper,
         FirstRowMergeFunctionWrapper}, org.apache.paimon.utils.ValueEqualiserSupplier, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.gather import gather_rows
from lakeidx.codec.rows.binary_row_vec import encode_rows
from lakeidx.data.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from lakeidx.format.schema.table_schema import VALUE_KIND, TableSchema
from lakeidx.types import DataType, Root

Int64s = npt.NDArray[np.int64]
Int8s = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]

#: Above every level there is.
_NO_LEVEL = np.int8(127)


class Changelog:
    """Collects the changes of a merge and passes them on in key order.

    top_level   the level whose records are what was there before (``full-compaction``); None: the lowest level above 0
    write       gets KV tables, none empty; a key's -U directly before its +U
    """

    def __init__(self, schema: TableSchema, write: Callable[[pa.Table], None], *, top_level: int | None = None) -> None:
        options = schema.table_options
        self._write = write
        self._top_level = top_level
        self._first_row = options.merge_engine == "first-row"
        self._compared: list[tuple[str, DataType]] | None = None
        if options.changelog_producer_row_deduplicate:
            ignored = set(options.changelog_producer_row_deduplicate_ignore_fields)
            self._compared = [(f.name, f.type) for f in schema.fields if f.name not in ignored]

    @property
    def compares_rows(self) -> bool:
        """True when pairs of equal rows are left out."""
        return self._compared is not None

    def add(
        self, tables: Sequence[pa.Table], levels: Int8s, order: Int64s, starts: Int64s, merged: Int64s, kinds: Int8s
    ) -> None:
        """Add the keys of one step of a merge.

        tables   rows, laid end to end; those that were read come first
        levels   int8[n]: of the rows that were read
        order    int64[n]: those rows by key; starts int64[g]: where each key begins in it
        merged   int64[g]: the row each key is merged to, -1 when none
        kinds    int8: of all rows
        """
        if levels.min() >= (1 if self._top_level is None else self._top_level):
            # Only records that were there before.
            return
        news, before = self._before(levels[order], order, starts)
        adds = _adds(kinds, merged)
        was = _adds(kinds, before)
        inserts = news & adds & (before < 0 if self._first_row else ~was)
        updates = np.zeros(len(news), np.bool_) if self._first_row else news & adds & was
        deletes = np.zeros(len(news), np.bool_) if self._first_row else news & ~adds & was
        if self._compared is not None and updates.any():
            at = np.flatnonzero(updates)
            updates[at] = self._differ(tables, before[at], merged[at])
        # Two places per key: what goes, then what comes.
        rows = np.full((len(news), 2), -1, np.int64)
        rows[:, 0] = np.where(updates | deletes, before, -1)
        rows[:, 1] = np.where(updates | inserts, merged, -1)
        codes = np.empty((len(news), 2), np.int8)
        codes[:, 0] = np.where(deletes, DELETE, UPDATE_BEFORE)
        codes[:, 1] = np.where(updates, UPDATE_AFTER, INSERT)
        if self._first_row:
            codes[:, 1] = kinds[merged]
        there = rows.reshape(-1) >= 0
        if not there.any():
            return
        out = gather_rows(tables, rows.reshape(-1)[there])
        at_kind = out.schema.get_field_index(VALUE_KIND)
        self._write(out.set_column(at_kind, out.schema.field(at_kind), pa.array(codes.reshape(-1)[there])))

    def _before(self, levels: Int8s, order: Int64s, starts: Int64s) -> tuple[Bools, Int64s]:
        """Return bool[g], keys with news, and int64[g], the row that was there before, -1 when there was none."""
        if self._top_level is not None:
            old = levels == self._top_level
            news = np.minimum.reduceat(levels, starts) < self._top_level
        else:
            above = np.where(levels > 0, levels, _NO_LEVEL)
            lowest = np.minimum.reduceat(above, starts)
            lengths = np.diff(np.append(starts, len(levels)))
            old = (levels > 0) & (levels == np.repeat(lowest, lengths))
            news = np.minimum.reduceat(levels, starts) == 0
        # A level holds a key once, so that there is one such row at most.
        return news, np.maximum.reduceat(np.where(old, order, np.int64(-1)), starts)

    def _differ(self, tables: Sequence[pa.Table], old: Int64s, new: Int64s) -> Bools:
        """Return bool[m]: which of m pairs of rows differ in a column that is compared."""
        assert self._compared is not None
        names = [n for n, _ in self._compared]
        few = [t.select(names) for t in tables]
        before, after = gather_rows(few, old), gather_rows(few, new)
        # Numbers with a fraction are compared as Java's ==: a NaN differs from itself, the two zeros do not.
        floats = [(n, t) for n, t in self._compared if t.root in (Root.FLOAT, Root.DOUBLE)]
        others = [(n, t) for n, t in self._compared if t.root not in (Root.FLOAT, Root.DOUBLE)]
        differs = pc.not_equal(*(_encoded(rows, others) for rows in (before, after))).to_numpy(zero_copy_only=False)
        for name, _ in floats:
            differs = differs | _numbers_differ(before.column(name), after.column(name))
        return np.asarray(differs, np.bool_)


def _encoded(rows: pa.Table, columns: Sequence[tuple[str, DataType]]) -> pa.Array:
    return encode_rows([rows.column(n) for n, _ in columns], [t for _, t in columns], rows.num_rows).to_arrow()


def _numbers_differ(before: pa.ChunkedArray, after: pa.ChunkedArray) -> Bools:
    null = [c.is_null().to_numpy(zero_copy_only=False) for c in (before, after)]
    differ = pc.fill_null(pc.not_equal(before, after), False).to_numpy(zero_copy_only=False)
    return np.asarray(differ | (null[0] != null[1]), np.bool_)


def _adds(kinds: Int8s, rows: Int64s) -> Bools:
    """Return bool[g]: whether there is a row, and it is of kind +I or +U."""
    return np.asarray((rows >= 0) & ((kinds[rows] & 1) == 0), np.bool_)
