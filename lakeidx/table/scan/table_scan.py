"""Read a planned scan: merged rows, bucket by bucket, section by section.

source   org.apache.paimon.operation.MergeFileSplitRead, RawFileSplitRead, release 1.4.2
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, TypeAlias

import pyarrow as pa

from lakeidx.data.read_data_file import RowChoice
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.table_schema import SEQUENCE_NUMBER, TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.predicate import TRUE, BoundPredicate, Predicate, bind
from lakeidx.table.handle import TableHandle
from lakeidx.table.intervals import Section
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import on_newest, says_expired
from lakeidx.table.scan.explanation import ScanExplanation
from lakeidx.table.scan.key_subset import KeySubset
from lakeidx.table.scan.metrics import ScanMetrics
from lakeidx.table.scan.plan import (
    BucketFiles,
    ScanPlan,
    partitions_seen,
    plan_scan,
    selected_columns,
)
from lakeidx.table.scan.section_read import VALUE_KIND, FileIndexTest, ScanFilter, SectionReader
from lakeidx.table.scan.states import Fallback, find_fallback, time_travel
from lakeidx.tasks.in_parallel import requests_of, run_ordered
from lakeidx.tasks.limits import available_cores
from lakeidx.tasks.runner import Progress
from lakeidx.types import Field

#: Arrow bytes that workers may have ready beyond what is being taken.
_PREFETCH_BYTES = 256 << 20

#: What is read at a time: one section of one bucket. No two hold the same key.
ScanUnit: TypeAlias = tuple[BucketFiles, Section]


class ArrowStream:
    """Rows that are read when they are asked for; DuckDB, Polars, pandas, PyArrow and others take them as they are."""

    __slots__ = ()

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the rows."""
        raise NotImplementedError

    def batches(self) -> Iterator[pa.Table]:
        """Yield the rows in tables of bounded size."""
        raise NotImplementedError

    def to_arrow(self) -> pa.Table:
        """Read all rows."""
        tables = list(self.batches())
        return pa.concat_tables(tables) if tables else self.arrow_schema.empty_table()

    def to_pandas(self, **options: Any) -> Any:
        """Read all rows as a pandas DataFrame; `options` are those of Arrow's conversion (``types_mapper=pd.ArrowDtype``).

        errors   InvalidInputError when pandas is not installed
        """
        if find_spec("pandas") is None:
            raise InvalidInputError("pandas is not installed: pip install pandas, or read with to_arrow()")
        return self.to_arrow().to_pandas(**options)

    def to_reader(self) -> pa.RecordBatchReader:
        """Read all rows as a stream."""
        batches = (b for t in self.batches() for b in t.to_batches())
        return pa.RecordBatchReader.from_batches(self.arrow_schema, batches)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows by Arrow's C interface.

        source   the Arrow PyCapsule interface
        """
        return self.to_reader().__arrow_c_stream__(requested_schema)


class TableScan(ArrowStream):
    """A planned scan that can be read any number of times.

    columns          columns to give back, in order; None = all
    keep_deletes     give rows of kind -D, too, and the column _VALUE_KIND (for changelogs and checks)
    keep_sequence    give the column _SEQUENCE_NUMBER, too, of tables with a primary key
    metrics          what reading has cost so far, over all times it was read
    """

    def __init__(
        self,
        metadata: TableMetadata,
        plan: ScanPlan,
        *,
        columns: Sequence[str] | None = None,
        keep_deletes: bool = False,
        keep_sequence: bool = False,
        limit: int | None = None,
    ) -> None:
        self.metadata = metadata
        self.plan = plan
        self.columns = selected_columns(plan.schema, columns, limit)
        self.keep_deletes = keep_deletes
        self.keep_sequence = keep_sequence
        self.limit = limit
        self.metrics = ScanMetrics()
        self._lock = threading.Lock()
        self._selects = ScanFilter(metadata.store, plan)
        self._fallback: TableScan | None = None
        if plan.fallback is not None:
            self._fallback = TableScan(
                *plan.fallback, columns=self.columns, keep_deletes=keep_deletes, keep_sequence=keep_sequence
            )
            self._fallback.metrics, self._fallback._lock = self.metrics, self._lock

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the rows."""
        fields = [self.plan.schema.arrow_schema.field(n) for n in self.columns]
        if self.keep_sequence:
            fields.append(pa.field(SEQUENCE_NUMBER, pa.int64()))
        if self.keep_deletes:
            fields.append(pa.field(VALUE_KIND, pa.int8()))
        return pa.schema(fields)

    def batches(
        self,
        *,
        threads: int | None = None,
        progress: Progress | None = None,
        choice: RowChoice | None = None,
    ) -> Iterator[pa.Table]:
        """Read rows in tables of bounded size; the order is the same every time, and key order within a section.

        threads   sections read at a time; default: the processors there are, more of small ones that wait for a store, one when
                  the scan has a limit
        progress  called after each section, with the rows of the files that are read, and those of all
        choice    chooses rows of a file by their key alone, before they are merged and columns are read that it does not need
        memory    `_PREFETCH_BYTES` beside what each thread works on
        """
        units = self.units()
        if threads is None:
            largest = max((sum(f.file_size for run in section for f in run) for _, section in units), default=0)
            # As if all columns were as wide: of a few columns of a large file little is fetched, and most of the time is waiting.
            fetched = largest * max(1, len(self.columns)) // len(self.plan.schema.fields)
            most = max(available_cores(), requests_of(self.metadata.store, fetched))
            threads = most if self.limit is None else 1

        def read(unit: ScanUnit) -> Iterator[pa.Table]:
            return self.read_section(*unit, choice=choice)

        found = run_ordered(
            units,
            read if progress is None else _counted(read, units, progress),
            lambda rows: int(rows.nbytes),
            threads=threads,
            budget_bytes=_PREFETCH_BYTES,
        )
        yield from first_rows(found, self.limit)

    def units(self) -> list[ScanUnit]:
        """Plan what is read at a time, in the order of the rows."""
        return [(bucket, section) for bucket in self.plan.buckets for section in bucket.sections]

    def to_arrow(self, *, threads: int | None = None) -> pa.Table:
        """Read all rows."""
        tables = list(self.batches(threads=threads))
        return pa.concat_tables(tables) if tables else self.arrow_schema.empty_table()

    def explain(self) -> ScanExplanation:
        """Read the scan once and report the input, pruning and cost of every layer."""
        run = TableScan(
            self.metadata,
            self.plan,
            columns=self.columns,
            keep_deletes=self.keep_deletes,
            keep_sequence=self.keep_sequence,
            limit=self.limit,
        )
        started = time.monotonic()
        rows = sum(t.num_rows for t in run.batches())
        return ScanExplanation.of(self.plan, run.metrics, rows=rows, seconds=time.monotonic() - started)

    def read_bucket(self, bucket: BucketFiles, *, only: KeySubset | None = None) -> Iterator[pa.Table]:
        """Yield merged and filtered rows of one bucket.

        only   rows of these keys
        """
        for section in bucket.sections:
            yield from self.read_section(bucket, section, only=only)

    def section_reader(
        self, bucket: BucketFiles, *, only: KeySubset | None = None, choice: RowChoice | None = None
    ) -> SectionReader:
        """Make a reader of the sections of one bucket."""
        if bucket.fallback and self._fallback is not None:
            return self._fallback.section_reader(replace(bucket, fallback=False), only=only, choice=choice)
        return SectionReader(
            self.metadata,
            self.plan,
            bucket,
            self.columns,
            selects=self._selects,
            keep_deletes=self.keep_deletes,
            keep_sequence=self.keep_sequence,
            only=only,
            choice=choice,
        )

    def read_section(
        self, bucket: BucketFiles, section: Section, *, only: KeySubset | None = None, choice: RowChoice | None = None
    ) -> Iterator[pa.Table]:
        """Yield merged and filtered rows of one section."""
        if bucket.fallback and self._fallback is not None:
            yield from self._fallback.read_section(replace(bucket, fallback=False), section, only=only, choice=choice)
            return
        reader = self.section_reader(bucket, only=only, choice=choice)
        try:
            with says_expired(self.metadata, self.plan.first or self.plan.snapshot, by_changelog=self.plan.outlives):
                yield from reader.read(section)
        finally:
            with self._lock:
                self.metrics.add(reader.metrics)


def first_rows(tables: Iterable[pa.Table], limit: int | None) -> Iterator[pa.Table]:
    """Yield tables that have rows, up to so many rows of all; None = all."""
    left = limit
    for rows in tables:
        if left is not None:
            rows = rows.slice(0, left)
            left -= rows.num_rows
        if rows.num_rows:
            yield rows
        if left is not None and left <= 0:
            return


def tracked_rows(scan: TableScan) -> Iterator[pa.Table]:
    """Yield all rows that a scan plans to read of a table that tracks rows; see `SectionReader.tracked`."""
    with says_expired(scan.metadata, scan.plan.snapshot):
        for bucket, section in scan.units():
            reader = scan.section_reader(bucket)
            for file in (f for run in section for f in run):
                yield from reader.tracked(file)


def _counted(
    read: Callable[[ScanUnit], Iterator[pa.Table]], units: Sequence[ScanUnit], progress: Progress
) -> Callable[[ScanUnit], Iterator[pa.Table]]:
    """Let a reader of units tell how many rows of files it has read."""
    total, done, lock = sum(map(_rows_of, units)), 0, threading.Lock()

    def work(unit: ScanUnit) -> Iterator[pa.Table]:
        nonlocal done
        yield from read(unit)
        with lock:
            done += _rows_of(unit)
            progress(done, total)

    return work


def _rows_of(unit: ScanUnit) -> int:
    return sum(f.row_count for run in unit[1] for f in run)


def scan_table(
    table: TableHandle,
    *,
    where: str | Predicate | None = None,
    columns: Sequence[str] | None = None,
    snapshot: int | None = None,
    tag: str | None = None,
    timestamp_ms: int | None = None,
    limit: int | None = None,
    compacted: bool = False,
    falls_back: bool = True,
) -> TableScan:
    """Plan a scan of one state of the table; reading starts when its batches are requested.

    where    SQL text (``"carrier = 'UA' AND month >= 6"``) or a predicate
    state    newest unless one of `snapshot`, `tag`, `timestamp_ms` is given; time travel reads with the schema of
             that time, the newest state with the newest schema
    compacted    only files of the highest level
    falls_back   False: this branch alone, whatever option `scan.fallback-branch` says
    """
    metadata, newest = table.metadata, table.schema
    asked = {"snapshot_id": snapshot, "tag": tag, "timestamp_ms": timestamp_ms}
    travels = any(v is not None for v in asked.values())

    def planned(found: Snapshot | None) -> ScanPlan:
        schema = metadata.load_schema(found.schema_id) if travels and found is not None else newest
        falls = falls_back and newest.table_options.scan_fallback_branch is not None
        fallback = find_fallback(metadata, schema, found, **asked) if falls else None  # type: ignore[arg-type]
        return plan_state(metadata, found, schema, where, compacted=compacted, fallback=fallback)

    plan = planned(time_travel(metadata, **asked)) if travels else on_newest(metadata, planned)  # type: ignore[arg-type]
    return TableScan(metadata, plan, columns=columns, limit=limit)


def scan_committed(
    table: TableHandle,
    *,
    where: str | Predicate | None = None,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
) -> TableScan:
    """Plan a scan of the newest state as the next compaction leaves it, with what readers do not see before: for verbs that
    read before they write.
    """
    schema = table.schema
    planned = on_newest(table.metadata, lambda found: plan_state(table.metadata, found, schema, where, least_level=0))
    return TableScan(table.metadata, planned, columns=columns, limit=limit)


def plan_state(
    metadata: TableMetadata,
    found: Snapshot | None,
    schema: TableSchema,
    where: str | Predicate | None = None,
    *,
    least_level: int | None = None,
    compacted: bool = False,
    fallback: Fallback | None = None,
) -> ScanPlan:
    """Plan a scan of a snapshot that was found before, in the columns of a schema.

    least_level, compacted   see `plan_scan`, `scan_table`
    fallback   where partitions are read from that the snapshot lacks
    errors   NotFoundError, which says that the snapshot has expired or was rolled back, when it was
    """
    predicate = bind_where(where, schema)

    def planned(of: Fallback, without: Collection[bytes] = ()) -> ScanPlan:
        least = top_level(of.schema) if compacted else least_level
        with says_expired(of.metadata, of.snapshot):
            return plan_scan(
                of.metadata, of.snapshot, of.schema, predicate,
                embedded_test=FileIndexTest(of.metadata.store, BoundPredicate(predicate, schema.fields)).embedded_may_match,
                least_level=least, without=without,
            )  # fmt: skip

    plan = planned(Fallback(metadata, found, schema))
    if fallback is None:
        return plan
    without = partitions_seen(metadata, found, schema, predicate) if found is not None else ()
    other = planned(fallback, without)
    buckets = (*plan.buckets, *(replace(b, fallback=True) for b in other.buckets))
    trace = (
        *plan.trace,
        *(replace(t, layer=f"{t.layer} (branch {fallback.metadata.paths.branch})") for t in other.trace),
    )
    return replace(
        plan, buckets=buckets, trace=trace, fallback=(fallback.metadata, replace(other, buckets=(), trace=()))
    )


def top_level(schema: TableSchema) -> int | None:
    """Return the level that holds what a full compaction wrote; None without a primary key."""
    return schema.table_options.max_levels - 1 if schema.primary_keys else None


def bind_where(where: str | Predicate | None, schema: TableSchema) -> Predicate:
    """Bind a filter, text or tree, to the schema's columns and types."""
    return bind_to_fields(where, schema.fields)


def bind_to_fields(where: str | Predicate | None, fields: Sequence[Field]) -> Predicate:
    """Bind a filter, text or tree, to columns and their types."""
    if where is None:
        return TRUE
    if isinstance(where, str):
        # sqlglot takes a fifth of a second to import: only text needs it.
        from lakeidx.predicate.parse import parse_where

        return parse_where(where, fields)
    if not isinstance(where, Predicate):
        raise InvalidInputError(f"where must be SQL text or a predicate, not {where!r}")
    return bind(where, fields)
