"""What the reports of a batch say about it, in the terms of the quality rules."""

from __future__ import annotations

from dataclasses import dataclass

from lakeidx.errors import NotFoundError
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.pipeline.artifacts import AssignReport, BatchFiles, CommitReport, IngestReport, WriteReport
from lakeidx.quality.batch_rules import BatchCounts, CommittedRows, check_rows_accounted, check_staged_rows_committed
from lakeidx.quality.result import BucketId, RuleResult
from lakeidx.table.metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class BatchReports:
    """The reports of a committed batch; assignment and write of the attempt that was committed."""

    ingest: IngestReport
    assign: AssignReport
    write: WriteReport
    commit: CommitReport

    @property
    def buckets(self) -> frozenset[BucketId]:
        """Buckets the batch has rows for."""
        return frozenset((bytes.fromhex(t.partition), t.bucket) for t in self.assign.targets)


def read_reports(files: BatchFiles) -> BatchReports:
    """All reports of a batch; InvalidInputError names the stage that has not run."""
    commit = files.require(CommitReport)
    return BatchReports(
        files.require(IngestReport),
        files.require(AssignReport, attempt=commit.attempt),
        files.require(WriteReport, attempt=commit.attempt),
        commit,
    )


def batch_counts(ingest: IngestReport, assign: AssignReport) -> BatchCounts:
    """What became of the rows of a batch, as the stages counted them."""
    return BatchCounts(
        batch_id=ingest.batch_id,
        ingested=ingest.rows_in,
        inserted=assign.inserts,
        updated=assign.updates,
        deleted=assign.deletes,
        rejected=ingest.rows_rejected,
    )


def committed_entries(metadata: TableMetadata, reports: BatchReports) -> list[ManifestEntry] | None:
    """Level-0 entries that the batch's snapshots add; None when one of them has expired."""
    found: list[ManifestEntry] = []
    for snapshot_id in reports.commit.snapshot_ids:
        try:
            snapshot = metadata.snapshot(snapshot_id)
            metas = metadata.manifest_list(snapshot.delta_manifest_list)
            entries = [e for m in metas for e in metadata.manifest(m.file_name)]
        except NotFoundError:
            return None
        found += [e for e in entries if e.kind is FileKind.ADD and e.file.level == 0]
    return found


def committed_rows(metadata: TableMetadata, reports: BatchReports) -> CommittedRows | None:
    """Staged rows against the rows of the manifest entries that the batch's snapshot adds; None when it has expired."""
    entries = committed_entries(metadata, reports)
    if entries is None:
        return None
    superseded = reports.write.rows_in - reports.write.rows_written
    committed = sum(e.file.row_count for e in entries)
    # Keys that change their partition add a delete each; rows that may not move a key are left out.
    staged = reports.ingest.rows_staged + reports.assign.moved - reports.assign.dropped
    return CommittedRows(staged=staged, superseded=superseded, committed=committed)


def check_batch(metadata: TableMetadata, reports: BatchReports) -> list[RuleResult]:
    """The rules over one committed batch."""
    rows = committed_rows(metadata, reports)
    return [
        check_rows_accounted([batch_counts(reports.ingest, reports.assign)]),
        check_staged_rows_committed([] if rows is None else [rows]),
    ]
