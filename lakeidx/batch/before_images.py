"""Comparison of the rows before changes, as messages have them, with the rows of the table or of earlier messages of the batch.

A block of messages is judged at once: keys become numbers, the table's rows of keys not seen yet come by one point lookup, and the
row that each change finds is the last of its key before it (by the order of `sequence.field`, where the table has one).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakeidx.codec.gather import take_rows
from lakeidx.codec.rows.binary_row_vec import encode_rows, hash_columns
from lakeidx.data.json_values import json_rows
from lakeidx.data.row_kinds import SHORT_NAMES
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import VALUE_KIND
from lakeidx.landing.cast import cast_column
from lakeidx.landing.cast_rows import short_text
from lakeidx.landing.changes import message_formats
from lakeidx.landing.types import LandingOptions, Piece
from lakeidx.lookup.point.answers import LookupResult
from lakeidx.types import DataType, Field, Root, to_arrow

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
_OLD, _GONE = SHORT_NAMES.index("-U"), SHORT_NAMES.index("-D")
_PARTS = 10_000


def refuse_uncheckable(schema: TableSchema, options: LandingOptions) -> None:
    """Raise InvalidInputError where rows before changes are to be checked, and messages or table do not let them be."""
    table = schema.table_options
    if not 0 < options.check_before <= 1:
        why = f"the share of keys is between 0 and 1, not {options.check_before:g}"
    elif options.format not in message_formats():
        why = f"landing files of {options.format or 'no given format'} have none; use one of {', '.join(message_formats())}"
    elif table.merge_engine != "deduplicate" or table.ignore_delete:
        why = "the table does not keep rows as messages have them; that takes merge-engine=deduplicate without ignore-delete"
    else:
        return
    raise InvalidInputError(f"rows before changes cannot be checked: {why}")


@dataclass(frozen=True, slots=True)
class _Found:
    """The changes of a piece that are judged, and what they can find: m changes, and n entries: rows there at some time.

    keys, ranks     int64[n + m]: the key of every entry, then change, as a number, and its place in the table's order
    before          int64[m]: how many entries come before each change
    made            int64[m, 2]: first and last entry that each change makes itself, -1 for none
    gone            bool[n]: entries that say that the key has no row
    columns         by name: int64[m], what changes say, -1 for nothing; int64[n], what entries have
    least_ahead     a change whose rank is not so far above that of the entry it finds is late, and contradicts nothing
    """

    keys: Ints
    ranks: Ints
    before: Ints
    made: Ints
    gone: Bools
    columns: Mapping[str, tuple[Ints, Ints]]
    least_ahead: int

    @property
    def moves(self) -> Bools:
        """bool[m, 2]: whether an entry that a change makes is of another key."""
        keys = self.keys[len(self.gone) :, None]
        return np.asarray((self.made >= 0) & (self.keys[self.made] != keys), np.bool_)

    def contradicts(self, changes: Ints, entries: Ints) -> Bools:
        """Return for each pair of a change and an entry whether they contradict each other."""
        out = self.gone[entries].copy()
        for says, has in self.columns.values():
            out |= (says[changes] >= 0) & (says[changes] != has[entries])
        ahead = self.ranks[len(self.gone) + changes] - self.ranks[entries]
        return np.asarray(out & (ahead >= self.least_ahead), np.bool_)


class KnownRows:
    """The rows of keys that were met in a batch, as they are after what was read of it; one row per key is held in memory.

    fields    columns that rows have
    lookup    rows of the table by key
    types     Arrow types of the columns; whether one may be null is not looked at
    sequence  columns that order the rows of a key
    """

    def __init__(
        self, schema: TableSchema, fields: Sequence[Field], lookup: Callable[[pa.Table], LookupResult]
    ) -> None:
        self._schema = schema
        self._lookup = lookup
        self._keys = list(schema.primary_keys)
        self._names = [f.name for f in fields]
        self.sequence = [n for n in schema.table_options.sequence_field if n in self._names]
        self.types = pa.schema([(f.name, to_arrow(f.type)) for f in fields])
        self._rows = self.types.empty_table()
        self._gone: Bools = np.zeros(0, np.bool_)

    def take(self, met: pa.Table, asking: pa.Table) -> tuple[pa.Table, Bools]:
        """Take out the current rows of keys, and which of the keys are deleted or not there.

        met      rows whose keys are wanted as far as they are known
        asking   rows whose keys are looked up in the table when they are not
        """
        codes = self.codes([self._rows, met, asking])
        count = self._rows.num_rows
        here = np.isin(codes[:count], codes[count:])
        rows, gone = self._rows.filter(pa.array(here)), self._gone[here]
        self._rows, self._gone = self._rows.filter(pa.array(~here)), self._gone[~here]
        asking = asking.select(self._keys)
        firsts = np.unique(self.codes([rows, asking]), return_index=True)[1]
        fresh = firsts[firsts >= rows.num_rows] - rows.num_rows
        if not len(fresh):
            return rows, gone
        asked = take_rows(asking, np.sort(fresh))
        answer = self._lookup(asked)
        # The batch may bring columns that the table gets with it.
        there = set(answer.rows.column_names)
        found = pa.table(
            {n: answer.rows.column(n) if n in there else pa.nulls(answer.rows.num_rows) for n in self._names}
        )
        found = found.cast(self.types)
        for key in self._keys:
            found = found.set_column(self._names.index(key), self.types.field(key), asked.column(key))
        return pa.concat_tables([rows, found]), np.concatenate([gone, ~answer.found])

    def keep(self, rows: pa.Table, gone: Bools) -> None:
        """Put in the rows of keys that were taken out, as they are now."""
        self._rows = pa.concat_tables([self._rows, rows])
        self._gone = np.concatenate([self._gone, gone])

    def types_of(self, names: Sequence[str]) -> list[DataType]:
        """Return the types of columns."""
        return [self._schema.field(n).type for n in names]

    def codes(self, tables: Sequence[pa.Table]) -> Ints:
        """Return int64[n]: a number per key of the tables' rows, one after another."""
        return _numbers(pa.concat_tables([t.select(self._keys) for t in tables]), self.types_of(self._keys))

    def ranks(self, tables: Sequence[pa.Table]) -> Ints:
        """Return int64[n]: the position of each row in the table's order; 0 for all without one."""
        way = self._schema.table_options.sequence_field_sort_order
        out: Ints = np.zeros(sum(t.num_rows for t in tables), np.int64)
        for name in self.sequence:
            column = pa.chunked_array([c for t in tables for c in t.column(name).chunks], self.types.field(name).type)
            mine = np.asarray(pc.rank(column.combine_chunks(), way, tiebreaker="dense")) * column.is_valid().to_numpy()
            both = pa.array(out * (len(out) + 1) + mine.astype(np.int64))
            out = np.asarray(pc.rank(both, tiebreaker="dense")).astype(np.int64)
        return out


class BeforeImageCheck:
    """Finds the changes of a batch whose row before the change is not the one that is there.

    Pieces come in the batch's order. A change that is rejected is not there for those after it, as in the table. One row per key
    that was met is held in memory.

    lookup    rows of the table by key
    options   how messages are read: with `order`, a change that is not newer than the row it finds is late, and not judged
    """

    def __init__(
        self, schema: TableSchema, lookup: Callable[[pa.Table], LookupResult], options: LandingOptions
    ) -> None:
        self._schema = schema
        self._share = options.check_before
        flat = [f for f in schema.fields if not f.type.is_nested and f.type.root is not Root.VARIANT]
        self._names = [f.name for f in flat]
        self._keys = list(schema.primary_keys)
        self._least_ahead = 1 if options.order else 0
        self._known = KnownRows(schema, flat, lookup)
        self._rows = self._known.types

    def contradictions(self, piece: Piece, rows: pa.Table, bad: Bools) -> dict[int, str]:
        """Find rows of changes that contradict what is there; row -> reason.

        rows   the piece's rows, cast, with row kinds if any is not +I
        bad    bool[n]: rows that are rejected anyway
        """
        kinds = np.zeros(rows.num_rows, np.int8)
        if VALUE_KIND in rows.column_names:
            kinds = rows.column(VALUE_KIND).to_numpy()
        rows = rows.select(self._names).cast(self._rows)
        writes = np.flatnonzero(~bad & (kinds != _OLD) & self._sampled(rows))
        first, last, images = self._images(piece, bad)
        written = take_rows(rows, writes)
        # With an order, a row that only comes in may be older than the table's.
        asking = pa.concat_tables([images, written] if self._known.sequence else [images])
        there, gone = self._known.take(written, asking)
        entries = pa.concat_tables([there, written])
        start = len(gone) + np.searchsorted(writes, first, side="left")
        stop = len(gone) + np.searchsorted(writes, last, side="right")
        found = _Found(
            keys=self._known.codes([entries, images]),
            ranks=self._known.ranks([entries, take_rows(rows, last)]),
            before=start,
            made=np.where(stop > start, [start, stop - 1], -1).T,
            gone=np.concatenate([gone, kinds[writes] == _GONE]),
            columns={n: self._values(n, images, entries) for n in self._names if n not in self._keys},
            least_ahead=self._least_ahead,
        )
        by, kept = _judge(found)
        self._known.keep(take_rows(entries, kept), found.gone[kept])
        wrong = np.flatnonzero(by >= 0)
        reasons = self._reasons(found, wrong, by[wrong], images, entries)
        return {row: why for i, why in zip(wrong, reasons, strict=True) for row in range(first[i], last[i] + 1)}

    def _images(self, piece: Piece, bad: Bools) -> tuple[Ints, Ints, pa.Table]:
        """Return first and last row of each change that is checked, and its row before, cast; null where the message has none."""
        if piece.images is None:
            none = np.zeros(0, np.int64)
            return none, none, self._rows.empty_table()
        values, types = piece.images.values, self._rows
        columns = [
            cast_column(values.column(n), self._schema.field(n).type).values
            if n in values.column_names
            else pa.nulls(values.num_rows, types.field(n).type)
            for n in self._names
        ]
        images = pa.Table.from_arrays(columns, schema=types)
        first, last = piece.images.first, piece.images.first + piece.images.counts - 1
        judged = ~bad[first] & ~bad[last] & self._sampled(images)
        for key in self._keys:
            judged &= images.column(key).is_valid().to_numpy()
        at = np.flatnonzero(judged)
        return first[at], last[at], take_rows(images, at)

    def _sampled(self, rows: pa.Table) -> Bools:
        if self._share >= 1:
            return np.ones(rows.num_rows, np.bool_)
        hashes = hash_columns([rows.column(k) for k in self._keys], self._known.types_of(self._keys), rows.num_rows)
        return np.asarray(hashes.view(np.uint32) % np.uint32(_PARTS) < self._share * _PARTS, np.bool_)

    def _values(self, name: str, images: pa.Table, entries: pa.Table) -> tuple[Ints, Ints]:
        """Return a column's values as numbers: of images, -1 for null, and of entries."""
        both = _numbers(pa.concat_tables([images.select([name]), entries.select([name])]), self._known.types_of([name]))
        says = images.column(name).is_valid().to_numpy()
        return np.where(says, both[: len(says)], -1), both[len(says) :]

    def _reasons(self, found: _Found, wrong: Ints, by: Ints, images: pa.Table, entries: pa.Table) -> list[str]:
        shown, has = json_rows(take_rows(images, wrong)), json_rows(take_rows(entries, by))
        out = []
        for i, entry, said, there in zip(wrong, by, shown, has, strict=True):
            key = ", ".join(f"{k}={_shown(said[k])}" for k in self._keys)
            if found.gone[entry]:
                out.append(f"before: the message changes the row {key}, which the table does not have")
                continue
            name = next(n for n, (says, had) in found.columns.items() if says[i] >= 0 and says[i] != had[entry])
            out.append(
                f"before: column {name} of the row {key} is {_shown(said[name])} before the change, but the table has "
                f"{_shown(there[name])}"
            )
        return out


def _shown(value: object) -> str:
    return "null" if value is None else short_text(str(value))


def _numbers(rows: pa.Table, types: Sequence[DataType]) -> Ints:
    """Return int64[n]: equal for equal rows."""
    encoded = encode_rows(rows.columns, types, rows.num_rows).to_arrow()
    return np.asarray(encoded.dictionary_encode().indices).astype(np.int64)


def _judge(found: _Found) -> tuple[Ints, Ints]:
    """Return int64[m]: the entry that each change contradicts, -1 for none; and the last entry of every key.

    What a change makes is dropped with it, and those after it are judged again: a round per run of contradictions of a key.
    """
    n, m = len(found.gone), len(found.before)
    order = np.argsort(found.keys[:n], kind="stable")
    keys, ranks = found.keys[order], found.ranks[order]
    changes = np.argsort(found.keys[n:], kind="stable")
    place = np.searchsorted(keys * (n + 1) + order, found.keys[n:] * (n + 1) + found.before) - 1
    others: Bools = np.ones(n, np.bool_)
    others[found.made[(found.made >= 0) & ~found.moves]] = False
    foreign = np.cumsum(others[order], dtype=np.int64)[place]
    alive: Bools = np.ones(n, np.bool_)
    by: Ints = np.full(m, -1, np.int64)
    while True:
        newest = order[_newest_so_far(keys, np.where(alive[order], ranks, -1))]
        left = changes[by[changes] < 0]
        finds = newest[place[left]]
        wrong = found.contradicts(left, finds)
        if not wrong.any():
            last = newest[np.flatnonzero(np.diff(keys, append=-1))]
            return by, last[alive[last]]
        which, goes_by = _first_runs(found, left, finds, wrong, foreign)
        by[which] = goes_by
        dropped = found.made[which]
        alive[dropped[dropped >= 0]] = False


def _first_runs(found: _Found, left: Ints, finds: Ints, wrong: Bools, foreign: Ints) -> tuple[Ints, Ints]:
    """Return the changes that are wrong for sure, and the entry each contradicts.

    Of each key it is the first, and those right after it that contradict what it finds, up to a row that comes otherwise: but only
    up to the first change that may be one of them and puts its row under another key.

    left     changes by key, in their order
    finds    entry that each finds; `wrong`: whether they contradict
    foreign  of every change: how many rows of its key come before it that no change of the key has made
    """
    n = len(found.gone)
    keys = found.keys[n + left]
    at = np.flatnonzero(wrong)
    at = at[np.diff(keys[at], prepend=-1) != 0]
    ends = np.searchsorted(keys, keys[at], side="right")
    first = np.repeat(at, ends - at)
    starts = np.repeat(np.cumsum(ends - at) - (ends - at), ends - at)
    run = first + np.arange(len(first)) - starts
    limit = left[run[found.moves[left[run]].any(axis=1)]].min(initial=len(found.before))
    same = found.contradicts(left[run], finds[first]) & (foreign[left[run]] == foreign[left[first]])
    misses = np.cumsum(~(same & (left[run] <= limit)))
    goes = same & (left[run] <= limit) & (misses == misses[starts])
    return left[run[goes]], finds[first[goes]]


def _newest_so_far(keys: Ints, ranks: Ints) -> Ints:
    """Return int64[n]: of rows sorted by key, the last one up to each that no earlier one of its key outranks.

    ranks   -1 for rows that do not count
    """
    score = np.where(ranks < 0, -1, keys * (int(ranks.max(initial=0)) + 1) + ranks)
    leads = (score >= 0) & (score == np.maximum.accumulate(score))
    return np.maximum.accumulate(np.where(leads, np.arange(len(keys)), 0))
