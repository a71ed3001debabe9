"""Changes of a table between two states, as rows with their kinds.

=============  ==========================================================================================================
mode           rows
=============  ==========================================================================================================
delta          records as each commit wrote them: ``+I`` and ``-D`` (and ``-U``, ``+U`` where writers gave them)
changelog      the changelog files of a table that has a producer
derived        the changelog of a table without a producer, worked out afterwards: of every commit its rows before and after
diff           what differs between the two states, every key once
auto           changelog if the table has a producer, else delta
=============  ==========================================================================================================

source   org.apache.paimon.table.system.AuditLogTable (row kinds), release 1.4.2; ``derived`` gives what changelog-producer
         ``lookup`` would have written for the same commits

The order of changes where a key leaves one bucket for another within a commit: what is gone comes before what is there.

A key moves when a row of a cross-partition table comes with another partition, and when an overwrite finds it another dynamic
bucket. Its delete is among the rows of one bucket, its new row among those of another. Whoever applies the rows one after
another, by key, would lose the row if the delete came last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.rows.binary_row_vec import encode_rows
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.format.snapshot import CommitKind
from lakeidx.predicate import TRUE, Predicate
from lakeidx.results import Listing
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import on_newest
from lakeidx.table.scan.incremental import IncrementalMode, plan_incremental
from lakeidx.table.scan.incremental_diff import (
    DiffPlan,
    DiffUnit,
    count_differing,
    plan_diff,
    read_changed_rows,
    read_diff,
)
from lakeidx.table.scan.layout import ROW_KIND, Layout
from lakeidx.table.scan.plan import BucketFiles, ScanPlan, selected_columns
from lakeidx.table.scan.section_read import VALUE_KIND
from lakeidx.table.scan.states import State, StateName, check_range, find_state, snapshot_state
from lakeidx.table.scan.table_scan import ArrowStream, ScanUnit, TableScan, bind_where, first_rows
from lakeidx.tasks.in_parallel import run_ordered
from lakeidx.tasks.limits import available_cores

#: Bytes of rows that wait for the reader.
_READY_BYTES = 64 << 20
#: Names of the kind bytes 0 to 3.
_KINDS = ["+I", "-U", "+U", "-D"]

#: What rows with kinds are read by: the records of commits or of one state, or a comparison of two states.
ChangePlan: TypeAlias = ScanPlan | DiffPlan
#: What is read at a time.
ChangeUnit: TypeAlias = ScanUnit | DiffUnit


@dataclass(frozen=True, slots=True)
class ChangeScan(ArrowStream):
    """Rows with their kinds, or changes without them; can be read any number of times.

    columns   columns to give, in order
    plans     commit after commit
    layout    how rows and kinds are put together
    limit     rows to give at most
    as_new    give the rows of a state as new ones: all ``+I``, deleted ones left out
    """

    metadata: TableMetadata
    schema: TableSchema
    columns: tuple[str, ...]
    plans: tuple[ChangePlan, ...]
    layout: Layout = Layout.KINDS
    limit: int | None = None
    as_new: bool = False

    def __post_init__(self) -> None:
        for name in self.columns:
            self.schema.field(name)

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the rows."""
        return self.layout.arrow_schema(self.schema, self.columns)

    def batches(self) -> Iterator[pa.Table]:
        """Yield rows in tables of bounded size, commit after commit; order of changes of one key is kept.

        Of a key that one commit moves to another bucket the delete comes before the new row.
        """
        arrow_schema = self.arrow_schema
        threads = available_cores() if self.limit is None else 1
        found = (
            run_ordered(
                work, lambda w: w[0](w[1]), lambda rows: rows.nbytes, threads=threads, budget_bytes=_READY_BYTES
            )
            for work in self._work()
        )
        yield from (rows.cast(arrow_schema) for rows in first_rows(chain.from_iterable(found), self.limit))

    def _work(self) -> Iterator[list[tuple[Callable[[Any], Iterator[pa.Table]], ChangeUnit]]]:
        """Yield units with what reads them, in the order of the rows; those that one list has are read side by side."""
        work: list[tuple[Callable[[Any], Iterator[pa.Table]], ChangeUnit]] = []
        for plan in self.plans:
            read = unit_reader(self.metadata, plan, self.columns, self.layout, as_new=self.as_new)
            units = units_of(plan)
            if len(units) < 2 or not self._may_move(plan):
                work += [(read, unit) for unit in units]
            elif isinstance(plan, DiffPlan):
                (kind,) = self.layout.kind_columns
                work += [
                    (partial(_only_deletes, read, kind, others=others), u) for others in (False, True) for u in units
                ]
            else:
                yield work
                scan = _kinds_scan(self.metadata, plan, self.columns, self.layout)
                work = [(partial(self._laid_out, some), unit) for some, unit in _gone_first(self.metadata, plan, scan)]
        yield work

    def _laid_out(self, read: Callable[[Any], Iterator[pa.Table]], unit: ChangeUnit) -> Iterator[pa.Table]:
        return self.layout.lay_out(map(_with_row_kind, read(unit)))

    def _may_move(self, plan: ChangePlan) -> bool:
        """Return True when a key may be gone from one bucket and new in another one."""
        if self.as_new or self.layout is Layout.PLAIN:
            return False
        if isinstance(plan, DiffPlan):
            return plan.moves or self.schema.bucket_mode is BucketMode.KEY_DYNAMIC
        # Rows of one state have one place each.
        return self.schema.bucket_mode is BucketMode.KEY_DYNAMIC and not any(b.merge for b in plan.buckets)

    def stat(self) -> Listing:
        """Read all rows, and count them: rows by what became of them, then changed values by column, most first.

        errors   InvalidInputError for rows without their kinds
        """
        if ROW_KIND not in self.arrow_schema.names:
            raise InvalidInputError("these rows have no kinds to count: use Table.diff, or Table.changes")
        counts = ChangeCounts()
        for rows in self.batches():
            counts.add(rows, self)
        return counts.listing()


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """Counts of changes, made while they are read.

    kinds    rows by kind
    values   changed values by column
    """

    kinds: Counter[str] = field(default_factory=Counter)
    values: Counter[str] = field(default_factory=Counter)

    def add(self, rows: pa.Table, scan: ChangeScan) -> None:
        """Count some rows of a scan."""
        kinds = rows.column(ROW_KIND)
        for entry in pc.value_counts(kinds).to_pylist():
            self.kinds[entry["values"]] += entry["counts"]
        old, new = (rows.filter(pc.equal(kinds, kind)) for kind in ("-U", "+U"))
        if old.num_rows == new.num_rows:
            for name in scan.columns:
                self.values[name] += count_differing(old.column(name), new.column(name), scan.schema.field(name).type)

    def listing(self) -> Listing:
        """List rows by what became of them, then changed values by column, most first."""
        named = (("new", "+I"), ("changed", "+U"), ("deleted", "-D"))
        columns = ({"what": f"column {name}", "rows": count} for name, count in self.values.most_common() if count)
        return Listing([*({"what": what, "rows": self.kinds[kind]} for what, kind in named), *columns])


def scan_changes(
    schema: TableSchema,
    after: State,
    upto: State,
    *,
    predicate: Predicate = TRUE,
    columns: Sequence[str] | None = None,
    mode: IncrementalMode = IncrementalMode.AUTO,
    layout: Layout = Layout.KINDS,
    limit: int | None = None,
) -> ChangeScan:
    """Plan the changes of the snapshots in (after, upto].

    schema      of the rows
    predicate   bound to `schema`; tested on each row, before and after a change by its own values
    columns     columns to give; default all
    errors      InvalidInputError for a range that is the wrong way round, or over two branches; NotFoundError when a snapshot of
                it has expired; UnsupportedError for comparisons in a table without a primary key
    """
    names = selected_columns(schema, columns, limit)
    metadata = upto.metadata
    plans: tuple[ChangePlan, ...]
    if mode is IncrementalMode.DIFF:
        plans = (plan_diff(schema, after, upto, predicate),)
    elif after.metadata.paths.branch != metadata.paths.branch:
        raise InvalidInputError("commits are those of one branch; states of two branches are compared by mode diff")
    elif after.number > upto.number:
        raise InvalidInputError(f"snapshots after {after.number} up to {upto.number}: the first must not be greater")
    elif mode is IncrementalMode.DERIVED:
        plans = tuple(_derived(schema, after, upto, predicate))
    else:
        # Where keys move, the records of each commit have an order of their own.
        alone = schema.bucket_mode is BucketMode.KEY_DYNAMIC and layout is not Layout.PLAIN
        numbers = [*range(after.number, upto.number), upto.number] if alone else [after.number, upto.number]
        plans = tuple(plan_incremental(metadata, schema, a, b, predicate, mode=mode) for a, b in pairwise(numbers))
    return ChangeScan(metadata, schema, names, plans, layout, limit)


def scan_between(
    metadata: TableMetadata,
    states: tuple[StateName, StateName | None],
    where: str | Predicate | None,
    *,
    columns: Sequence[str] | None,
    limit: int | None,
    mode: IncrementalMode,
    layout: Layout,
) -> ChangeScan:
    """Plan the rows between two states by their names, as `scan_changes`; None = up to the newest."""
    first, last = states
    after = find_state(metadata, first)

    def plan(upto: State) -> ChangeScan:
        check_range(upto.metadata, after.number, upto.number)
        schema = upto.metadata.latest_schema()  # that of the branch the later state is in
        predicate = bind_where(where, schema)
        return scan_changes(
            schema, after, upto, predicate=predicate, columns=columns, limit=limit, mode=mode, layout=layout
        )

    if last is not None:
        return plan(find_state(metadata, last))
    return on_newest(metadata, lambda newest: plan(snapshot_state(metadata, newest)))


def scan_with_kinds(scan: TableScan, layout: Layout) -> ChangeScan:
    """Read a scan of one state with the kinds its rows are stored with, those of deleted rows that are still stored included."""
    return ChangeScan(scan.metadata, scan.plan.schema, scan.columns, (scan.plan,), layout, scan.limit)


def units_of(plan: ChangePlan) -> list[ChangeUnit]:
    """Return what is read at a time, in the order of the rows."""
    if isinstance(plan, DiffPlan):
        return list(plan.units)
    return [(bucket, section) for bucket in plan.buckets for section in bucket.sections]


def without_units(plan: ChangePlan) -> ChangePlan:
    """Return the plan as tasks elsewhere need it that are given their units."""
    return replace(plan, units=()) if isinstance(plan, DiffPlan) else replace(plan, buckets=(), trace=())


def unit_reader(
    metadata: TableMetadata, plan: ChangePlan, columns: Sequence[str], layout: Layout, *, as_new: bool = False
) -> Callable[[ChangeUnit], Iterator[pa.Table]]:
    """Return what reads the units of a plan, one by one; see `ChangeScan`."""
    if isinstance(plan, DiffPlan):
        columns = (*columns, *layout.numbers(plan.plan.schema))
        compare = read_diff if layout is Layout.PLAIN else read_changed_rows
        return lambda unit: layout.lay_out(compare(metadata, plan, unit, columns))  # type: ignore[arg-type]
    # Rows of a table without a primary key are stored without kinds: all are +I.
    kinds = layout is not Layout.PLAIN and not as_new and bool(plan.schema.primary_keys)
    scan = _kinds_scan(metadata, plan, columns, layout, kinds=kinds)

    def read(unit: ChangeUnit) -> Iterator[pa.Table]:
        rows = scan.read_section(*unit)  # type: ignore[misc]
        return rows if layout is Layout.PLAIN else layout.lay_out(map(_with_row_kind, rows))

    return read


def _kinds_scan(
    metadata: TableMetadata, plan: ScanPlan, columns: Sequence[str], layout: Layout, *, kinds: bool = True
) -> TableScan:
    numbers = bool(layout.numbers(plan.schema))
    return TableScan(metadata, plan, columns=columns, keep_deletes=kinds, keep_sequence=numbers)


def _with_row_kind(rows: pa.Table) -> pa.Table:
    """Replace the column of kind bytes by `ROW_KIND`."""
    if VALUE_KIND not in rows.column_names:
        return rows.append_column(ROW_KIND, pa.repeat(pa.scalar(_KINDS[0]), rows.num_rows))
    kinds = rows.column(VALUE_KIND).cast(pa.int64())
    kind_names = pa.array(_KINDS)
    names = pa.chunked_array([kind_names.take(c) for c in kinds.chunks], pa.string())
    return rows.drop_columns([VALUE_KIND]).append_column(ROW_KIND, names)


def _derived(schema: TableSchema, after: State, upto: State, predicate: Predicate) -> Iterator[DiffPlan]:
    """Plan a comparison per commit with the state before it."""
    metadata, before = upto.metadata, after
    # Readers of these tables see no level 0: what a commit brought becomes visible by compaction.
    options = schema.table_options
    by_compaction = options.deletion_vectors_enabled or options.merge_engine == "first-row"
    for number in range(after.number + 1, upto.number + 1):
        snapshot = metadata.load_snapshot(number)
        state = State(metadata, number, snapshot)
        if snapshot.commit_kind is not CommitKind.COMPACT or by_compaction:
            yield plan_diff(schema, before, state, predicate, by_bucket=True)
        before = state


#: A reader and what it reads.
Work = tuple[Callable[[ScanUnit], Iterator[pa.Table]], ScanUnit]


def _gone_first(metadata: TableMetadata, plan: ScanPlan, scan: TableScan) -> list[Work]:
    """Plan the records of one commit so that, of every bucket, the keys that end deleted come first, then all others.

    scan      gives the columns wanted, with `VALUE_KIND`
    returns   what to read, in order; the records of one key in one bucket stay together and keep their order
    memory    the keys of a bucket's records, where there are deletes among them
    """
    buckets: dict[tuple[bytes, int], list[BucketFiles]] = {}
    for bucket in plan.buckets:
        buckets.setdefault((bucket.partition, bucket.bucket), []).append(bucket)
    names, wider = scan.arrow_schema.names, _with_keys(scan)
    first: list[Work] = []
    then: list[Work] = []
    for files in buckets.values():
        units = [(bucket, section) for bucket in files for section in bucket.sections]
        gone = _gone(metadata, plan, units) if any(f.may_hold_deletes for b in files for f in b.files()) else None
        if gone is None or not len(gone):
            then += [(lambda unit: scan.read_section(*unit), unit) for unit in units]
            continue
        first += [(partial(_some, wider, names, gone, among=True), unit) for unit in units]
        then += [(partial(_some, wider, names, gone, among=False), unit) for unit in units]
    return [*first, *then]


def _gone(metadata: TableMetadata, plan: ScanPlan, units: Sequence[ScanUnit]) -> pa.Array:
    """Find the keys, encoded, whose last record in a bucket is a retract."""
    schema = plan.schema
    scan = TableScan(metadata, replace(plan, predicate=TRUE), columns=schema.trimmed_primary_keys, keep_deletes=True)
    tables = [t for unit in units for t in scan.read_section(*unit)]
    if not tables:
        return pa.array([], pa.large_binary())
    rows = pa.concat_tables(tables)
    found = _encoded(rows, schema).dictionary_encode()
    last = np.zeros(len(found.dictionary), np.int64)
    last[found.indices.to_numpy()] = np.arange(rows.num_rows)
    retracts = rows.column(VALUE_KIND).to_numpy()[last] & 1 == 1
    return found.dictionary.filter(pa.array(retracts))


def _with_keys(scan: TableScan) -> TableScan:
    """Return the scan with the key columns that it leaves out."""
    missing = [n for n in scan.plan.schema.trimmed_primary_keys if n not in scan.arrow_schema.names]
    return TableScan(
        scan.metadata,
        scan.plan,
        columns=[*scan.columns, *missing],
        keep_deletes=scan.keep_deletes,
        keep_sequence=scan.keep_sequence,
    )


def _some(scan: TableScan, names: Sequence[str], keys: pa.Array, unit: ScanUnit, *, among: bool) -> Iterator[pa.Table]:
    """Read the rows of a unit whose keys are, or are not, among some.

    names   of the columns wanted; the scan has those of the key besides
    """
    for rows in scan.read_section(*unit):
        mine = pc.is_in(_encoded(rows, scan.plan.schema), value_set=keys)
        yield rows.filter(mine if among else pc.invert(mine)).select(names)


def _encoded(rows: pa.Table, schema: TableSchema) -> pa.Array:
    columns = [rows.column(n) for n in schema.trimmed_primary_keys]
    return encode_rows(columns, schema.key_types, rows.num_rows).to_arrow().cast(pa.large_binary())


def _only_deletes(
    read: Callable[[DiffUnit], Iterator[pa.Table]], column: str, unit: DiffUnit, *, others: bool
) -> Iterator[pa.Table]:
    """Read the rows of kind -D of a comparison, or all others.

    column   of the kinds
    """
    for rows in read(unit):
        deletes = pc.equal(rows.column(column), "-D")
        yield rows.filter(pc.invert(deletes) if others else deletes)
