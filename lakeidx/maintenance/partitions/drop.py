"""Partitions listed, expired and dropped. Dropping is an overwrite without rows: indexes and key state follow as they always do.

source   org.apache.paimon.operation.PartitionExpire and the two strategies of org.apache.paimon.partition, release 1.4.2
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lakeidx.batch.context import make_context, new_batch_id
from lakeidx.batch.upsert import finish_batch, ingest_rows
from lakeidx.errors import InvalidInputError
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.maintenance.partition_argument import partition_name, texts_of_partition
from lakeidx.maintenance.partitions.times import TimeReader
from lakeidx.options.names import check_given_options
from lakeidx.options.table_options import TableOptions
from lakeidx.predicate import Predicate, is_row, or_
from lakeidx.results import Listing, Result
from lakeidx.table.handle import TableHandle
from lakeidx.table.newest import load_newest
from lakeidx.table.scan.plan import partition_matcher
from lakeidx.table.times import iso_utc
from lakeidx.table.view import decode_partition_dict

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    """Figures of one partition in the newest snapshot; `written_ms`: when its newest file was made (epoch ms)."""

    partition: bytes
    name: str
    rows: int
    bytes: int
    files: int
    buckets: int
    written_ms: int | None


@dataclass(frozen=True, slots=True, repr=False)
class PartitionsResult(Result):
    """Partitions that were dropped, or with dry_run would be.

    partitions   ``k=v,k=v``
    unread       of those that stay, how many say no time
    loses        streams, tags that no longer, or still, have their rows
    """

    partitions: tuple[str, ...]
    rows: int
    bytes: int
    dry_run: bool
    snapshot: int | None = None
    unread: int = 0
    loses: tuple[str, ...] = ()

    def note(self) -> str:
        """Return what went."""
        if not self.partitions:
            return "no partition is dropped"
        return f"{len(self.partitions)} partitions {'would be' if self.dry_run else 'are'} dropped"


def partition_figures(table: TableHandle) -> list[PartitionFigures]:
    """Return the partitions of the newest snapshot, by their names.

    errors   InvalidInputError for a table without partitions
    """
    schema = table.schema
    if not schema.partition_keys:
        raise InvalidInputError("the table has no partitions", path=table.uri)
    by_partition: dict[bytes, list[Sequence[DataFileMeta]]] = {}
    for (partition, _), files in load_newest(table.metadata).by_bucket().items():
        by_partition.setdefault(partition, []).append(files)
    found = []
    for partition, buckets in by_partition.items():
        every = [f for files in buckets for f in files]
        times = [t for f in every if (t := f.creation_epoch_ms) is not None]
        rows, size = sum(f.row_count for f in every), sum(f.file_size for f in every)
        name = partition_name(partition, schema)
        found.append(PartitionFigures(partition, name, rows, size, len(every), len(buckets), max(times, default=None)))
    return sorted(found, key=lambda p: p.name)


def list_partitions(table: TableHandle) -> Listing:
    """List the partitions: columns, rows (stored versions), bytes, files, buckets, when last written (UTC)."""
    schema = table.schema
    return Listing(
        [
            {
                **texts_of_partition(p.partition, schema),
                "rows": p.rows,
                "bytes": p.bytes,
                "files": p.files,
                "buckets": p.buckets,
                "written": None if p.written_ms is None else iso_utc(p.written_ms),
            }
            for p in partition_figures(table)
        ]
    )


def drop_partitions(
    table: TableHandle, chosen: Collection[bytes] | Predicate, *, dry_run: bool = False
) -> PartitionsResult:
    """Drop partitions in one commit; what older snapshots and tags have stays theirs.

    chosen   bytes of manifests, or a condition that is bound to the partition columns
    """
    wanted = partition_matcher(chosen, table.schema) if isinstance(chosen, Predicate) else chosen.__contains__
    return _drop(table, [p for p in partition_figures(table) if wanted(p.partition)], dry_run=dry_run)


def _drop(table: TableHandle, found: Sequence[PartitionFigures], *, dry_run: bool, unread: int = 0) -> PartitionsResult:
    schema = table.schema
    result = PartitionsResult(
        tuple(p.name for p in found), sum(p.rows for p in found), sum(p.bytes for p in found), dry_run,
        unread=unread, loses=_losses(table, found),
    )  # fmt: skip
    if dry_run or not found:
        return result
    context = make_context(table.metadata, new_batch_id(), overwrite="partitions", limits={})
    those = or_([is_row(decode_partition_dict(p.partition, schema)) for p in found])
    context = replace(context, replaces=those)
    ingest_rows(context, schema.arrow_schema.empty_table())
    batch = finish_batch(context, lambda stage: None)
    result = replace(result, snapshot=max(batch.commit.snapshot_ids, default=None))
    log.info("%s: %r", table.uri, result)
    return result


def _losses(table: TableHandle, found: Sequence[PartitionFigures]) -> tuple[str, ...]:
    """Say what becomes of the rows for those who look elsewhere than at the newest snapshot."""
    from lakeidx.table.expiration.read import read_consumers, read_tags

    if not found:
        return ()
    told = ["readers of older snapshots have the rows until these expire"]
    if tags := read_tags(table.metadata):
        told.append(f"tags keep them: {', '.join(tags)}")
    newest = table.metadata.latest_snapshot_id() or 0
    if behind := [c for c, (first, _) in read_consumers(table.metadata).items() if first <= newest]:
        told.append(f"streams that have not read the rows yet will not: {', '.join(behind)}")
    return tuple(told)


def expire_partitions(
    table: TableHandle,
    *,
    older_than_ms: int | None = None,
    options: Mapping[str, str] | None = None,
    now: datetime | None = None,
    dry_run: bool = False,
) -> PartitionsResult:
    """Drop the partitions whose time is older than option ``partition.expiration-time``, as Java does at its commits.

    older_than_ms   in place of the option
    options         in place of the table's own
    now             local wall clock; default: this process's
    errors          InvalidInputError without an age, and for options that cannot be used
    """
    schema = table.schema
    if options:
        check_given_options(options)
    used = TableOptions({**schema.options, **(options or {})})
    age = used.partition_expiration_time if older_than_ms is None else older_than_ms
    if age is None:
        raise InvalidInputError(
            "say how old: older_than (--older-than), or option 'partition.expiration-time'", path=table.uri
        )
    before = (now or datetime.now()) - timedelta(milliseconds=age)
    figures = partition_figures(table)
    reader = _Ages(used, schema)
    ages = [reader.time_of(p) for p in figures]
    expired = [p for p, t in zip(figures, ages, strict=True) if t is not None and t < before]
    # The first by their values go first, as in Java.
    expired.sort(key=lambda p: ",".join(texts_of_partition(p.partition, schema, legacy=True).values()))
    unread = sum(t is None for t in ages)
    if unread:
        log.warning(
            "%s: %d of %d partitions say no time, and never expire: set partition.timestamp-formatter and "
            "partition.timestamp-pattern, or partition.expiration-strategy = update-time", table.uri, unread, len(ages),
        )  # fmt: skip
    return _drop(table, expired[: used.partition_expiration_max_num], dry_run=dry_run, unread=unread)


class _Ages:
    """Times of partitions, as option ``partition.expiration-strategy`` says."""

    def __init__(self, options: TableOptions, schema: TableSchema) -> None:
        self._schema = schema
        self._by_values = options.partition_expiration_strategy == "values-time"
        self._reader = TimeReader(options.partition_timestamp_pattern, options.partition_timestamp_formatter)

    def time_of(self, partition: PartitionFigures) -> datetime | None:
        if self._by_values:
            return self._reader.read(texts_of_partition(partition.partition, self._schema, legacy=True))
        written = partition.written_ms
        return None if written is None else datetime.fromtimestamp(written / 1000)
