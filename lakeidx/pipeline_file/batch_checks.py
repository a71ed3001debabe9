"""The rules after a commit, over the buckets that the batch has touched."""

from __future__ import annotations

from dataclasses import replace

from lakeidx.batch.artifacts import BucketAssignmentReport, IngestReport
from lakeidx.batch.committed_batch import BatchResult, batch_commits, committed_entries, read_reports
from lakeidx.batch.context import BatchContext
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.pipeline_file.table_checks import table_results, table_rules, verify_whole
from lakeidx.quality.batch_rules import BatchCounts, CommittedRows, check_rows_accounted, check_staged_rows_committed
from lakeidx.quality.result import RuleResult
from lakeidx.quality.whole_table import Verified
from lakeidx.table.handle import TableHandle
from lakeidx.table.metadata import TableMetadata
from lakeidx.tasks.runner import Runner

#: Rules that say of space, speed and balance, or of the table's options: one batch hardly changes them, a verification judges them.
_OF_VERIFICATION = frozenset(
    {"options_followed", "deletes_counted", "stale_hashes", "bucket_rows_within_target", "bucket_skew"}
)


def commit_rules(config: PipelineConfig) -> tuple[str, ...]:
    """Return the names of the checks after a commit: all that guard against rows that are lost, doubled or misplaced."""
    return (*(name for name in table_rules(config) if name not in _OF_VERIFICATION), "staged_rows_committed")


def batch_results(
    config: PipelineConfig, context: BatchContext, *, gone: bool = False, runner: Runner | None = None
) -> Verified:
    """Run the rules after a commit, over the buckets the batch has touched; over the whole table when they are not known.

    gone     the batch was committed, and its reports are not there any more
    runner   where data files are read; None = threads of this process
    """
    table = TableHandle(context.metadata.store, context.paths)
    if gone:
        whole = verify_whole(config, table, runner=runner)
        return _of_batch(whole, check_staged_rows_committed(None))
    reports = read_reports(context.files)
    entries = committed_entries(table.metadata, reports)
    written = None if entries is None else {e.file.file_name for e in entries}
    commits = batch_commits(table.metadata, reports.commit.snapshot_ids)
    found = table_results(
        config,
        table,
        buckets=reports.places,
        written=written,
        commits=commits,
        seed=context.files.batch_id,
        runner=runner,
    )
    staged = [r for r in check_batch(table.metadata, reports) if r.name == "staged_rows_committed"]
    return _of_batch(found, *staged)


def _of_batch(found: Verified, *more: RuleResult) -> Verified:
    kept = [r for r in found.results if r.name not in _OF_VERIFICATION]
    return replace(found, results=(*kept, *more))


def batch_counts(ingest: IngestReport, assign: BucketAssignmentReport) -> BatchCounts:
    """Count what became of the rows of a batch, by the stages' reports."""
    return BatchCounts(
        batch_id=ingest.batch_id,
        ingested=ingest.rows_in - ingest.rows_ignored,
        inserted=assign.inserts,
        updated=assign.updates,
        upserted=assign.upserts,
        deleted=assign.deletes,
        rejected=ingest.rows_rejected,
    )


def _committed_rows(metadata: TableMetadata, reports: BatchResult) -> CommittedRows | None:
    """Compare staged rows with the rows of the manifest entries that the batch's snapshot adds; None when it has expired."""
    entries = committed_entries(metadata, reports)
    if entries is None:
        return None
    superseded = reports.write.rows_in - reports.write.rows_written
    committed = sum(e.file.row_count for e in entries)
    # Keys that change their partition add a delete each; rows that may not move a key are left out.
    staged = reports.ingest.rows_staged + reports.assign.moved - reports.assign.dropped
    return CommittedRows(staged=staged, superseded=superseded, committed=committed)


def check_batch(metadata: TableMetadata, reports: BatchResult) -> list[RuleResult]:
    """Run the rules over one committed batch."""
    return [
        check_rows_accounted(batch_counts(reports.ingest, reports.assign)),
        check_staged_rows_committed(_committed_rows(metadata, reports)),
    ]
