"""A table as it would be with a held batch, and streams of a table, from the arguments that users give."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from threading import Event
from typing import TYPE_CHECKING

from lakeidx.table.scan.incremental import IncrementalMode

if TYPE_CHECKING:
    from lakeidx.predicate import Predicate
    from lakeidx.table.handle import TableHandle
    from lakeidx.table.metadata import TableMetadata
    from lakeidx.table.stream.follow import StreamStep
    from lakeidx.table.stream.start import Start


def with_batch(table: TableHandle, batch_id: str) -> TableHandle:
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
