"""Reading a table as a Spark data source: one task per split, rows as Arrow record batches."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lakeidx.api.system_table import SystemTable
from lakeidx.errors import InvalidInputError
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.spark.read_options import DEFAULT_SPLIT_BYTES, ReadOptions
from lakeidx.spark.task_errors import one_line
from lakeidx.spark.values import to_spark
from lakeidx.table.scan.changes import ChangePlan, ChangeUnit, scan_changes, unit_reader, units_of, without_units
from lakeidx.table.scan.incremental import IncrementalMode
from lakeidx.table.scan.incremental_diff import DiffUnit
from lakeidx.table.scan.states import Fallback, State, check_range, find_fallback, snapshot_state, time_travel
from lakeidx.table.scan.table_scan import bind_where, plan_state
from lakeidx.table.stream.start import StartMode

#: A unit of reading, and the plan that it is of.
Planned = tuple[ChangePlan, ChangeUnit]


class Split(InputPartition):
    """Share of one task.

    parts    plans without their units (schema and predicate), each with units to read, one after another
    as_new   give the rows of a state as new ones (see `lakeidx.table.scan.changes.ChangeScan`)
    """

    def __init__(self, parts: Sequence[tuple[ChangePlan, Sequence[ChangeUnit]]], *, as_new: bool = False) -> None:
        super().__init__(None)
        self.parts = list(parts)
        self.as_new = as_new


def make_splits(
    groups: Sequence[Sequence[Planned]], *, target_bytes: int, open_cost: int, as_new: bool = False
) -> list[Split]:
    """Pack groups of units into splits of about the same size: largest first, each to the lightest split.

    A group stays together, in order, and a section whole, for its files are merged. Without units there is no split.
    """
    files = [[f for _, unit in group for f in unit_files(unit)] for group in groups]
    sized = [(sum(max(f.file_size, open_cost) for f in found), n) for n, found in enumerate(files)]
    count = min(len(sized), max(1, -(-sum(size for size, _ in sized) // target_bytes))) if sized else 0
    loads: list[tuple[int, int, list[int]]] = [(0, i, []) for i in range(count)]
    for size, number in sorted(sized, key=lambda s: (-s[0], s[1])):
        load, i, taken = heapq.heappop(loads)
        heapq.heappush(loads, (load + size, i, [*taken, number]))
    out = []
    for _, _, taken in sorted(loads, key=lambda entry: entry[1]):
        parts: list[tuple[ChangePlan, list[ChangeUnit]]] = []
        last: ChangePlan | None = None
        for plan, unit in (planned for number in sorted(taken) for planned in groups[number]):
            if plan is not last:
                parts.append((without_units(plan), []))
                last = plan
            parts[-1][1].append(_alone(unit))
        out.append(Split(parts, as_new=as_new))
    return out


def unit_files(unit: ChangeUnit) -> list[DataFileMeta]:
    """Return the data files that a unit is read from."""
    return list(unit.files()) if isinstance(unit, DiffUnit) else [f for run in unit[1] for f in run]


def _alone(unit: ChangeUnit) -> ChangeUnit:
    """Return a section with no more of its bucket than it needs."""
    if isinstance(unit, DiffUnit):
        return unit
    bucket, section = unit
    vectors = {f.file_name: bucket.deletion_vectors[f.file_name] for run in section for f in run
               if f.file_name in bucket.deletion_vectors}  # fmt: skip
    return replace(bucket, sections=(section,), deletion_vectors=vectors), section


@dataclass(frozen=True, slots=True)
class ReadState:
    """State that a frame reads, found once: one of the table, or what came between two.

    schema   of the rows
    state    its snapshot is known; the later end of a range
    after    the earlier end of a range
    fallback   where partitions are read from that the state lacks
    """

    schema: TableSchema
    state: State
    after: State | None = None
    mode: IncrementalMode = IncrementalMode.AUTO
    committed: bool = False
    fallback: Fallback | None = None

    @classmethod
    def find(cls, options: ReadOptions) -> ReadState:
        """Find what the options of a read request: one state with the schema of that time, the newest with the newest one."""
        metadata = options.open().metadata
        between = options.between_states(metadata)
        if between is not None:
            (after, upto), mode = between
            return cls(metadata.latest_schema(), upto, after, mode)
        asked = options.state(metadata)
        found = time_travel(metadata, **asked)
        travels = found is not None and any(v is not None for v in asked.values())
        schema = metadata.load_schema(found.schema_id) if travels and found is not None else metadata.latest_schema()
        fallback = None if options.committed else find_fallback(metadata, schema, found, **asked)
        return cls(schema, snapshot_state(metadata, found), committed=options.committed, fallback=fallback)

    def plans(self, where: str | None) -> Sequence[ChangePlan]:
        """Plan the read.

        errors   TableReplacedError, NotFoundError when the state is not there any more
        """
        metadata = self.state.metadata
        # Another table in its place has snapshots of the same ids.
        metadata.latest_schema()
        if self.after is None:
            least = 0 if self.committed else None
            found = self.state.load_snapshot()
            return (plan_state(metadata, found, self.schema, where, least_level=least, fallback=self.fallback),)
        check_range(metadata, self.after.number, self.state.number)
        predicate = bind_where(where, self.schema)
        return scan_changes(self.schema, self.after, self.state, predicate=predicate, mode=self.mode).plans


class TableReader(DataSourceReader):
    """Reads one state of a table, or the rows between two; pickles into the tasks."""

    def __init__(self, options: ReadOptions, state: ReadState, columns: Sequence[str], arrow_schema: pa.Schema) -> None:
        self.options = options
        self.state = state
        self.columns = tuple(columns)
        self.arrow_schema = arrow_schema

    @one_line
    def partitions(self) -> Sequence[InputPartition]:
        """Return one split per task."""
        if self.options.scan_mode == StartMode.COMPACTED_FULL:
            raise InvalidInputError(
                "scan.mode compacted-full is where a stream begins; read a state by its scan.snapshot-id"
            )
        plans = self.state.plans(self.options.where)
        target, cost = split_sizes(self.state.schema, self.options)
        groups = [[(plan, unit)] for plan in plans for unit in units_of(plan)]
        return make_splits(groups, target_bytes=target, open_cost=cost)

    @one_line
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one split."""
        yield from read_split(self.options, self.columns, self.arrow_schema, partition)


def system_table(options: ReadOptions) -> SystemTable:
    """Open the system table that a read names."""
    assert options.system is not None
    return SystemTable.open(f"{options.path}${options.system}", options.storage or None)


class SystemRowsSplit(InputPartition):
    """All rows of a system table: the driver has read them with the metadata."""

    def __init__(self, rows: pa.Table) -> None:
        super().__init__(None)
        self.rows = rows


class SystemReader(DataSourceReader):
    """Reads a system table, in one task."""

    def __init__(self, options: ReadOptions, columns: Sequence[str], arrow_schema: pa.Schema) -> None:
        self.options = options
        self.columns = list(columns)
        self.arrow_schema = arrow_schema

    @one_line
    def partitions(self) -> Sequence[InputPartition]:
        """Read the rows of the state that the options name."""
        opened, options = system_table(self.options), self.options
        if options.between:
            raise InvalidInputError(f"${options.system} has no rows between two states; audit_log and binlog have")
        asked = options.state(opened.table.metadata)
        found = opened.scan(
            where=options.where, columns=self.columns, snapshot=asked["snapshot_id"], tag=asked["tag"],
            timestamp=asked["timestamp_ms"],
        )  # fmt: skip
        return [SystemRowsSplit(found.to_arrow())]

    @one_line
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows."""
        assert isinstance(partition, SystemRowsSplit)
        yield from to_spark(partition.rows, self.arrow_schema).to_batches()


def split_sizes(schema: TableSchema, options: ReadOptions) -> tuple[int, int]:
    """Return (bytes of a split, least bytes a file counts) by the options of the read, then those of the table."""
    table = schema.table_options
    said = "source.split.target-size" in schema.options
    target = options.split_bytes or (table.source_split_target_size if said else DEFAULT_SPLIT_BYTES)
    cost = table.source_split_open_file_cost if options.open_cost is None else options.open_cost
    return target, min(cost, target)


def read_split(
    options: ReadOptions, columns: Sequence[str], arrow_schema: pa.Schema, split: InputPartition | None
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a split in the Arrow types that Spark expects."""
    if not isinstance(split, Split):
        # A plan without splits: Spark runs one task all the same, with no partition.
        return
    metadata = options.open().metadata
    names = [n for n in columns if n not in options.layout.kind_columns]
    for plan, units in split.parts:
        read = unit_reader(metadata, plan, names, options.layout, as_new=split.as_new)
        for rows in (rows for unit in units for rows in read(unit)):
            if rows.num_rows:
                yield from to_spark(rows, arrow_schema).to_batches()
