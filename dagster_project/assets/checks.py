"""Asset checks: rules of `lakeidx.quality` over what a run touched.

==================  ===========================  =====================================================================
on                  checks                       looks at
==================  ===========================  =====================================================================
bucket_assignment   batch_rows_accounted         the batch's own counts, before anything is written
the table           all others                   the buckets the batch has rows for, the hash indexes of their partitions, the
                                                 file indexes the batch has written, keys of some of these buckets looked up
compaction          rules over the table         the buckets it has rewritten, in the same way
lookup_store        lookup_store_agrees          keys of the whole table
verification        all, and orphans             the whole table
==================  ===========================  =====================================================================

A failed check of severity ERROR blocks what follows; WARN is for what costs space or speed, not answers.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from dagster_project.assets.docs_page import DocsPage
from dagster_project.assets.expectations import batches_expectation_results, expectation_specs
from dagster_project.assets.stages import open_batch
from dagster_project.expectations.verdicts import judge
from dagster_project.failures import failures_explained
from dagster_project.metadata.reports import records_table
from dagster_project.names import ASSIGNMENT_CHECKS, COMMIT_CHECKS, TABLE, asset_key, partitions_of, pool_name, table_id
from dagster_project.resources import StoreResource, TableResource
from lakeidx.batch.artifacts import BucketAssignmentReport, IngestReport
from lakeidx.batch.context import BatchContext
from lakeidx.batch.evidence import batch_commits, batch_counts, check_batch, committed_entries, read_reports
from lakeidx.file_index import indexed_columns
from lakeidx.format.schema.schema_file import new_schema
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.quality import BucketId, RuleResult, check_rows_accounted, check_staged_rows_committed
from lakeidx.quality.changelog_agrees import check_changelog_agrees, has_changelog
from lakeidx.quality.file_index_answers import check_file_indexes
from lakeidx.quality.load import TableEvidence, load_evidence
from lakeidx.quality.lookup_agrees import check_lookup_agrees
from lakeidx.quality.verify import Limits, rule_names, verify
from lakeidx.table.handle import TableHandle

_DESCRIPTIONS = {
    "files_readable": "Every page of every data file, and every snapshot examined, could be decoded.",
    "referenced_files_exist": "Every file the snapshot refers to exists with its size.",
    "snapshot_chain": "Snapshot ids are contiguous, and totals add up from one to the next.",
    "options_followed": "Every option that enables maintenance is acted on, and every option name is known.",
    "primary_key_once": "No primary key is in two buckets of its partition, none occurs twice after a merge.",
    "index_files_agree": "Hash index files have 4 bytes per hash, the manifest's count, and no duplicate hash.",
    "hash_in_one_bucket": "Every hash of the index is in exactly one bucket of its partition.",
    "live_keys_indexed": "The hash of every live key is in the index of the key's own bucket.",
    "stale_hashes": "Few hashes of the index belong to keys that were deleted.",
    "bucket_rows_within_target": "No bucket holds more keys than dynamic-bucket.target-row-num.",
    "bucket_skew": "No bucket holds far more keys than the mean of its partition.",
    "batch_rows_accounted": "Ingested rows = inserted + updated + deleted + rejected.",
    "staged_rows_committed": "Staged rows = committed rows + rows replaced by later rows of the batch.",
    "orphans_below_limit": "Files that nothing refers to stay below the limit.",
    "file_indexes_answer": "File indexes have no false negatives.",
    "changelog_agrees": "The changelog, applied to the rows before the batch, gives the rows after it.",
    "lookup_store_agrees": "The lookup store and a scan return the same rows.",
}
#: Space, speed or balance suffers; answers stay right.
WARNINGS = frozenset({"stale_hashes", "bucket_skew", "orphans_below_limit", "options_followed"})
#: Checks whose failure does not make query results wrong; they never block downstream assets.
NOT_BLOCKING = WARNINGS | {"bucket_rows_within_target"}


#: After a run, keys of key ranges of so many rows are looked up; a verification takes all of them.
_LOOKUP_ROWS = 1_000_000


def table_rules(config: PipelineConfig) -> tuple[str, ...]:
    """Return the names of the rules over a table of this pipeline."""
    schema = new_schema(config.spec())
    names = rule_names(schema.bucket_mode, keyed=bool(config.primary_keys))
    if indexed_columns(schema.options):
        names += ("file_indexes_answer",)
    if has_changelog(schema):
        names += ("changelog_agrees",)
    if config.lookup_store:
        names += ("lookup_store_agrees",)
    return names


def table_results(
    config: PipelineConfig,
    table: TableHandle,
    *,
    buckets: Collection[BucketId] | None = None,
    written: Collection[str] | None = None,
    commits: tuple[int, int] | None = None,
    seed: str = "",
) -> tuple[TableEvidence, list[RuleResult]]:
    """Read a table, and return what was read with the results of `table_rules`.

    buckets   what a run has touched; None = the whole table
    seed      which of them are drawn for a look at their keys, where they have many (`checks.bucket_rows`)
    commits   the snapshots before and after it, for the changelog between; None = all that there are
    written   names of the data files it has written: they are decoded and their file indexes asked; None = all in scope
    """
    key_rows = None if buckets is None else config.checks.bucket_rows
    evidence = load_evidence(table.metadata, buckets=buckets, decode=written, key_rows=key_rows, seed=seed)
    results = verify(evidence, limits_of(config))
    wanted = table_rules(config)
    if "file_indexes_answer" in wanted:
        scope = set(evidence.scope)
        entries = [
            e
            for e in evidence.view.entries
            if (e.partition, e.bucket) in scope and (written is None or e.file.file_name in written)
        ]
        rows, name = config.checks.sample_rows, evidence.partition_name
        results.append(check_file_indexes(table.metadata, entries, sample_rows=rows, partition_name=name))
    if "changelog_agrees" in wanted:
        after, upto = commits or (None, None)
        results.append(check_changelog_agrees(table, after=after, upto=upto, buckets=buckets))
    if "lookup_store_agrees" in wanted:
        most = None if buckets is None else _LOOKUP_ROWS
        rows = config.checks.sample_rows
        results.append(check_lookup_agrees(table, sample_rows=rows, buckets=buckets, max_rows=most))
    return evidence, results


def _commit_rules(config: PipelineConfig) -> tuple[str, ...]:
    """Return the names of the checks after a commit."""
    return (*table_rules(config), "staged_rows_committed")


def build_specs(
    config: PipelineConfig, asset: str, names: Sequence[str], *, partitioned: bool
) -> list[dg.AssetCheckSpec]:
    """Build the specs of checks on one of a table's assets."""
    return [
        dg.AssetCheckSpec(
            name,
            asset=asset_key(config, asset),
            description=_DESCRIPTIONS[name],
            blocking=config.checks.blocking and name not in NOT_BLOCKING,
            metadata={"lakeidx/severity": "WARN" if name in WARNINGS else "ERROR"},
            partitions_def=partitions_of(config) if partitioned else None,
        )
        for name in names
    ]


def limits_of(config: PipelineConfig) -> Limits:
    """Return the pipeline's limits as the rules take them."""
    return Limits(max_skew=config.checks.skew_ratio, max_stale_share=config.checks.stale_share)


def check_results(
    config: PipelineConfig, asset: str, results: Sequence[RuleResult], docs: Mapping[str, Any] | None = None
) -> Iterator[dg.AssetCheckResult]:
    """Convert rule results to Dagster's check results.

    docs   metadata of each: the link to Great Expectations' page
    """
    verdicts = judge(results, config.checks)
    for result in results:
        verdict = verdicts[result.name]
        metadata: dict[str, Any] = {f"lakeidx/{name}": value for name, value in result.metrics.items()}
        metadata |= docs or {}
        metadata["lakeidx/expectations"] = records_table(verdict.expectations)
        if result.sample and not verdict.passed:
            metadata["lakeidx/sample"] = records_table(result.sample)
        yield dg.AssetCheckResult(
            passed=verdict.passed,
            asset_key=asset_key(config, asset),
            check_name=result.name,
            severity=dg.AssetCheckSeverity.WARN if result.name in WARNINGS else dg.AssetCheckSeverity.ERROR,
            description=_passed_text(result) if verdict.passed else failure_text(result, verdict.failed),
            metadata=metadata,
        )


def _passed_text(result: RuleResult) -> str:
    """Return what holds, or why a rule could not be judged."""
    return result.description if result.metrics.get("not_judged") else _DESCRIPTIONS[result.name]


def failure_text(result: RuleResult, failed: Sequence[str]) -> str:
    """Show what a failed check found: the metrics that are not as they should be, and the first offender.

    failed   metrics as ``name = value (limit)``
    """
    text = f"FAILED: {', '.join(failed)}" if failed else "FAILED"
    if result.sample:
        shown = ", ".join(f"{name} {value}" for name, value in result.sample[0].items() if value is not None)
        text += f"; first: {shown}"
    return f"{text}. Expected: {_DESCRIPTIONS[result.name]}"


def build_checks(config: PipelineConfig) -> list[dg.AssetChecksDefinition]:
    """Build the checks of a batch: after assignment, and after commit."""
    prefix = table_id(config)

    @dg.multi_asset_check(
        name=f"{prefix}__{ASSIGNMENT_CHECKS}",
        specs=build_specs(config, "bucket_assignment", ["batch_rows_accounted"], partitioned=True),
        description="Every landed row is accounted for.",
        pool=pool_name(config),
    )
    def assignment_checks(
        context: dg.AssetCheckExecutionContext, store: StoreResource, tables: TableResource
    ) -> Iterator[dg.AssetCheckResult]:
        with failures_explained():
            batch = open_batch(config, list(context.partition_keys), tables)
            files = batch.context.files
            counts = []
            if not batch.reports_gone:
                assign = files.require(BucketAssignmentReport, attempt=files.latest_attempt())
                counts.append(batch_counts(files.require(IngestReport), assign))
            rules = [check_rows_accounted(counts)]
            docs = DocsPage(store, f"assignment-{batch.context.files.batch_id}").write_rules(config, rules)
            yield from check_results(config, "bucket_assignment", rules, docs)

    @dg.multi_asset_check(
        name=f"{prefix}__{COMMIT_CHECKS}",
        specs=[
            *build_specs(config, TABLE, _commit_rules(config), partitioned=True),
            *expectation_specs(config, TABLE, "batches"),
        ],
        description="Index and data agree in every bucket the batch has touched.",
        pool=pool_name(config),
    )
    def commit_checks(
        context: dg.AssetCheckExecutionContext, store: StoreResource, tables: TableResource
    ) -> Iterator[dg.AssetCheckResult]:
        with failures_explained():
            batch = open_batch(config, list(context.partition_keys), tables)
            results, batch_id = (
                batch_results(config, batch.context, gone=batch.reports_gone),
                batch.context.files.batch_id,
            )
            docs = DocsPage(store, f"commit-{batch_id}").write_rules(config, results)
            yield from check_results(config, TABLE, results, docs)
            yield from batches_expectation_results(config, context.instance, DocsPage(store, f"batches-{batch_id}"))

    return [assignment_checks, commit_checks]


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
