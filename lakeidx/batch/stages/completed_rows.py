"""Completes rows that lack columns, from earlier rows of the batch and from the table, a piece of a landing file at a time.

The rows of a piece are put in the table's order of each key, behind the row that the key had before; then a column that a row
lacks is the one of the nearest row before it that has it. A row that is older than the table's changes nothing, and is completed
by that. Where the key has no row, an insert gets null, and an update, or the new row of a change of key, is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.batch.before_images import Bools, Ints, KnownRows
from lakeidx.codec.gather import take_rows
from lakeidx.data.row_kinds import DELETE, INSERT, UPDATE_BEFORE, is_retract
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.landing.cast_rows import short_text
from lakeidx.landing.kind_rules import kinds_of_rows
from lakeidx.landing.types import Piece
from lakeidx.lookup.point.answers import LookupResult


@dataclass(frozen=True, slots=True)
class _Placed:
    """Rows that the keys of a piece had before, then rows of the piece: n entries in the order of each key.

    order     int64[n]: the entries in that order; all others are in it, too
    starts    int64[n]: first place of the entry's key
    base      bool[n]: what the key had before
    gone      bool[n]: from here on the key has no row, when the entry counts
    late      bool[n]: a row older than that
    lacking   bool[n]: rows that lack a column; `new`: those that may begin a key
    """

    order: Ints
    starts: Ints
    base: Bools
    gone: Bools
    late: Bools
    lacking: Bools
    new: Bools

    def alive_before(self) -> Bools:
        """bool[n]: the key has a row when the entry comes."""
        after = self._alive_after()
        before = np.concatenate([[False], after[:-1]])
        before[np.arange(len(after)) == self.starts] = False
        return before

    def ends(self) -> tuple[Ints, Bools]:
        """int64[k]: last place of each key; bool[k]: it has no row then."""
        last = np.flatnonzero(np.diff(self.starts, append=-1))
        return last, ~self._alive_after()[last]

    def _alive_after(self) -> Bools:
        """bool[n]: an update that lacks a column changes nothing about whether the key has a row."""
        decides = (self.base | self.gone | ~self.lacking | self.new) & ~self.late
        at = np.arange(len(decides))
        by = np.maximum.accumulate(np.where(decides, at, -1))
        return np.asarray((by >= self.starts) & ~self.gone[by], np.bool_)


class RowCompletion:
    """Completes the rows of a batch. Pieces come in the batch's order; one row per key that was met is held in memory.

    lookup   rows of the table by key, always of one snapshot
    """

    def __init__(self, schema: TableSchema, lookup: Callable[[pa.Table], LookupResult]) -> None:
        self._schema = schema
        self._names = list(schema.field_names)
        self._keys = list(schema.primary_keys)
        self._known = KnownRows(schema, schema.fields, lookup)

    def __call__(self, piece: Piece, rows: pa.Table, bad: Bools) -> tuple[pa.Table, Mapping[int, str]]:
        """Return the rows completed, and those that cannot be, each with its reason.

        rows   the piece's rows, cast, null where they lack a column; with row kinds if any is not +I
        bad    bool[n]: rows that are rejected anyway
        """
        kinds = kinds_of_rows(rows, self._schema)
        absent = self._absent(piece, rows.num_rows)
        lacks = np.any([np.zeros(rows.num_rows, np.bool_), *absent.values()], axis=0) & ~is_retract(kinds)
        reasons = _half_moved(piece, kinds, lacks & ~bad)
        counts = ~bad & (kinds != UPDATE_BEFORE)
        counts[list(reasons)] = False
        for key in self._keys:
            counts &= np.asarray(rows.column(key).is_valid())
        at = np.flatnonzero(counts)
        if not len(at):
            return rows, reasons
        mine = take_rows(rows.select(self._names), at).cast(self._known.types)
        asking = mine if self._known.sequence else mine.filter(pa.array(lacks[at]))
        base, gone = self._known.take(mine, asking)
        entries = pa.concat_tables([base, mine])
        placed = self._placed(entries, gone, kinds[at], lacks[at])
        refused = placed.lacking & ~placed.new & ~placed.alive_before() & ~placed.late
        sources = {n: self._sources(placed, refused, gone, a[at] & lacks[at]) for n, a in absent.items()}
        self._keep(placed, refused, entries, sources)
        back = placed.order[refused] - len(gone)
        reasons |= {int(at[i]): self._reason(absent, int(at[i]), mine, int(i)) for i in back}
        done = {n: (lacks & a & counts, sources[n]) for n, a in absent.items()}
        return self._completed(rows, entries, done, placed, at, len(gone)), reasons

    def _absent(self, piece: Piece, count: int) -> dict[str, Bools]:
        there, whole = set(piece.rows.column_names), np.ones(count, np.bool_)
        out = {n: whole if n not in there else piece.absent.get(n) for n in self._names if n not in self._keys}
        return {n: a for n, a in out.items() if a is not None}

    def _placed(self, entries: pa.Table, gone: Bools, kinds: NDArray[np.int8], lacks: Bools) -> _Placed:
        count, olds = entries.num_rows, len(gone)
        codes, ranks = self._known.codes([entries]), self._known.ranks([entries])
        least: Ints = np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)
        least[codes[:olds]] = np.where(gone, -1, ranks[:olds])
        is_base = np.arange(count) < olds
        late = ~is_base & (ranks < least[codes])
        order = np.lexsort((np.arange(count), np.where(is_base, least[codes], np.maximum(ranks, least[codes])), codes))
        first = np.flatnonzero(np.diff(codes[order], prepend=-1))
        starts = np.repeat(first, np.diff(first, append=count))
        deletes = np.concatenate([gone, kinds == DELETE])
        lacking = np.concatenate([np.zeros(olds, np.bool_), lacks])
        new = np.concatenate([np.zeros(olds, np.bool_), kinds == INSERT])
        return _Placed(
            order, starts, is_base[order], deletes[order], late[order], lacking[order], (new & lacking)[order]
        )

    @staticmethod
    def _sources(placed: _Placed, refused: Bools, gone: Bools, absent: Bools) -> Ints:
        """Return int64[n]: the place that each place has a column from."""
        lacks = np.concatenate([np.zeros(len(gone), np.bool_), absent])[placed.order]
        has = ~lacks | (placed.new & ~placed.alive_before())
        has &= ~placed.late & ~refused
        return np.maximum.accumulate(np.where(has, np.arange(len(has)), placed.starts))

    def _keep(self, placed: _Placed, refused: Bools, entries: pa.Table, sources: Mapping[str, Ints]) -> None:
        ends, gone = placed.ends()
        whole = np.maximum.accumulate(np.where(~placed.late & ~refused, np.arange(len(refused)), placed.starts))
        columns = {n: entries.column(n).take(pa.array(placed.order[sources.get(n, whole)[ends]])) for n in self._names}
        self._known.keep(pa.table(columns, schema=self._known.types), gone)

    def _completed(
        self,
        rows: pa.Table,
        entries: pa.Table,
        done: Mapping[str, tuple[Bools, Ints]],
        placed: _Placed,
        at: Ints,
        olds: int,
    ) -> pa.Table:
        mine = placed.order >= olds
        for name, (fills, source) in done.items():
            if not fills.any():
                continue
            where = np.zeros(rows.num_rows, np.int64)
            where[at[placed.order[mine] - olds]] = placed.order[source[mine]]
            both = pa.chunked_array(
                [*rows.column(name).chunks, *entries.column(name).chunks], rows.schema.field(name).type
            )
            picked = np.where(fills, rows.num_rows + where, np.arange(rows.num_rows))
            rows = rows.set_column(rows.column_names.index(name), name, both.take(pa.array(picked)).combine_chunks())
        return rows

    def _reason(self, absent: Mapping[str, Bools], row: int, mine: pa.Table, place: int) -> str:
        key = ", ".join(f"{k}={short_text(str(mine.column(k)[place].as_py()))}" for k in self._keys)
        names = ", ".join(n for n, a in absent.items() if a[row])
        return f"missing: the update lacks {names}, and the table has no row {key} to complete it from"


def _half_moved(piece: Piece, kinds: NDArray[np.int8], lacks: Bools) -> dict[int, str]:
    """Find new rows of changes of key that lack columns: these are columns of the old key's row."""
    if piece.changes is None:
        return {}
    pairs = np.diff(piece.changes, prepend=-1) == 0
    found = np.flatnonzero(lacks & pairs & (kinds == INSERT))
    return {int(i): "missing: a change of the key must come with all columns of the row" for i in found}
