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
from lakeidx.table.scan.changes import ChangePlan, ChangeUnit, scan_changes, unit_reader, units_of, without_units
from lakeidx.table.scan.incremental import plan_incremental
from lakeidx.table.scan.incremental_diff import DiffPlan, DiffUnit

T = TypeVar("T")


class Split(InputPartition):
    """What one task reads.

    plan   the plan without its units: schema, predicate and layers
    """

    def __init__(self, plan: ChangePlan, units: Sequence[ChangeUnit]) -> None:
        super().__init__(None)
        self.plan = plan
        self.units = list(units)


def make_splits(plan: ChangePlan, *, target_bytes: int, open_cost: int) -> list[Split]:
    """Pack what a plan reads into splits of about the same size: largest first, each to the lightest split.

    A section stays whole, for its files are merged. A table without rows to read gives no split.
    """
    sized = [(_bytes(unit, open_cost), n, _alone(unit)) for n, unit in enumerate(units_of(plan))]
    rest = without_units(plan)
    return [Split(rest, units) for units in _packed(sized, target_bytes)]


def _bytes(unit: ChangeUnit, open_cost: int) -> int:
    files = unit.files() if isinstance(unit, DiffUnit) else [f for run in unit[1] for f in run]
    return sum(max(f.file_size, open_cost) for f in files)


def _alone(unit: ChangeUnit) -> ChangeUnit:
    """Return a section with no more of its bucket than it needs."""
    if isinstance(unit, DiffUnit):
        return unit
    bucket, section = unit
    vectors = {f.file_name: bucket.deletion_vectors[f.file_name] for run in section for f in run
               if f.file_name in bucket.deletion_vectors}  # fmt: skip
    return replace(bucket, sections=(section,), deletion_vectors=vectors), section


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
        options = self.options
        where = and_((bind_where(options.where, schema), self.pushed))
        between = options.between_states(table.metadata)
        if between is None:
            plans: Sequence[ChangePlan] = (table.scan(where=where, **options.state(table.metadata)).plan,)  # type: ignore[arg-type]
        else:
            (after, upto), mode = between
            plans = scan_changes(schema, after, upto, predicate=where, mode=mode).plans
        return [split for plan in plans for split in _splits_of(plan, options)]

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
            plan = table.scan(where=self.options.where, snapshot=last).plan
        else:
            where = bind_where(self.options.where, table.schema)
            plan = plan_incremental(table.metadata, table.schema, first, last, where, mode=self.options.mode)
        return _splits_of(plan, self.options)

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
    if options.is_incremental:
        return table.schema
    state = options.state(table.metadata)
    if all(v is None for v in state.values()):
        return table.schema
    return table.scan(limit=0, **state).plan.schema  # type: ignore[arg-type]


def _splits_of(plan: ChangePlan, options: ReadOptions) -> list[Split]:
    """Return the splits of a plan."""
    target, cost = _split_sizes(plan.plan.schema if isinstance(plan, DiffPlan) else plan.schema, options)
    return make_splits(plan, target_bytes=target, open_cost=cost)


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
    if split is None:
        # A plan without splits: Spark runs one task all the same, with no partition.
        return
    assert isinstance(split, Split)
    names = [n for n in columns if n not in options.layout.kind_columns]
    read = unit_reader(options.open().metadata, split.plan, names, options.layout)
    for unit in split.units:
        for rows in read(unit):
            if rows.num_rows:
                yield from rows.select(list(columns)).cast(arrow_schema).to_batches()
