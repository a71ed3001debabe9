"""Metrics as text of OpenMetrics: once, or for a scraper that asks.

Figures of one table as metrics have them: from its newest snapshot, its newest commits, and the reports of its newest batch.

Names that begin with ``paimon_`` are those of Paimon's metrics (groups ``commit`` and ``compaction``), in snake case.

source   org.apache.paimon.operation.metrics.CommitMetrics, CompactionMetrics, release 1.4.2
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

from lakeidx.batch.artifacts import BatchFiles, BucketAssignmentReport, CommitReport, IndexWriteReport, IngestReport
from lakeidx.batch.staging_walk import walk_staging
from lakeidx.errors import InvalidInputError, LakeIdxError, UnsupportedError
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.snapshot import CommitKind, Snapshot
from lakeidx.table.expiration.read import read_consumers, read_tags
from lakeidx.table.handle import TableHandle
from lakeidx.table.iceberg.files import MetadataDir
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import load_newest

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import GaugeMetricFamily

#: Addresses that only this machine reaches: figures of tables are nobody else's.
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class TableMetrics:
    """A collector of prometheus-client: the figures of tables when they are asked for.

    tables   gives the tables, as they are then
    """

    def __init__(self, tables: Callable[[], Sequence[TableHandle]]) -> None:
        self._tables = tables

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield a family for each figure; a table that cannot be read has ``lakeidx_table_up`` 0, and no others."""
        from prometheus_client.core import GaugeMetricFamily

        families: dict[str, GaugeMetricFamily] = {}

        def add(name: str, text: str, labels: dict[str, str], value: float) -> None:
            if name not in families:
                families[name] = GaugeMetricFamily(name, text, labels=list(labels))
            families[name].add_metric(list(labels.values()), value)

        for table in self._tables():
            begun = time.monotonic()
            database, _, name = table.uri.rstrip("/").rpartition("/")
            labels = {"database": database.rpartition("/")[2].removesuffix(".db"), "table": name}
            try:
                found = list(_table_figures(table))
            except LakeIdxError:
                found = None
            add("lakeidx_table_up", "1 where the table can be read.", labels, float(found is not None))
            for figure in found or ():
                add(figure.name, figure.help, {**labels, **figure.labels}, figure.value)
            add("lakeidx_table_scrape_seconds", "Seconds that its figures took.", labels, time.monotonic() - begun)
        yield from families.values()


def _registry(tables: Callable[[], Sequence[TableHandle]]) -> CollectorRegistry:
    try:
        from prometheus_client import CollectorRegistry
    except ModuleNotFoundError as error:
        raise UnsupportedError('metrics need prometheus-client: pip install "lakeidx[metrics]"') from error
    registry = CollectorRegistry(auto_describe=False)
    registry.register(TableMetrics(tables))
    return registry


def metrics_text(tables: Callable[[], Sequence[TableHandle]]) -> str:
    """Return the figures of tables as text of OpenMetrics 1.0."""
    registry = _registry(tables)
    from prometheus_client.openmetrics.exposition import generate_latest

    return str(generate_latest(registry).decode())  # type: ignore[no-untyped-call]


def metrics_rows(tables: Callable[[], Sequence[TableHandle]]) -> list[dict[str, object]]:
    """Return the same figures, a row each: metric, labels, value."""
    families = TableMetrics(tables).collect()
    return [{"metric": s.name, **s.labels, "value": s.value} for family in families for s in family.samples]


def serve_metrics(tables: Callable[[], Sequence[TableHandle]], address: str, stop: Event) -> None:
    """Answer scrapes at ``host:port`` until `stop` is set; each reads the tables anew.

    errors   InvalidInputError for an address that other machines reach, or that is taken
    """
    registry = _registry(tables)
    from prometheus_client import start_http_server

    host, _, port = address.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if host not in _LOOPBACK or not port.isdecimal():
        raise InvalidInputError(f"metrics are served on this machine only: give 127.0.0.1:PORT, not {address!r}")
    try:
        server, thread = start_http_server(
            int(port), addr="127.0.0.1" if host == "localhost" else host, registry=registry
        )
    except OSError as error:
        raise InvalidInputError(f"metrics cannot be served at {address}: {error.strerror}") from error
    stop.wait()
    server.shutdown()
    thread.join()


@dataclass(frozen=True, slots=True)
class MetricValue:
    """One figure; `labels` beside those of its table."""

    name: str
    help: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


def _table_figures(table: TableHandle) -> Iterator[MetricValue]:
    """Yield the figures of a table.

    cost     a listing of what is staged, the manifests of the newest snapshot, and those of its newest batch and compaction
    errors   those of reading the table
    """
    metadata = table.metadata
    snapshots = sorted(metadata.snapshots(), key=lambda s: s.id)
    yield from _state(table, snapshots)
    newest = _newest_of(snapshots)
    for kind, snapshot in newest.items():
        yield MetricValue(
            f"lakeidx_newest_{kind}_timestamp_seconds",
            f"When the newest {kind} was committed.",
            snapshot.time_millis / 1000,
        )
    if "batch" in newest:
        yield from _commit(metadata, newest["batch"])
    if "compaction" in newest:
        yield from _compaction(metadata, newest["compaction"])
    yield from _batches(table)


def _state(table: TableHandle, snapshots: Sequence[Snapshot]) -> Iterator[MetricValue]:
    metadata, view = table.metadata, load_newest(table.metadata)
    buckets = view.by_bucket()
    level_0 = [sum(f.level == 0 for f in files) for files in buckets.values()]
    sizes = [sum(f.file_size for f in files) for files in buckets.values()]
    newest = snapshots[-1].id if snapshots else 0
    for name, text, value in (
        ("lakeidx_table_rows", "Rows stored in the newest snapshot: versions, not keys.",
         sum(f.row_count for files in buckets.values() for f in files)),
        ("lakeidx_table_bytes", "Bytes of the live data files.", sum(sizes)),
        ("lakeidx_table_files", "Live data files.", sum(map(len, buckets.values()))),
        ("lakeidx_table_buckets", "Buckets with data.", len(buckets)),
        ("lakeidx_table_partitions", "Partitions with data.", len({p for p, _ in buckets})),
        ("lakeidx_table_snapshots", "Snapshots that have not expired.", len(snapshots)),
        ("lakeidx_table_newest_snapshot", "Id of the newest snapshot.", newest),
        ("lakeidx_table_tags", "Tags.", len(read_tags(metadata))),
        ("paimon_compaction_max_level0_file_count", "Files of level 0 in the bucket with most.", max(level_0, default=0)),
        ("paimon_compaction_avg_level0_file_count", "Files of level 0 a bucket.", sum(level_0) / max(1, len(level_0))),
        ("paimon_compaction_max_total_file_size", "Bytes of the largest bucket.", max(sizes, default=0)),
        ("paimon_compaction_avg_total_file_size", "Bytes a bucket.", sum(sizes) / max(1, len(sizes))),
    ):  # fmt: skip
        yield MetricValue(name, text, value)
    if table.schema.table_options.writes_iceberg:
        # What cannot be read lists nothing: readers are behind by all there is.
        named = MetadataDir(metadata.store, metadata.paths.root, table.schema).named()
        yield MetricValue(
            "lakeidx_iceberg_snapshots_behind", "Snapshots without Iceberg metadata.", newest - (named or 0)
        )
    for consumer, (first, _) in read_consumers(metadata).items():
        yield MetricValue(
            "lakeidx_consumer_snapshots_behind", "Snapshots that a stream has not read.", max(0, newest + 1 - first),
            {"consumer": consumer},
        )  # fmt: skip


def _newest_of(snapshots: Sequence[Snapshot]) -> dict[str, Snapshot]:
    """Return the newest snapshot of a batch, and of a compaction."""
    found: dict[str, Snapshot] = {}
    for snapshot in reversed(snapshots):
        kind = "compaction" if snapshot.commit_kind is CommitKind.COMPACT else "batch"
        if snapshot.commit_kind is not CommitKind.ANALYZE:
            found.setdefault(kind, snapshot)
    return found


def _changes(metadata: TableMetadata, snapshot: Snapshot) -> list[ManifestEntry]:
    delta = metadata.load_manifest_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
    return [e for m in delta for e in metadata.load_manifest(m.file_name, m.file_size)]


def _compaction(metadata: TableMetadata, snapshot: Snapshot) -> Iterator[MetricValue]:
    entries = _changes(metadata, snapshot)
    for name, text, kind in (
        ("input", "Bytes that the newest compaction read.", FileKind.DELETE),
        ("output", "Bytes that it wrote.", FileKind.ADD),
    ):
        size = sum(e.file.file_size for e in entries if e.kind is kind)
        yield MetricValue(f"paimon_commit_last_compaction_{name}_file_size", text, size)


def _commit(metadata: TableMetadata, snapshot: Snapshot) -> Iterator[MetricValue]:
    entries = _changes(metadata, snapshot)
    for name, text, value in (
        ("table_files_added", "Data files that the newest batch added.", sum(e.kind is FileKind.ADD for e in entries)),
        ("table_files_deleted", "Data files that it removed.", sum(e.kind is FileKind.DELETE for e in entries)),
        ("delta_records_appended", "Rows that it added.", snapshot.delta_record_count or 0),
        ("changelog_records_appended", "Rows of its changelog.", snapshot.changelog_record_count or 0),
        ("partitions_written", "Partitions that it wrote to.", len({e.partition for e in entries})),
        ("buckets_written", "Buckets that it wrote to.", len({(e.partition, e.bucket) for e in entries})),
    ):
        yield MetricValue(f"paimon_commit_last_{name}", text, value)


def _batches(table: TableHandle) -> Iterator[MetricValue]:
    """Yield the figures of the batch whose report is the newest, and how many are held."""
    metadata = table.metadata
    staged = [s for s in walk_staging(metadata.store, metadata.paths)[0] if s.paths.branch == metadata.paths.branch]
    yield MetricValue(
        "lakeidx_held_batches", "Batches that wait for somebody's decision.", sum(s.is_held for s in staged)
    )
    done = [s for s in staged if s.has(CommitReport)]
    if not done:
        return
    newest = max(done, key=lambda s: max(f.mtime_ms for n, f in s.files.items() if n.endswith("commit.json")))
    files = BatchFiles(metadata.store, metadata.paths, newest.batch_id)
    commit = files.read(CommitReport)
    ingest = files.read(IngestReport)
    if commit is None or ingest is None:
        return
    rows = {"in": ingest.rows_in, "rejected": ingest.rows_rejected, "ignored": ingest.rows_ignored}
    seconds = {"ingest": ingest.seconds, "commit": commit.seconds}
    assign = files.read(BucketAssignmentReport, attempt=commit.attempt)
    write = files.read(IndexWriteReport, attempt=commit.attempt)
    if assign is not None:
        rows |= {
            "inserted": assign.inserts,
            "updated": assign.updates,
            "upserted": assign.upserts,
            "deleted": assign.deletes,
        }
        seconds["bucket_assignment"] = assign.seconds
    if write is not None:
        seconds["index_write"] = write.seconds
    for kind, count in rows.items():
        yield MetricValue("lakeidx_last_batch_rows", "Rows of the newest batch.", count, {"kind": kind})
    for stage, taken in seconds.items():
        yield MetricValue("lakeidx_last_batch_seconds", "Seconds that its stages took.", taken, {"stage": stage})
    yield MetricValue("paimon_commit_last_commit_duration", "Milliseconds that its commit took.", commit.seconds * 1000)
    yield MetricValue(
        "paimon_commit_last_commit_attempts", "How often it was planned, conflicts included.", commit.replans + 1
    )
