"""Scans and streams of a table, from the arguments that users give."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from threading import Event
from typing import TYPE_CHECKING

from lakeidx.errors import InvalidInputError
from lakeidx.table.scan.incremental import IncrementalMode
from lakeidx.table.scan.table_scan import scan_table
from lakeidx.table.times import epoch_ms

if TYPE_CHECKING:
    from lakeidx.predicate import Predicate
    from lakeidx.table.handle import TableHandle
    from lakeidx.table.metadata import TableMetadata
    from lakeidx.table.scan.changes import ChangeScan
    from lakeidx.table.scan.states import StateName
    from lakeidx.table.scan.table_scan import TableScan
    from lakeidx.table.stream.follow import StreamStep
    from lakeidx.table.stream.start import Start
    from lakeidx.table.times import Moment


def scan_of(
    table: TableHandle,
    where: str | Predicate | None,
    *,
    columns: Sequence[str] | None,
    snapshot: int | None,
    tag: str | None,
    timestamp: Moment | None,
    timestamp_ms: int | None,
    limit: int | None,
    incremental: tuple[StateName, StateName | None] | None,
    mode: IncrementalMode | str,
    kinds: bool,
    batch: str | None,
) -> TableScan | ChangeScan:
    """Plan a scan of one state, or of the rows between two; see `Table.scan`."""
    table = table if batch is None else _with_batch(table, batch)
    if incremental is None:
        if kinds or mode != IncrementalMode.AUTO:
            raise InvalidInputError("kinds and mode need incremental, the two states whose changes are read")
        if timestamp is not None and timestamp_ms is not None:
            raise InvalidInputError("give timestamp or timestamp_ms, not both")
        return scan_table(
            table,
            where=where,
            columns=columns,
            snapshot=snapshot,
            tag=tag,
            timestamp_ms=timestamp_ms if timestamp is None else epoch_ms(timestamp),
            limit=limit,
        )
    if any(v is not None for v in (snapshot, tag, timestamp, timestamp_ms)):
        raise InvalidInputError("incremental=(after, upto) cannot be combined with another state")
    from lakeidx.table.scan.changes import scan_between
    from lakeidx.table.scan.layout import Layout

    layout = Layout.KINDS if kinds else Layout.PLAIN
    return scan_between(
        table.metadata, incremental, where, columns=columns, limit=limit, mode=IncrementalMode(mode), layout=layout
    )


def _with_batch(table: TableHandle, batch_id: str) -> TableHandle:
    """Return a table as it would be with a held batch; it is in memory, and nobody else sees it. NotFoundError."""
    from lakeidx.batch.held.release import held_context
    from lakeidx.maintenance.after_commit import table_with
    from lakeidx.table.handle import TableHandle

    metadata = table_with(held_context(table.metadata, batch_id)[0]).metadata
    return TableHandle(metadata.store, metadata.paths, metadata)


def start_stream(
    metadata: TableMetadata,
    start: int | str | Start,
    consumer: str | None,
    mode: IncrementalMode | str,
    where: str | Predicate | None,
    columns: Sequence[str] | None,
    *,
    ignore_progress: bool,
    every: float | None,
    stop: Event | None,
) -> Generator[StreamStep]:
    """Follow a table from `start`, or from where the consumer stopped; see `Table.follow`."""
    from lakeidx.table.stream.consumer import StreamConsumer
    from lakeidx.table.stream.follow import ChangeFollower, run_stream
    from lakeidx.table.stream.start import Start

    follower = ChangeFollower(metadata, None if columns is None else tuple(columns), where, IncrementalMode(mode))
    file = StreamConsumer(metadata, consumer, keeps_state=follower.compares_states)
    begin = start if isinstance(start, Start) else Start.parse(metadata, str(start))
    return run_stream(follower, file, begin, ignore_progress=ignore_progress, every=every, stop=stop)
