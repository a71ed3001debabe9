"""Verbs that read rows before they write: delete and update, by key or by a condition, each as one batch.

A row that goes is a -D row of the batch, one that changes is upserted whole. `lakeidx.api.merge` has the third verb.

Rows of many keys: where a table is asked for one row in a few hundred, reading its key columns takes less than point lookups.

Partitions and key ranges that hold none of the keys are not opened; of the others only the columns that are asked for are read.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.api.arrow_input import Rows as GivenRows
from lakeidx.api.arrow_input import as_stream, as_table
from lakeidx.api.expressions import Rows, assigned, check_assignments, is_row_by_row
from lakeidx.api.listings import buckets_of
from lakeidx.batch.artifacts import IngestReport
from lakeidx.batch.assignment.row_keys import partition_codes
from lakeidx.batch.committed_batch import BatchResult
from lakeidx.batch.stages.rerun import begin_run
from lakeidx.batch.upsert import OnStage, finish_batch
from lakeidx.bucket_assignment.hash_set import HashFilter
from lakeidx.codec.gather import take_rows
from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.data.read_data_file import RowChoice
from lakeidx.errors import CommitConflictError, InvalidInputError, NotFoundError, UnsupportedError
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.key_index.keys.codes import KeyCodes, key_codes
from lakeidx.key_index.keys.sets import KeySet
from lakeidx.landing.cast_rows import AS_STORED
from lakeidx.landing.kind_rules import KIND_COLUMN, REMOVING_OPTION
from lakeidx.lookup.point.answers import complete_keys
from lakeidx.options.limits import GivenLimits
from lakeidx.predicate import TRUE, Predicate, and_, between, col
from lakeidx.table.handle import TableHandle
from lakeidx.table.newest import is_superseded, load_newest, on_newest
from lakeidx.table.scan.table_scan import TableScan, scan_committed
from lakeidx.table.view import DELETION_VECTORS, HASH_INDEX
from lakeidx.types import INT_ROOTS, Root, to_arrow

if TYPE_CHECKING:
    from lakeidx.api.table import Table
    from lakeidx.tasks.runner import RunnerLike

log = logging.getLogger(__name__)
#: Keys above which a delete asks the index alone: to read which of 100,000 of 6,000,000 are there took more than to delete them.
_MANY_KEYS = 10_000
_TRIES = 10
_WAIT_SECONDS = 0.05


def delete_rows(
    table: Table,
    keys: GivenRows | None,
    where: str | Predicate | None,
    *,
    batch_id: str | None,
    limits: GivenLimits | None,
    runner: RunnerLike,
    on_stage: OnStage | None,
) -> BatchResult | None:
    """Delete rows by key or by a condition; see `lakeidx.api.table.Table.delete`."""
    if (keys is None) == (where is None):
        raise InvalidInputError("delete takes keys, or a condition (where)")
    schema = table.schema
    check_deletable(schema)
    if keys is not None:
        rows = _rows_to_delete(table, as_table(keys))
    else:
        rows = _rows_where(table, where)
    if rows.num_rows == 0:
        log.info("%s: no row to delete", table.uri)
        return None
    rows = as_deletes(schema, rows)
    context = replace(table._context(batch_id, runner, limits=limits), operation="DELETE")
    own = batch_id is None and runner is None
    return table._write(context, rows.replace_schema_metadata(AS_STORED), "null", False, on_stage, own=own)


def _rows_to_delete(table: Table, keys: pa.Table) -> pa.Table:
    """Return what -D rows need of the rows of some keys: where that is the key, the HASH index says which of many are there.

    It has deleted keys, too, until a compaction shrinks it (`shrink_index`): where it has more than the files must have, these are
    read.
    """
    schema = table.schema
    columns = columns_of_deletes(schema)
    by_index = schema.bucket_mode is BucketMode.HASH_DYNAMIC and {*columns} <= {*schema.primary_keys}
    if by_index and keys.num_rows > _MANY_KEYS:
        given = complete_keys(keys, schema)[2]
        given = given.group_by(given.column_names).aggregate([])
        known = buckets_of(table, given) >= 0
        if known.any() and _has_live_keys_alone(table, given):
            return given if known.all() else take_rows(given, np.flatnonzero(known))
    # Also where no key is in the index: one that lacks a file would hide rows.
    return rows_of_keys(table, WantedKeys(schema, keys), columns)


def _has_live_keys_alone(table: TableHandle, keys: pa.Table) -> bool:
    """Return True when the HASH index of the keys' partitions has no key that was deleted, as manifests tell.

    Of n keys some n² / 2³³ have another one's hash: as many that a compaction has taken away may be in it unseen.
    """
    schema = table.schema
    partitions, _ = partition_codes(keys, schema.partition_keys, schema.partition_types)
    view = load_newest(table.metadata, partitions=partitions)
    if view.entries.rows["delete_row_count"].any() or any(e.index_type == DELETION_VECTORS for e in view.index):
        return False
    hashes = sum(e.row_count for e in view.index if e.index_type == HASH_INDEX)
    return hashes <= sum(least for least, _ in view.row_bounds().values())


class WantedKeys:
    """Keys that rows are looked for, in the form that a scan's threads compare with.

    keys     the primary key's columns; repeats allowed, a key with a null is nowhere
    errors   InvalidInputError for a missing or wrong key column
    """

    def __init__(self, schema: TableSchema, keys: pa.Table) -> None:
        self.names = schema.primary_keys
        self._types = list(schema.types_of(self.names))
        self._rows = keys.num_rows
        _, self._complete, self._given = complete_keys(keys, schema)
        self._set = KeySet(self._codes(self._given))
        self._filter = HashFilter([self._hashes(self._given)])

    @cached_property
    def once(self) -> pa.Table:
        """The keys without nulls, each once, in their own types."""
        given, first = self._given, self._set.first
        return given if self._set.distinct == len(first) else take_rows(given, np.unique(first))

    @property
    def choice(self) -> RowChoice:
        """Chooses rows of the keys, and a few others, whose hashes look alike."""
        return RowChoice(self.names, self._may_have)

    def _may_have(self, rows: pa.Table) -> npt.NDArray[np.bool_]:
        out = np.zeros(rows.num_rows, np.bool_)
        out[self._filter.where(self._hashes(rows))] = True
        return out

    def find(self, rows: pa.Table) -> npt.NDArray[np.int32]:
        """Return for each row of a table which of the keys without nulls it has, the first that is alike; -1 for none."""
        return self._set.find(self._codes(rows))

    def places(self, rows: pa.Table) -> npt.NDArray[np.int64]:
        """Return for each of the keys, those with nulls among them, its row in a table that has each once; -1 for none."""
        at = np.full(len(self._set.first) + 1, -1)
        # What is found nowhere goes to the end.
        at[self.find(rows)] = np.arange(rows.num_rows)
        at = at[self._set.first]
        if self._complete is None:
            return at
        every = np.full(self._rows, -1)
        every[self._complete] = at
        return every

    def _hashes(self, rows: pa.Table) -> npt.NDArray[np.int32]:
        return hash_columns([rows.column(n) for n in self.names], self._types, rows.num_rows)

    def _codes(self, rows: pa.Table) -> KeyCodes:
        return key_codes([rows.column(n) for n in self.names], self._types)


def rows_of_keys(table: Table, keys: WantedKeys, columns: Sequence[str], *, exact: bool = True) -> pa.Table:
    """Return the rows that are there of some keys, each once, in no order; of many keys by a scan of the columns.

    exact    without rows of a few other keys: whoever finds their `places` leaves them out anyway
    """
    names = [n for n in table.schema.field_names if n in {*columns, *keys.names}]
    found = scan_keys(table, keys.once, keys.choice, names)
    if found is not None:
        return (take_rows(found, np.flatnonzero(keys.find(found) >= 0)) if exact else found).select(list(columns))
    answer = table._look_up(keys.once, unseen=True)
    return answer.filter(answer.column("_FOUND")).select(list(columns))


def _rows_where(table: TableHandle, where: str | Predicate | None) -> pa.Table:
    """Return the rows to delete by a condition."""
    scan = partial(scan_committed, table, where=where, columns=columns_of_deletes(table.schema))
    return on_newest(table.metadata, lambda _: scan().to_arrow())


def columns_of_deletes(schema: TableSchema) -> tuple[str, ...]:
    """Return what a -D row needs of the row it deletes: its key, and what orders it after that row.

    All of it where other programs see it as a change, or the merge engine computes with it.
    """
    options = schema.table_options
    if options.merge_engine != "deduplicate" or options.changelog_producer != "none":
        return schema.field_names
    needed = {*schema.primary_keys, *schema.partition_keys, *options.sequence_field}
    return tuple(f.name for f in schema.fields if f.name in needed or (f.type.is_nested and not f.type.nullable))


def as_deletes(schema: TableSchema, rows: pa.Table) -> pa.Table:
    """Return the -D rows of rows with `columns_of_deletes`; what else may not be null is 0, or empty."""
    rows = rows.select(list(columns_of_deletes(schema)))
    for field in schema.fields:
        if field.name not in rows.column_names and not field.type.nullable:
            nulls = pa.nulls(rows.num_rows, to_arrow(field.type))
            # Nothing but the bits that say so tells a null from a zero.
            zeros = pa.Array.from_buffers(nulls.type, len(nulls), [None, *nulls.buffers()[1:]])
            rows = rows.append_column(field.name, zeros)
    return rows.append_column(KIND_COLUMN, pa.repeat(pa.scalar("-D"), rows.num_rows))


def check_deletable(schema: TableSchema) -> None:
    """Raise InvalidInputError or UnsupportedError for a table in which a delete would change nothing."""
    options = schema.table_options
    if not schema.primary_keys:
        raise InvalidInputError("rows can be deleted from tables with a primary key only")
    instead = "overwrite the partition, or the table, with the rows that stay"
    if options.ignore_delete:
        raise UnsupportedError(f"option 'ignore-delete' = true: a delete would change nothing; {instead}")
    if options.merge_engine == "first-row":
        raise UnsupportedError(f"merge engine first-row keeps the first row of a key, and takes no deletes: {instead}")
    wanted = REMOVING_OPTION.get(options.merge_engine)
    if wanted is not None and schema.options.get(wanted, "false").lower() != "true":
        raise UnsupportedError(
            f"merge engine {options.merge_engine} deletes rows only with option '{wanted}' = true, which is set before the first "
            f"rows: {instead}"
        )


def update_rows(
    table: Table,
    assignments: Mapping[str, Any],
    keys: GivenRows | None,
    where: str | Predicate | None,
    *,
    batch_id: str | None,
    limits: GivenLimits | None,
    runner: RunnerLike,
    on_stage: OnStage | None,
) -> BatchResult | None:
    """Change columns of rows by key or by a condition; see `lakeidx.api.table.Table.update`."""
    if keys is not None and where is not None:
        raise InvalidInputError("update takes keys, or a condition (where)")
    schema = table.schema
    check_updatable(schema)
    check_assignments(assignments, schema.fields_by_name, schema.primary_keys)
    given = None if keys is None else as_table(keys)

    def changed() -> pa.Table | pa.RecordBatchReader:
        if given is None and all(is_row_by_row(e) for e in assignments.values() if isinstance(e, str)):
            return _changed_where(table, where, assignments)
        if given is None:
            scan = partial(scan_committed, table, where=where)
            rows = on_newest(table.metadata, lambda _: scan().to_arrow())
        else:
            rows = rows_of_keys(table, WantedKeys(schema, given), schema.field_names)
        return _changing(schema, assignments)(rows)

    return run_verb(table, "UPDATE", changed, batch_id=batch_id, limits=limits, runner=runner, on_stage=on_stage)


def _changed_where(
    table: Table, where: str | Predicate | None, assignments: Mapping[str, Any]
) -> pa.Table | pa.RecordBatchReader:
    """Return the rows that a condition holds for as they become, each piece when it is asked for."""
    scan = scan_committed(table, where=where)
    changed = _changing(table.schema, assignments)
    pieces = map(changed, scan.batches())
    first = next(pieces, None)
    if first is None:
        return changed(scan.arrow_schema.empty_table())
    batches = (batch for rows in chain([first], pieces) for batch in rows.to_batches())
    return pa.RecordBatchReader.from_batches(first.schema, batches)


def _changing(schema: TableSchema, assignments: Mapping[str, Any]) -> Callable[[pa.Table], pa.Table]:
    """Return what gives rows as they become; expressions name the rows' columns, also as ``target.<column>``."""
    # One connection for all pieces of a scan: to open one takes as long as to compute tens of thousands of rows.
    computed = Rows({})

    def changed(rows: pa.Table) -> pa.Table:
        computed.put({"target": rows})
        columns = assigned(assignments, schema.fields_by_name, computed, "target", rows.num_rows)
        return with_columns(schema, rows, columns)

    return changed


def with_columns(schema: TableSchema, rows: pa.Table, columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
    """Return rows with other values of some columns; of a partial-update table the others are null, which leaves them.

    rows     with all columns that are not replaced
    errors   InvalidInputError for a null in a partial-update table: the old value would stay
    """
    partial_update = schema.table_options.merge_engine == "partial-update"
    nulls = next((n for n, c in columns.items() if partial_update and c.null_count), None)
    if nulls is not None:
        raise InvalidInputError(f"set {nulls}: merge engine partial-update keeps the old value where a row has null")
    names = [n for n in schema.field_names if not partial_update or n in (*schema.primary_keys, *columns)]
    return pa.table({n: columns[n] if n in columns else rows.column(n) for n in names})


def run_verb(
    table: Table,
    operation: str,
    make_rows: Callable[[], pa.Table | pa.RecordBatchReader],
    *,
    batch_id: str | None,
    limits: GivenLimits | None,
    runner: RunnerLike,
    on_stage: OnStage | None,
) -> BatchResult | None:
    """Run a batch of rows that are made from the table's; made again where others have written rows in between.

    make_rows   makes the rows of the batch, with row kinds, from the newest state: again with each try; those of a reader are
                staged as they come
    returns     None when no row was made: then nothing is written
    errors      CommitConflictError when others were faster again and again
    """
    tell = on_stage or (lambda stage: None)
    for tried in range(_TRIES):
        snapshot = table.metadata.latest_snapshot()
        context = table._context(batch_id, runner, limits=limits)
        context = replace(context, operation=operation, read_on=0 if snapshot is None else snapshot.id)
        try:
            if batch_id is not None:
                begin_run(table.metadata, context.files)
                if context.files.read(IngestReport) is not None:
                    # Another process, or this batch before it died, has made its rows.
                    return table._finished(finish_batch(context, tell), context)
            own = batch_id is None and runner is None
            rows = as_stream(make_rows(), context.schema.fields, whole=not own)
            if isinstance(rows, pa.Table) and not rows.num_rows:
                log.info("%s: no row to write", table.uri)
                return None
            return table._write(context, rows, "null", False, on_stage, own=own)
        except (CommitConflictError, NotFoundError) as error:
            # A file that is missing has expired where others have written.
            if tried + 1 == _TRIES or (
                isinstance(error, NotFoundError) and not is_superseded(table.metadata, snapshot)
            ):
                raise
            log.info("%s: the rows are read again: %s", operation, error.message)
            time.sleep(random.random() * _WAIT_SECONDS * 2**tried)  # noqa: S311 - jitter
    raise AssertionError("unreachable")


def check_updatable(schema: TableSchema) -> None:
    """Raise InvalidInputError or UnsupportedError for a table in which a row cannot be replaced."""
    if not schema.primary_keys:
        raise InvalidInputError("rows can be updated in tables with a primary key only")
    engine = schema.table_options.merge_engine
    if engine not in ("deduplicate", "partial-update"):
        why = "keeps the first row of a key" if engine == "first-row" else "computes rows from those that come"
        raise UnsupportedError(
            f"merge engine {engine} {why}, and takes no updates: overwrite the partition, or the table, with the rows as they "
            "are to be"
        )


#: Rows of the files for each key up to which they are scanned: below, 600,000 keys of 6,000,000 rows took 0.5 s for 2.9 s.
_ROWS_PER_KEY = 200
#: Distinct values of a partition column that are named one by one.
_NAMED_VALUES = 1000
#: Types whose order is that of the files' key ranges, for every value.
_RANGED = (*INT_ROOTS, Root.DATE, Root.VARCHAR)


def scan_keys(table: TableHandle, keys: pa.Table, choice: RowChoice, columns: Sequence[str]) -> pa.Table | None:
    """Return the rows of some keys, as the next compaction leaves them; None where looking the keys up takes less.

    keys      the primary key's columns in their own types, without nulls, each once
    choice    chooses rows of the keys, and maybe some others
    columns   to give back
    """
    schema = table.schema
    names = [n for n in schema.field_names if n in {*columns, *schema.primary_keys}]

    def read() -> pa.Table | None:
        scan = scan_committed(table, where=_around(schema, keys), columns=names)
        if keys.num_rows * _ROWS_PER_KEY < sum(f.row_count for b in scan.plan.buckets for f in b.files()):
            return None
        # The condition has chosen the files; of their rows the keys themselves choose.
        scan = TableScan(table.metadata, replace(scan.plan, predicate=TRUE), columns=names)
        found = list(scan.batches(choice=choice))
        return (pa.concat_tables(found) if found else scan.arrow_schema.empty_table()).select(list(columns))

    return on_newest(table.metadata, lambda _: read())


def _around(schema: TableSchema, keys: pa.Table) -> Predicate:
    """Return a condition that holds for all of the keys: their partitions, and the range of each column."""
    return and_(_each(schema, keys))


def _each(schema: TableSchema, keys: pa.Table) -> Iterator[Predicate]:
    for name in schema.primary_keys if keys.num_rows else ():
        values = keys.column(name)
        named = values.unique() if name in schema.partition_keys else None
        if schema.field(name).type.root not in _RANGED:
            continue
        if named is not None and len(named) <= _NAMED_VALUES:
            yield col(name).is_in(named.to_pylist())
        else:
            ends = pc.min_max(values).as_py()
            yield between(name, ends["min"], ends["max"])
