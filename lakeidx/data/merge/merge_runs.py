"""Sorted runs of one bucket merged into one stream of rows, memory bounded by a batch per run.

How: rows come in parts that are complete up to one key (`run_parts`). They are merged by key (`merge_two`, a pass per run), grouped
by equal keys, and the groups resolved: a key with one record keeps it as it is (Paimon never calls the merge function for it), the
others go through the merge engine. Where only one run has rows up to the cut they pass through as slices. Nothing happens per row
outside kernels.

source   org.apache.paimon.mergetree.compact.SortMergeReaderWithMinHeap, ReducerMergeFunctionWrapper,
         org.apache.paimon.mergetree.DropDeleteReader; release 1.4.2
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.arrays import frozen
from lakeidx.codec.gather import gather_rows
from lakeidx.codec.order.key import argsort_keys
from lakeidx.codec.order.normalized_key import NormalizedKeys, find_sorted, normalized_keys
from lakeidx.data.engines import MergeEngine, make_engine
from lakeidx.data.engines.factory import DeduplicateEngine
from lakeidx.data.merge.kernels import key_buffers, pick_last, sort_groups, starts_of_keys
from lakeidx.data.merge.levels import LEVEL, Int64s, newest_above_0
from lakeidx.data.merge.order import BIGINT, merge_order, sequence_columns
from lakeidx.data.merge.run_parts import Part, complete_parts, concat_keys, merge_parts, merge_to_last, take_keys
from lakeidx.format.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema

if TYPE_CHECKING:
    from lakeidx.data.merge.changelog import Changelog


Int8s = npt.NDArray[np.int8]


def merge_sorted_runs(
    runs: Sequence[Iterable[pa.Table]],
    schema: TableSchema,
    engine: MergeEngine | None = None,
    *,
    drop_deletes: bool = False,
    shortcut: bool = True,
    changelog: Changelog | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.Table]:
    """Merge sorted runs of one bucket.

    runs          each gives KV tables in key order, no key twice; all of one Arrow schema, which may leave columns out but
                  not the system columns, the trimmed primary key, the sequence fields nor what the engine requires. With
                  the column LEVEL (`lakeidx.data.merge.levels`) the merge goes by it where the table requests that; it is
                  not given back
    engine        default: the one the table's options request
    drop_deletes  leave out rows whose kind is -U or -D after the merge
    shortcut      keep a key's only record as it is; False (lookup compactions) sends it through the engine
    changelog     gets the changes of the keys, deletes that are left out among them; the runs then have the column LEVEL
    columns       columns of the runs to give back, at least one; None: all
    returns       KV tables in key order, each key at most once; never an empty one
    errors        CorruptFileError for a run that is not in key order; InvalidInputError for what the engine cannot merge
    memory        a batch per run, their keys, and the merged rows up to the next cut
    """
    merger = _Merger(
        schema,
        engine or make_engine(schema),
        drop_deletes=drop_deletes,
        shortcut=shortcut,
        changelog=changelog,
        columns=columns,
    )
    for parts in complete_parts(runs, schema):
        merged = merger.merge(parts)
        if merged.num_rows:
            yield merged


def merge_rows(
    kv: pa.Table, schema: TableSchema, engine: MergeEngine | None = None, *, drop_deletes: bool = False
) -> pa.Table:
    """Sort the rows of one bucket and merge those of equal keys: what a writer flushes.

    kv       rows in any order, `_SEQUENCE_NUMBER` in order of arrival
    returns  a KV table in key order, each key at most once
    errors   InvalidInputError for a null in a key column, and what the engine cannot merge
    """
    if kv.num_rows == 0:
        return kv
    order = merge_order(kv, schema) if kv.num_rows > 1 else np.zeros(1, np.int64)
    keys = normalized_keys([kv.column(k) for k in schema.trimmed_primary_keys], schema.key_types)
    starts = starts_of_keys(key_buffers(keys), order)
    merger = _Merger(schema, engine or make_engine(schema), drop_deletes=drop_deletes, shortcut=True)
    return merger.resolve([kv], order, starts, keys, ordered=True)


class _Merger:
    """Resolves the rows of equal keys."""

    def __init__(
        self,
        schema: TableSchema,
        engine: MergeEngine,
        *,
        drop_deletes: bool,
        shortcut: bool,
        changelog: Changelog | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        self._schema = schema
        self._columns = None if columns is None else list(columns)
        self._changelog = changelog
        self._by_level = schema.table_options.merges_by_level
        self._engine = engine
        self._drop_deletes = drop_deletes
        self._shortcut = shortcut
        # The last row wins and nothing is computed: rows need not be put in order nor copied twice.
        self._keep_last = isinstance(engine, DeduplicateEngine) and not schema.table_options.ignore_delete
        self._by_sequence = not schema.table_options.sequence_field

    def merge(self, parts: Sequence[Part]) -> pa.Table:
        """Merge the rows of several runs into one table in key order."""
        tables, levels = _without_levels([p.table for p in parts])
        if len(parts) == 1 and (self._shortcut or self._keep_last):
            rows = np.arange(tables[0].num_rows)
            return self._given(tables, rows, rows, rows, _kinds(tables), levels)
        keys = concat_keys([p.keys for p in parts])
        buffers = key_buffers(keys)
        lengths = [len(p.keys) for p in parts]
        if self._keep_last and self._by_sequence and self._changelog is None:
            # No one asks which rows were merged: those that stay are found while merging.
            kinds = _kinds(tables)
            return self._gathered(tables, merge_to_last(lengths, buffers, _sequences(tables), kinds), kinds)
        order = merge_parts(lengths, buffers)
        return self.resolve(tables, order, starts_of_keys(buffers, order), keys, ordered=False, levels=levels)

    def resolve(
        self,
        tables: Sequence[pa.Table],
        order: Int64s,
        starts: Int64s,
        keys: NormalizedKeys,
        *,
        ordered: bool,
        levels: Int8s | None = None,
    ) -> pa.Table:
        """Resolve the versions of each key to one row.

        order    int64[n]: rows of the tables laid end to end, by key; `ordered`: in full merge order
        starts   int64[g]: where each key begins in `order`
        keys     of the rows of the tables laid end to end
        levels   int8[n]: their levels, where merging goes by them
        """
        kinds = _kinds(tables)
        if self._keep_last and (ordered or self._by_sequence):
            if len(starts) == len(order):
                chosen = order
            elif ordered:
                chosen = order[np.append(starts[1:], len(order)) - 1]
            else:
                chosen = np.empty(len(starts), np.int64)
                pick_last(frozen(order), frozen(starts), frozen(_sequences(tables)), frozen(kinds), chosen)
            return self._given(tables, order, starts, chosen, kinds, levels)
        lengths = np.diff(np.append(starts, len(order)))
        alone = lengths == 1 if self._shortcut else np.zeros(len(starts), np.bool_)
        if alone.all():
            return self._given(tables, order, starts, order[starts], kinds, levels)
        if not ordered:
            order = self._merge_order(tables, order, starts, lengths, kinds)
        return self._through_engine(tables, order, starts, alone, lengths, keys, kinds, levels)

    def _through_engine(
        self,
        tables: Sequence[pa.Table],
        order: Int64s,
        starts: Int64s,
        alone: npt.NDArray[np.bool_],
        lengths: Int64s,
        keys: NormalizedKeys,
        kinds: Int8s,
        levels: Int8s | None,
    ) -> pa.Table:
        together = ~np.repeat(alone, lengths)
        group_starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths[~alone])[:-1]))
        rows, shortcut = order[together], self._shortcut
        if levels is not None and self._by_level:
            # Also a record that is left alone goes through the engine, as Java counts records before it leaves some out.
            rows, group_starts = newest_above_0(rows, group_starts, levels[rows])
            shortcut = False
        merged = self._engine.merge(gather_rows(tables, rows), group_starts, shortcut=shortcut)
        # Rows by key: the single ones where they are, the merged ones behind all tables.
        total = sum(t.num_rows for t in tables)
        chosen = np.full(len(starts), -1, np.int64)
        chosen[alone] = order[starts[alone]]
        places = np.flatnonzero(~alone)
        if merged.num_rows != len(places):
            found = normalized_keys(
                [merged.column(k) for k in self._schema.trimmed_primary_keys], self._schema.key_types
            )
            places = places[find_sorted(take_keys(keys, order[starts[~alone]]), found)]
        chosen[places] = total + np.arange(merged.num_rows)
        parts = [*tables, merged.cast(tables[0].schema) if merged.schema != tables[0].schema else merged]
        return self._given(parts, order, starts, chosen, np.concatenate((kinds, _kinds([merged]))), levels)

    def _merge_order(
        self, tables: Sequence[pa.Table], order: Int64s, starts: Int64s, lengths: Int64s, kinds: Int8s
    ) -> Int64s:
        """Reorder `order` so that the rows of each key are in merge order."""
        if self._by_sequence:
            order = order.copy()
            sort_groups(order, frozen(starts), frozen(_sequences(tables)), frozen(kinds))
            return order
        several = np.repeat(lengths > 1, lengths)
        rows = order[several]
        names = [SEQUENCE_NUMBER, VALUE_KIND, *self._schema.table_options.sequence_field]
        few = gather_rows([t.select(list(dict.fromkeys(names))) for t in tables], rows)
        columns, types = sequence_columns(few, self._schema)
        groups = np.repeat(np.arange(len(lengths)), lengths)[several]
        within = argsort_keys([pa.array(groups), *columns], [BIGINT, *types])
        order = order.copy()
        order[several] = rows[within]
        return order

    def _given(
        self,
        tables: Sequence[pa.Table],
        order: Int64s,
        starts: Int64s,
        chosen: Int64s,
        kinds: Int8s,
        levels: Int8s | None,
    ) -> pa.Table:
        """Gather the rows that keys are merged to (-1: none), and pass the changes to the changelog."""
        if self._changelog is not None and len(starts):
            assert levels is not None, "a changelog goes by the levels of the rows"
            self._changelog.add(tables, levels, order, starts, chosen, kinds)
        return self._gathered(tables, chosen if len(chosen) == 0 or chosen.min() >= 0 else chosen[chosen >= 0], kinds)

    def _gathered(self, tables: Sequence[pa.Table], rows: Int64s, kinds: Int8s) -> pa.Table:
        if self._drop_deletes and (kinds & 1).any():
            keep = (kinds[rows] & 1) == 0
            if not keep.all():
                rows = rows[keep]
        return gather_rows(tables if self._columns is None else [t.select(self._columns) for t in tables], rows)


def _without_levels(tables: Sequence[pa.Table]) -> tuple[Sequence[pa.Table], Int8s | None]:
    if LEVEL not in tables[0].column_names:
        return tables, None
    return [t.drop_columns([LEVEL]) for t in tables], _joined([t.column(LEVEL) for t in tables], np.int8)


def _kinds(tables: Sequence[pa.Table]) -> Int8s:
    return _joined([t.column(VALUE_KIND) for t in tables], np.int8)


def _sequences(tables: Sequence[pa.Table]) -> Int64s:
    return _joined([t.column(SEQUENCE_NUMBER) for t in tables], np.int64)


def _joined(columns: Sequence[pa.ChunkedArray], dtype: type) -> npt.NDArray[Any]:
    chunks = [c.to_numpy(zero_copy_only=False) for column in columns for c in column.chunks]
    return chunks[0] if len(chunks) == 1 else np.concatenate(chunks or [np.zeros(0, dtype)])
