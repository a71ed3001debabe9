"""A committed batch: its result, its entries and snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeidx.batch.artifacts import BatchFiles, BucketAssignmentReport, CommitReport, IndexWriteReport, IngestReport
from lakeidx.errors import NotFoundError
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.snapshot import CommitKind
from lakeidx.results import Result
from lakeidx.table.metadata import TableMetadata


@dataclass(frozen=True, slots=True, repr=False)
class BatchResult(Result):
    """Result of a batch: its metrics, and the reports of its stages; assignment and write of the attempt that was committed."""

    ingest: IngestReport
    assign: BucketAssignmentReport
    write: IndexWriteReport
    commit: CommitReport

    @property
    def snapshots(self) -> tuple[int, ...]:
        """Ids of the batch's snapshots."""
        return self.commit.snapshot_ids

    @property
    def already(self) -> bool:
        """True when the batch had been committed before, and nothing was done now."""
        return self.commit.already

    @property
    def rows(self) -> int:
        """Rows that came in, rejected and ignored ones among them."""
        return self.ingest.rows_in

    @property
    def rejected(self) -> int:
        """Rows that were rejected."""
        return self.ingest.rows_rejected

    @property
    def inserts(self) -> int:
        """Rows of new keys, where the index tells them from known ones; see `upserts`."""
        return self.assign.inserts

    @property
    def updates(self) -> int:
        """Rows of known keys, where the index tells them from new ones."""
        return self.assign.updates

    @property
    def upserts(self) -> int:
        """Rows of keys of which nobody looked whether they were known."""
        return self.assign.upserts

    @property
    def deletes(self) -> int:
        """Rows that delete their key."""
        return self.assign.deletes

    @property
    def places(self) -> frozenset[tuple[bytes, int]] | None:
        """Partition and bucket of each row; None when they are not known any more."""
        if len(self.assign.targets) < self.write.buckets:
            return None
        return frozenset((bytes.fromhex(t.partition), t.bucket) for t in self.assign.targets)

    def note(self) -> str:
        """Return why nothing was done."""
        if not self.already:
            return ""
        if self.commit.discarded:
            return f"nothing to do: batch {self.ingest.batch_id} was held and discarded"
        return f"nothing to do: batch {self.ingest.batch_id} had been committed before"

    def as_dict(self) -> dict[str, object]:
        """Return the metrics, for scripts."""
        return {
            "batch": self.ingest.batch_id,
            "already": self.already,
            "rows": self.ingest.rows_in,
            "inserts": self.assign.inserts,
            "updates": self.assign.updates,
            "upserts": self.assign.upserts,
            "deletes": self.assign.deletes,
            "moved": self.assign.moved,
            "dropped": self.assign.dropped,
            "rejected": self.ingest.rows_rejected,
            "ignored": self.ingest.rows_ignored,
            "skipped": sum(self.ingest.skipped.values()),
            "buckets": self.write.buckets,
            "newBuckets": self.assign.new_buckets,
            "dataFiles": self.write.data_files,
            "snapshots": list(self.commit.snapshot_ids),
            "replans": self.commit.replans,
        }


def read_reports(files: BatchFiles, commit: CommitReport | None = None) -> BatchResult:
    """Read all reports of a batch, the last one unless it is given; InvalidInputError names the stage that has not run."""
    commit = commit or files.require(CommitReport)
    return BatchResult(
        files.require(IngestReport),
        files.require(BucketAssignmentReport, attempt=commit.attempt),
        files.require(IndexWriteReport, attempt=commit.attempt),
        commit,
    )


def committed_entries(metadata: TableMetadata, reports: BatchResult) -> list[ManifestEntry] | None:
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
