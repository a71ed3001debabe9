"""``spark.readStream.format("lakeidx")``: follows the snapshots of a table, exactly once over restarts.

An offset is a `Position`. The offset that Spark asks for first says only that nothing was read, whatever the table is like then:
of a batch Spark logs no more than its end, and a start that was found anew after a crash would leave out, or read twice, what came
in between. So the end of the first batch also says where that batch began.

A batch reads all or a part of the state a stream begins with, or the changes of some commits, the last of them maybe in part.
Changes of one bucket go to one task, in the order of the commits.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.spark.read_options import ReadOptions
from lakeidx.spark.table_reader import Planned, make_splits, read_split, split_sizes, unit_files
from lakeidx.spark.task_errors import one_line
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan.changes import ChangeUnit, units_of
from lakeidx.table.scan.incremental_diff import DiffUnit
from lakeidx.table.stream.consumer import StreamConsumer
from lakeidx.table.stream.follow import ChangeFollower, StreamStep
from lakeidx.table.stream.position import Position, check_history

_BEGIN = {"begin": True}
#: In the end of the first batch: the position where it began.
_BEGAN = "began"


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the batches of one stream in the driver, and reads their splits in tasks."""

    def __init__(self, options: ReadOptions, columns: Sequence[str], arrow_schema: pa.Schema) -> None:
        self.options = options
        self.columns = tuple(columns)
        self.arrow_schema = arrow_schema
        self._follower: ChangeFollower | None = None
        self._consumer: StreamConsumer | None = None
        self._last: Position | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset before anything was read."""
        return dict(_BEGIN)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return what one batch may read by the options."""
        if self.options.stream_limit is None:
            return ReadAllAvailable()
        counted, most = self.options.stream_limit
        made = {"files": ReadMaxFiles, "bytes": ReadMaxBytes, "rows": ReadMaxRows}
        return made[counted](most)

    @one_line
    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the newest snapshot as the last one to read."""
        self._last = self._newest()

    @one_line
    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the next batch ends: after the newest snapshot, or what the limit lets be read.

        errors   InvalidInputError when the snapshot at `start` was rolled back or replaced; NotFoundError when the next one has
                 expired
        """
        if dict(start) != _BEGIN:
            position = Position.from_json(start)
            self._hold(position)
            end = self._end(position, limit)
            return dict(start) if end == position else end.to_json()
        position = self._held().begin(self.options.stream_start(), ignore_progress=self.options.ignore_progress)
        self._check(position)
        return self._end(position, limit).to_json() | {_BEGAN: position.to_json()}

    @one_line
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Plan the splits of one batch.

        errors   as for `latestOffset`; InvalidInputError when a column that is read was dropped or has another type
        """
        last = Position.from_json(end)
        first = Position.from_json(end[_BEGAN] if dict(start) == _BEGIN else start)
        if first == last:
            return []
        self._hold(first)
        self._check(last)
        groups: dict[Hashable, list[Planned]] = {}
        for step in self._follow().steps(first, held=True):
            if step.snapshot.id > last.snapshot:
                break
            for plan, unit in _part(step, first, last):
                # No two units of a state hold the same key, so those may go to any task.
                key: Hashable = len(groups) if step.whole else _bucket(unit)
                groups.setdefault(key, []).append((plan, unit))
        target, cost = split_sizes(self._schema(), self.options)
        as_new = first.whole and first.units is not None
        return make_splits(list(groups.values()), target_bytes=target, open_cost=cost, as_new=as_new)

    @one_line
    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Read the rows of one split."""
        yield from read_split(self.options, self.columns, self.arrow_schema, partition)

    @one_line
    def commit(self, end: Mapping[str, Any]) -> None:
        """Record that everything up to an offset is done: from now on it may expire."""
        self._held().record(Position.from_json(end))

    def stop(self) -> None:
        """Release the read lease.

        Spark 4.3 kills the process instead: the lease is then removed as that of a reader that died.
        """
        if self._consumer is not None:
            self._consumer.__exit__(None, None, None)

    def _end(self, position: Position, limit: ReadLimit) -> Position:
        newest = self._last or self._newest()
        if isinstance(limit, ReadAllAvailable):
            if position.whole and position.units is not None:
                return replace(position, units=None, of=None)
            return newest if newest.snapshot >= position.next_snapshot else position
        end, left, taken = position, _most(limit), False
        for step in self._follow().steps(position, held=True):
            if step.snapshot.id > max(newest.snapshot, position.snapshot):
                break
            planned = _units(step)
            first = (position.units or 0) if step.snapshot.id == position.snapshot else 0
            for number in range(first, len(planned)):
                left -= _cost(planned[number][1], limit)
                if left < 0 and taken:
                    return replace(step.position, units=number, of=len(planned)) if number > first else end
                taken = True
            end = step.position
            if step.whole:
                break
        return end

    def _newest(self) -> Position:
        newest = self._metadata().latest_snapshot()
        return Position(0) if newest is None else Position(newest.id, newest.identity)

    def _hold(self, position: Position) -> None:
        """Check that the table goes on from a position, and let expiry leave what comes after it, when it does not do so yet."""
        known = self._consumer is not None
        self._check(position)
        if not known:
            self._held().record(position)

    def _check(self, position: Position) -> None:
        check_history(self._metadata(), position, held=self._held().holds(position))

    def _held(self) -> StreamConsumer:
        if self._consumer is None:
            made = StreamConsumer(self._metadata(), self.options.consumer, keeps_state=self._follow().compares_states)
            self._consumer = made.__enter__()
        return self._consumer

    def _follow(self) -> ChangeFollower:
        if self._follower is None:
            table = self.options.open()
            kinds = self.options.layout.kind_columns
            names = tuple(n for n in self.columns if n not in kinds)
            self._follower = ChangeFollower(table.metadata, names, self.options.where, self.options.mode, table.schema)
        return self._follower

    def _metadata(self) -> TableMetadata:
        return self._follow().metadata

    def _schema(self) -> TableSchema:
        schema = self._follow().schema
        assert schema is not None
        return schema


def _units(step: StreamStep) -> list[Planned]:
    return [(plan, unit) for plan in step.changes.plans for unit in units_of(plan)]


def _part(step: StreamStep, first: Position, last: Position) -> list[Planned]:
    """Return the units of a step between two positions."""
    planned = _units(step)
    begin, end = 0, len(planned)
    for position in (first, last):
        if position.snapshot != step.snapshot.id or position.units is None:
            continue
        if position.of not in (None, len(planned)):
            raise InvalidInputError(
                f"the stream stopped within snapshot {position.snapshot}, which would be read in other parts now: load the stream "
                "with the where and incremental-between-scan-mode it had"
            )
        if position is first:
            begin = position.units
        else:
            end = position.units
    return planned[begin:end]


def _bucket(unit: ChangeUnit) -> tuple[bytes, int]:
    bucket = (unit.after or unit.before)[0] if isinstance(unit, DiffUnit) else unit[0]
    return bucket.partition, bucket.bucket


def _most(limit: ReadLimit) -> float:
    if isinstance(limit, ReadMaxFiles):
        return limit.max_files
    if isinstance(limit, ReadMaxBytes):
        return limit.max_bytes
    return limit.max_rows if isinstance(limit, ReadMaxRows) else math.inf


def _cost(unit: ChangeUnit, limit: ReadLimit) -> int:
    files = unit_files(unit)
    if isinstance(limit, ReadMaxFiles):
        return len(files)
    return sum(f.row_count if isinstance(limit, ReadMaxRows) else f.file_size for f in files)
