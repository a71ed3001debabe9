"""Partitions listed, expired and dropped. Dropping is an overwrite without rows: indexes and key state follow as they always do.

source   org.apache.paimon.operation.PartitionExpire and the two strategies of org.apache.paimon.partition, release 1.4.2
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from lakeidx.batch.upsert import finish_batch, ingest_rows, make_context, new_batch_id
from lakeidx.errors import InvalidInputError
from lakeidx.format.partition_names import partition_value_text
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.maintenance.partitions.times import TimeReader
from lakeidx.options.table_options import TableOptions
from lakeidx.predicate import Compare, IsNull, Op, Predicate, and_, or_
from lakeidx.results import Listing, Result
from lakeidx.table.handle import TableHandle
from lakeidx.table.times import iso_utc
from lakeidx.table.view import decode_partition_dict, load_newest

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    """Figures of one partition in the newest snapshot; `written_ms`: when its newest file was made (epoch ms)."""

    partition: bytes
    values: Mapping[str, Any]
    rows: int
    bytes: int
    files: int
    buckets: int
    written_ms: int | None

    def texts(self, schema: TableSchema, *, legacy: bool) -> dict[str, str]:
        """Return the values as texts, as names of directories have them."""
        default = schema.table_options.partition_default_name
        found = {k: partition_value_text(v, schema.field(k).type, legacy=legacy) for k, v in self.values.items()}
        return {k: default if v is None else v for k, v in found.items()}

    def name(self, schema: TableSchema) -> str:
        """Return ``k=v,k=v``, as arguments name it."""
        return ",".join(f"{k}={v}" for k, v in self.texts(schema, legacy=False).items())


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
    found = []
    view = load_newest(table.metadata)
    by_partition: dict[bytes, dict[int, Any]] = {}
    for (partition, bucket), files in view.by_bucket().items():
        by_partition.setdefault(partition, {})[bucket] = files
    for partition, buckets in by_partition.items():
        files = [f for each in buckets.values() for f in each]
        times = [t for f in files if (t := f.creation_epoch_ms) is not None]
        values = decode_partition_dict(partition, schema)
        found.append(
            PartitionFigures(
                partition,
                values,
                sum(f.row_count for f in files),
                sum(f.file_size for f in files),
                len(files),
                len(buckets),
                max(times, default=None),
            )
        )
    return sorted(found, key=lambda p: p.name(schema))


def list_partitions(table: TableHandle) -> Listing:
    """List the partitions: columns, rows (stored versions), bytes, files, buckets, when last written (UTC)."""
    schema = table.schema
    return Listing(
        [
            {
                **p.texts(schema, legacy=False),
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
    table: TableHandle, chosen: Collection[bytes] | Predicate, *, dry_run: bool = False, unread: int = 0
) -> PartitionsResult:
    """Drop partitions in one commit; what older snapshots and tags have stays theirs.

    chosen   bytes of manifests, or a condition that is bound to the partition columns
    """
    from lakeidx.table.scan.plan import partition_matcher

    schema = table.schema
    wanted = partition_matcher(chosen, schema) if isinstance(chosen, Predicate) else chosen.__contains__
    found = [p for p in partition_figures(table) if wanted(p.partition)]
    result = PartitionsResult(
        tuple(p.name(schema) for p in found), sum(p.rows for p in found), sum(p.bytes for p in found), dry_run,
        unread=unread, loses=_losses(table, found),
    )  # fmt: skip
    if dry_run or not found:
        return result
    context = make_context(table.metadata, new_batch_id(), overwrite="partitions", limits={})
    context = replace(context, replaces=or_([_is(p.values) for p in found]))
    ingest_rows(context, schema.arrow_schema.empty_table())
    batch = finish_batch(context, lambda stage: None)
    result = replace(result, snapshot=max(batch.commit.snapshot_ids, default=None))
    log.info("%s: %r", table.uri, result)
    return result


def _is(values: Mapping[str, Any]) -> Predicate:
    return and_([IsNull(k) if v is None else Compare(k, Op.EQ, v) for k, v in values.items()])


def _losses(table: TableHandle, found: Sequence[PartitionFigures]) -> tuple[str, ...]:
    """Say what becomes of the rows for those who look elsewhere than at the newest snapshot."""
    from lakeidx.table.expiration.read import read_consumers
    from lakeidx.table.expiration.tags import list_tags

    if not found:
        return ()
    told = ["readers of older snapshots have the rows until these expire"]
    if tags := list_tags(table.metadata):
        told.append(f"tags keep them: {', '.join(tags)}")
    if consumers := read_consumers(table.metadata):
        told.append(f"streams that have not read the rows yet will not: {', '.join(consumers)}")
    return tuple(told)


def expire_partitions(
    table: TableHandle, *, older_than_ms: int | None = None, now: datetime | None = None, dry_run: bool = False
) -> PartitionsResult:
    """Drop the partitions whose time is older than option ``partition.expiration-time``, as Java does at its commits.

    older_than_ms   in place of the option
    now             local wall clock; default: this process's
    errors          InvalidInputError without an age, and for options that cannot be used
    """
    schema, options = table.schema, table.schema.table_options
    age = options.partition_expiration_time if older_than_ms is None else older_than_ms
    if age is None:
        raise InvalidInputError(
            "say how old: older_than (--older-than), or option 'partition.expiration-time'", path=table.uri
        )
    before = (now or datetime.now()) - timedelta(milliseconds=age)
    figures = partition_figures(table)
    reader = _Ages(options, schema)
    ages = {p.partition: reader.time_of(p) for p in figures}
    texts = {p.partition: ",".join(p.texts(schema, legacy=True).values()) for p in figures}
    expired = sorted((p for p, t in ages.items() if t is not None and t < before), key=texts.__getitem__)
    unread = sum(t is None for t in ages.values())
    if unread:
        log.warning(
            "%s: %d of %d partitions say no time, and never expire: set partition.timestamp-formatter and "
            "partition.timestamp-pattern, or partition.expiration-strategy = update-time", table.uri, unread, len(ages),
        )  # fmt: skip
    return drop_partitions(table, expired[: options.partition_expiration_max_num], dry_run=dry_run, unread=unread)


class _Ages:
    """Times of partitions, as option ``partition.expiration-strategy`` says."""

    def __init__(self, options: TableOptions, schema: TableSchema) -> None:
        self._schema = schema
        self._by_values = options.partition_expiration_strategy == "values-time"
        self._reader = TimeReader(options.partition_timestamp_pattern, options.partition_timestamp_formatter)

    def time_of(self, partition: PartitionFigures) -> datetime | None:
        if self._by_values:
            return self._reader.read(partition.texts(self._schema, legacy=True))
        written = partition.written_ms
        return None if written is None else datetime.fromtimestamp(written / 1000)
