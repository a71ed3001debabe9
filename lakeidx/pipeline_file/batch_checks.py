"""The rules after a commit, over the buckets that the batch has touched."""

from __future__ import annotations

from dataclasses import replace

from lakeidx.batch.committed_batch import batch_commits, check_batch, committed_entries, read_reports
from lakeidx.batch.context import BatchContext
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.pipeline_file.table_checks import table_results, table_rules, verify_whole
from lakeidx.quality import check_staged_rows_committed
from lakeidx.quality.whole_table import Verified
from lakeidx.table.handle import TableHandle
from lakeidx.tasks.runner import Runner


def commit_rules(config: PipelineConfig) -> tuple[str, ...]:
    """Return the names of the checks after a commit."""
    return (*table_rules(config), "staged_rows_committed")


def batch_results(
    config: PipelineConfig, context: BatchContext, *, gone: bool = False, runner: Runner | None = None
) -> Verified:
    """Run the rules after a commit, over the buckets the batch has touched; over the whole table when they are not known.

    gone     the batch was committed, and its reports are not there any more
    runner   where data files are read; None = threads of this process
    """
    table = TableHandle(context.store, context.paths)
    if gone:
        whole = verify_whole(config, table, runner=runner)
        return replace(whole, results=(*whole.results, check_staged_rows_committed([])))
    reports = read_reports(context.files)
    entries = committed_entries(table.metadata, reports)
    written = None if entries is None else {e.file.file_name for e in entries}
    commits = batch_commits(table.metadata, reports.commit.snapshot_ids)
    found = table_results(
        config,
        table,
        buckets=reports.buckets,
        written=written,
        commits=commits,
        seed=context.files.batch_id,
        runner=runner,
    )
    staged = [r for r in check_batch(table.metadata, reports) if r.name == "staged_rows_committed"]
    return replace(found, results=(*found.results, *staged))
