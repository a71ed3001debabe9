"""Changes of a table between two snapshots, as rows with their kinds.

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
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import CommitKind, Snapshot
from lakeidx.predicate import TRUE, Predicate
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan.incremental import IncrementalMode, plan_incremental
from lakeidx.table.scan.incremental_diff import ROW_KIND, DiffPlan, plan_diff, read_changes
from lakeidx.table.scan.section_read import VALUE_KIND
from lakeidx.table.scan.table_scan import TableScan
from lakeidx.tasks.ordered_threads import available_cores, run_ordered

#: Bytes of compared buckets that wait for the reader.
_READY_BYTES = 64 << 20
#: Names of the kind bytes 0 to 3.
_KINDS = ["+I", "-U", "+U", "-D"]


@dataclass(frozen=True, slots=True)
class ChangeScan:
    """Changes that can be read any number of times.

    columns   columns to give, in order; `ROW_KIND` follows them
    plans     scans of records, or comparisons of two states; commit after commit
    """

    metadata: TableMetadata
    schema: TableSchema
    columns: tuple[str, ...]
    plans: tuple[TableScan | DiffPlan, ...]

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the rows."""
        fields = [self.schema.arrow_schema.field(n) for n in self.columns]
        return pa.schema([*fields, pa.field(ROW_KIND, pa.string(), nullable=False)])

    def batches(self) -> Iterator[pa.Table]:
        """Yield changes in tables of bounded size, commit after commit; order of changes of one key is kept."""
        for plan in self.plans:
            found = self._records(plan) if isinstance(plan, TableScan) else self._differences(plan)
            for rows in found:
                if rows.num_rows:
                    yield rows.cast(self.arrow_schema)

    def to_arrow(self) -> pa.Table:
        """Read all changes."""
        tables = list(self.batches())
        return pa.concat_tables(tables) if tables else self.arrow_schema.empty_table()

    def to_reader(self) -> pa.RecordBatchReader:
        """Stream all changes."""
        batches = (b for t in self.batches() for b in t.to_batches())
        return pa.RecordBatchReader.from_batches(self.arrow_schema, batches)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the stream as Arrow's C interface, for every library that takes one."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _records(self, scan: TableScan) -> Iterator[pa.Table]:
        for rows in scan.batches():
            yield _with_row_kind(rows) if scan.keep_deletes else _all_new(rows)

    def _differences(self, plan: DiffPlan) -> Iterator[pa.Table]:
        return run_ordered(
            plan.units,
            lambda unit: read_changes(self.metadata, plan, unit, self.columns),
            lambda rows: rows.nbytes,
            threads=available_cores(),
            budget_bytes=_READY_BYTES,
        )


def scan_changes(
    metadata: TableMetadata,
    schema: TableSchema,
    after: int,
    upto: int,
    *,
    predicate: Predicate = TRUE,
    columns: Sequence[str] | None = None,
    mode: IncrementalMode = IncrementalMode.AUTO,
) -> ChangeScan:
    """Plan the changes of the snapshots in (after, upto].

    after       0 for all from the beginning
    predicate   bound to `schema`; tested on each row, before and after a change by its own values
    columns     columns to give; default all
    errors      InvalidInputError for a range that is the wrong way round; NotFoundError when a snapshot of it has expired;
                UnsupportedError for comparisons in a table without a primary key
    """
    names = tuple(schema.field_names if columns is None else columns)
    for name in names:
        schema.field(name)
    if after > upto:
        raise InvalidInputError(f"snapshots after {after} up to {upto}: the first must not be greater")
    plans: tuple[TableScan | DiffPlan, ...]
    if mode is IncrementalMode.DIFF:
        plans = (plan_diff(metadata, schema, _state(metadata, after), metadata.snapshot(upto), predicate),)
    elif mode is IncrementalMode.DERIVED:
        plans = tuple(_derived(metadata, schema, after, upto, predicate))
    else:
        plan = plan_incremental(metadata, schema, after, upto, predicate, mode=mode)
        plans = (TableScan(metadata, plan, columns=names, keep_deletes=True),)
    return ChangeScan(metadata, schema, names, plans)


def _with_row_kind(rows: pa.Table) -> pa.Table:
    """Replace the column of kind bytes by `ROW_KIND`."""
    kinds = rows.column(VALUE_KIND).cast(pa.int64())
    kind_names = pa.array(_KINDS)
    names = pa.chunked_array([kind_names.take(c) for c in kinds.chunks], pa.string())
    return rows.drop_columns([VALUE_KIND]).append_column(ROW_KIND, names)


def _all_new(rows: pa.Table) -> pa.Table:
    """Append a `ROW_KIND` of ``+I``: rows of one state."""
    return rows.append_column(ROW_KIND, pa.repeat(pa.scalar("+I"), rows.num_rows))


def _derived(
    metadata: TableMetadata, schema: TableSchema, after: int, upto: int, predicate: Predicate
) -> Iterator[DiffPlan]:
    """Plan a comparison per commit with the state before it."""
    before = _state(metadata, after)
    # Readers of these tables see no level 0: what a commit brought becomes visible by compaction.
    options = schema.table_options
    by_compaction = options.deletion_vectors_enabled or options.merge_engine == "first-row"
    for number in range(after + 1, upto + 1):
        state = metadata.snapshot(number)
        if state.commit_kind is not CommitKind.COMPACT or by_compaction:
            yield plan_diff(metadata, schema, before, state, predicate)
        before = state


def _state(metadata: TableMetadata, number: int) -> Snapshot | None:
    return metadata.snapshot(number) if number > 0 else None


def find_states(metadata: TableMetadata, text: str) -> tuple[int, int]:
    """Find the snapshot ids of a range as people write it: ``A..B``, each a snapshot id, a tag, or an ISO time.

    ``A..`` goes up to the newest snapshot, ``..B`` begins with the empty table. A time means the state readers saw then.
    errors   InvalidInputError for another form; NotFoundError for a state that is not there
    """
    first, dots, last = text.partition("..")
    if not dots:
        raise InvalidInputError(f"{text!r}: write a range as A..B, with snapshot ids, tags or ISO times")
    latest = metadata.latest_snapshot_id() or 0
    after = find_state(metadata, first) if first.strip() else 0
    return after, find_state(metadata, last) if last.strip() else latest


def find_state(metadata: TableMetadata, text: str) -> int:
    """Find the snapshot id that a tag, a number or an ISO time stands for; 0 is the empty table.

    errors   InvalidInputError for text that is none of them; NotFoundError for a state that is not there
    """
    name = text.strip()
    if name in metadata.tag_names():
        return metadata.tag(name).id
    if name.isdecimal():
        return metadata.snapshot(int(name)).id if int(name) else 0
    try:
        time = datetime.fromisoformat(name)
    except ValueError:
        raise InvalidInputError(f"{name!r} is no tag of the table, no snapshot id and no ISO time") from None
    return metadata.snapshot_at(round(time.timestamp() * 1000)).id
