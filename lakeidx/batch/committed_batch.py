"""A committed batch: its reports, its entries and snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeidx.batch.artifacts import BatchFiles, BucketAssignmentReport, CommitReport, IndexWriteReport, IngestReport
from lakeidx.errors import NotFoundError
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.snapshot import CommitKind
from lakeidx.table.metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class BatchReports:
    """The reports of a committed batch; assignment and write of the attempt that was committed."""

    ingest: IngestReport
    assign: BucketAssignmentReport
    write: IndexWriteReport
    commit: CommitReport

    @property
    def buckets(self) -> frozenset[tuple[bytes, int]] | None:
        """Buckets the batch has rows for; None when they are not known any more."""
        if len(self.assign.targets) < self.write.buckets:
            return None
        return frozenset((bytes.fromhex(t.partition), t.bucket) for t in self.assign.targets)


def read_reports(files: BatchFiles) -> BatchReports:
    """Read all reports of a batch; InvalidInputError names the stage that has not run."""
    commit = files.require(CommitReport)
    return BatchReports(
        files.require(IngestReport),
        files.require(BucketAssignmentReport, attempt=commit.attempt),
        files.require(IndexWriteReport, attempt=commit.attempt),
        commit,
    )


def committed_entries(metadata: TableMetadata, reports: BatchReports) -> list[ManifestEntry] | None:
    """Return the entries that the batch's snapshots add, those of a compaction left out; None when one of them has expired."""
    found: list[ManifestEntry] = []
    for snapshot_id in reports.commit.snapshot_ids:
        try:
            snapshot = metadata.load_snapshot(snapshot_id)
            if reports.commit.commit_user and snapshot.commit_user != reports.commit.commit_user:
                # Put on the id when ours had expired.
                return None
            metas = metadata.load_manifest_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
            entries = [e for m in metas for e in metadata.load_manifest(m.file_name)]
        except NotFoundError:
            return None
        # Files of an overwrite may go to the top level at once.
        any_level = snapshot.commit_kind is CommitKind.OVERWRITE
        found += [e for e in entries if e.kind is FileKind.ADD and (any_level or e.file.level == 0)]
    return found


def batch_commits(metadata: TableMetadata, snapshot_ids: Sequence[int]) -> tuple[int, int] | None:
    """Return the snapshots before a batch and after it, compactions that followed at once included; None without any.

    snapshot_ids   of the batch's commit
    """
    if not snapshot_ids:
        return None
    last, newest = max(snapshot_ids), metadata.latest_snapshot_id() or 0
    while last < newest:
        try:
            if metadata.load_snapshot(last + 1).commit_kind is not CommitKind.COMPACT:
                break
        except NotFoundError:
            break
        last += 1
    return min(snapshot_ids) - 1, last
