"""The rules after a commit, over the buckets that the batch has touched."""

from __future__ import annotations

from lakeidx.batch.context import BatchContext
from lakeidx.batch.evidence import batch_commits, check_batch, committed_entries, read_reports
from lakeidx.checks.of_table import table_results, table_rules
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.quality import RuleResult, check_staged_rows_committed
from lakeidx.table.handle import TableHandle


def commit_rules(config: PipelineConfig) -> tuple[str, ...]:
    """Return the names of the checks after a commit."""
    return (*table_rules(config), "staged_rows_committed")


def batch_results(config: PipelineConfig, context: BatchContext, *, gone: bool = False) -> list[RuleResult]:
    """Run the rules after a commit, over the buckets the batch has touched; over the whole table when they are not known."""
    table = TableHandle(context.store, context.paths)
    if gone:
        return [*table_results(config, table)[1], check_staged_rows_committed([])]
    reports = read_reports(context.files)
    entries = committed_entries(table.metadata, reports)
    written = None if entries is None else {e.file.file_name for e in entries}
    commits = batch_commits(table.metadata, reports.commit.snapshot_ids)
    _, results = table_results(
        config, table, buckets=reports.buckets, written=written, commits=commits, seed=context.files.batch_id
    )
    staged = [r for r in check_batch(table.metadata, reports) if r.name == "staged_rows_committed"]
    return [*results, *staged]
