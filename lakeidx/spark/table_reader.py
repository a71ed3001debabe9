"""Reading a table as a Spark data source: one task per split, rows as Arrow record batches."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.predicate import TRUE, Predicate, and_
from lakeidx.spark.filters import push
from lakeidx.spark.read_options import DEFAULT_SPLIT_BYTES, ReadOptions
from lakeidx.table.handle import TableHandle, bind_where
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan.incremental import plan_incremental
from lakeidx.table.scan.incremental_diff import DiffPlan, DiffUnit, plan_diff, read_diff
from lakeidx.table.scan.plan import ScanPlan
from lakeidx.table.scan.table_scan import ScanUnit, TableScan

T = TypeVar("T")


class Split(InputPartition):
    """Sections that one task reads.

    plan   the plan without its files: schema, predicate and layers
    """

    def __init__(self, plan: ScanPlan, units: Sequence[ScanUnit]) -> None:
        super().__init__(None)
        self.plan = plan
        self.units = list(units)


class _DiffSplit(InputPartition):
    """Buckets of two states that one task compares."""

    def __init__(self, plan: DiffPlan, units: Sequence[DiffUnit]) -> None:
        super().__init__(None)
        self.plan = plan
        self.units = list(units)


def make_splits(scan: TableScan, *, target_bytes: int, open_cost: int) -> list[Split]:
    """Pack sections into splits of about the same size: largest first, each to the lightest split.

    A section stays whole, for its files are merged. A table without rows to read gives no split.
    """
    sized = []
    for number, (bucket, section) in enumerate(scan.units()):
        files = [f for run in section for f in run]
        vectors = {f.file_name: bucket.deletion_vectors[f.file_name] for f in files
                   if f.file_name in bucket.deletion_vectors}  # fmt: skip
        alone = replace(bucket, sections=(section,), deletion_vectors=vectors)
        sized.append((sum(max(f.file_size, open_cost) for f in files), number, (alone, section)))
    plan = replace(scan.plan, buckets=(), trace=())
    return [Split(plan, units) for units in _packed(sized, target_bytes)]


def _packed(sized: Sequence[tuple[int, int, T]], target_bytes: int) -> list[list[T]]:
    """Pack (size, number, unit) into lists of about the same size, by number within each."""
    count = min(len(sized), max(1, -(-sum(s for s, _, _ in sized) // target_bytes))) if sized else 0
    loads: list[tuple[int, int, list[tuple[int, T]]]] = [(0, i, []) for i in range(count)]
    for size, number, unit in sorted(sized, key=lambda s: (-s[0], s[1])):
        load, i, units = heapq.heappop(loads)
        heapq.heappush(loads, (load + size, i, [*units, (number, unit)]))
    ordered = sorted(loads, key=lambda entry: entry[1])
    return [[u for _, u in sorted(units, key=lambda n: n[0])] for _, _, units in ordered]


class TableReader(DataSourceReader):
    """Reads one state of a table, or the rows between two; pickles into the tasks."""

    def __init__(self, options: ReadOptions, columns: Sequence[str], arrow_schema: pa.Schema) -> None:
        self.options = options
        self.columns = tuple(columns)
        self.arrow_schema = arrow_schema
        self.pushed: Predicate = TRUE

    def partitions(self) -> Sequence[InputPartition]:
        """Return one split per task."""
        table, schema = self._table_and_schema()
        states = self.options.diff(table.metadata)
        if states is None:
            return _splits_of(self.scan(), self.options)
        where = and_((bind_where(self.options.where, schema), self.pushed))
        plan = plan_diff(table.metadata, schema, *states, where)
        target, cost = _split_sizes(plan.plan.schema, self.options)
        sized = [(max(unit.bytes, cost), number, unit) for number, unit in enumerate(plan.units)]
        alone = replace(plan, units=())
        return [_DiffSplit(alone, units) for units in _packed(sized, target)]

    def scan(self) -> TableScan:
        """Plan the scan."""
        table, schema = self._table_and_schema()
        where = and_((bind_where(self.options.where, schema), self.pushed))
        between = self.options.incremental(table.metadata)
        if between is not None:
            plan = plan_incremental(table.metadata, schema, *between, where, mode=self.options.mode)
            return TableScan(table.metadata, plan, columns=self.columns)
        return table.scan(where=where, columns=self.columns, **self.options.state(table.metadata))  # type: ignore[arg-type]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one split."""
        return _read_split(self.options, self.columns, self.arrow_schema, partition)

    def _table_and_schema(self) -> tuple[TableHandle, Any]:
        table = self.options.open()
        return table, read_schema(table, self.options)


class PushingTableReader(TableReader):
    """Takes Spark's filters as well; on request only, see `lakeidx.spark.datasource`."""

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:
        """Accept the filters that lakeidx applies exactly; Spark applies the rest."""
        self.pushed, left = push(filters, self._table_and_schema()[1].fields)
        yield from left


class TableStreamReader(DataSourceStreamReader):
    """Follows the snapshots of a table: the whole state first (unless `scan.mode` says otherwise), then what each adds.

    An offset holds the id and the identity of the snapshot the stream has read; a stream whose snapshot was rolled back or
    replaced stops, for the rows it has given are not in the table any more.
    """

    def __init__(self, options: ReadOptions, columns: Sequence[str], arrow_schema: pa.Schema) -> None:
        self.options = options
        self.columns = tuple(columns)
        self.arrow_schema = arrow_schema
        self._table: TableHandle | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Return snapshot 0: nothing was read; the first range then begins with a whole state."""
        if self.options.scan_mode == "latest":
            return self._newest()
        if self.options.scan_mode == "from-snapshot":
            if self.options.snapshot is None:
                raise InvalidInputError("scan.mode from-snapshot needs scan.snapshot-id")
            earliest = self._metadata().earliest_snapshot_id() or 1
            # An offset of 0 would mean the whole state.
            return {"snapshot": max(self.options.snapshot, earliest) - 1, "incremental": 1}
        return {"snapshot": 0}

    def latestOffset(self, start: dict[str, Any] | None = None, limit: object = None) -> dict[str, Any]:
        """Return the newest snapshot.

        errors   InvalidInputError when the snapshot at `start` was rolled back or replaced
        """
        newest = self._newest()
        if start is None:
            return newest
        self._check_history(start)
        return start if start["snapshot"] >= newest["snapshot"] else newest

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plan splits of the snapshots in (start, end]."""
        first, last = start["snapshot"], end["snapshot"]
        self._check_history(start)
        if first >= last:
            return []
        self._check_history(end)
        table = self._open()
        if first == 0 and not start.get("incremental"):
            scan = table.scan(where=self.options.where, columns=self.columns, snapshot=last)
        else:
            where = bind_where(self.options.where, table.schema)
            plan = plan_incremental(table.metadata, table.schema, first, last, where, mode=self.options.mode)
            scan = TableScan(table.metadata, plan, columns=self.columns)
        return _splits_of(scan, self.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one split."""
        return _read_split(self.options, self.columns, self.arrow_schema, partition)

    def commit(self, end: dict[str, int]) -> None:
        """Do nothing: offsets are in Spark's checkpoint."""

    def stop(self) -> None:
        """Do nothing."""

    def _open(self) -> TableHandle:
        if self._table is None:
            self._table = self.options.open()
        return self._table

    def _metadata(self) -> TableMetadata:
        return self._open().metadata

    def _newest(self) -> dict[str, Any]:
        latest = self._metadata().latest_snapshot()
        return {"snapshot": 0} if latest is None else {"snapshot": latest.id, "identity": latest.identity}

    def _check_history(self, offset: dict[str, Any]) -> None:
        """Raise InvalidInputError when the snapshot of an offset is not in the table's history any more.

        One that has expired cannot be compared; offsets of older checkpoints have no identity.
        """
        if "identity" not in offset:
            return
        metadata, number = self._metadata(), offset["snapshot"]
        try:
            if metadata.snapshot(number).identity == offset["identity"]:
                return
        except NotFoundError:
            if (metadata.earliest_snapshot_id() or 0) > number:
                return
        raise InvalidInputError(
            f"the stream has read up to snapshot {number}, which was rolled back or replaced since: start a new stream, with a "
            "new checkpoint",
            path=metadata.paths.snapshot(number),
        )


def read_schema(table: TableHandle, options: ReadOptions) -> Any:
    """Return the schema a read has: the newest, or that of the state it travels to."""
    if options.between is not None or options.between_times is not None:
        return table.schema
    state = options.state(table.metadata)
    if all(v is None for v in state.values()):
        return table.schema
    return table.scan(limit=0, **state).plan.schema  # type: ignore[arg-type]


def _splits_of(scan: TableScan, options: ReadOptions) -> list[Split]:
    """Return the splits of a scan."""
    target, cost = _split_sizes(scan.plan.schema, options)
    return make_splits(scan, target_bytes=target, open_cost=cost)


def _split_sizes(schema: TableSchema, options: ReadOptions) -> tuple[int, int]:
    """Return (bytes of a split, least bytes a file counts) by the options of the read, then those of the table."""
    table = schema.table_options
    said = "source.split.target-size" in schema.options
    target = options.split_bytes or (table.source_split_target_size if said else DEFAULT_SPLIT_BYTES)
    cost = table.source_split_open_file_cost if options.open_cost is None else options.open_cost
    return target, min(cost, target)


def _read_split(
    options: ReadOptions, columns: Sequence[str], arrow_schema: pa.Schema, split: InputPartition | None
) -> Iterator[pa.RecordBatch]:
    """Read the rows of one split in the Arrow types that Spark expects."""
    metadata = options.open().metadata
    if isinstance(split, _DiffSplit):
        found = (rows for unit in split.units for rows in read_diff(metadata, split.plan, unit, columns))
    elif isinstance(split, Split):
        scan = TableScan(metadata, split.plan, columns=columns)
        found = (rows for bucket, section in split.units for rows in scan.read_section(bucket, section))
    else:
        # A plan without splits: Spark runs one task all the same, with no partition.
        return
    for rows in found:
        if rows.num_rows:
            yield from rows.cast(arrow_schema).to_batches()
