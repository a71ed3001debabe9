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

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from lakeidx.batch.artifacts import BucketAssignmentReport, IngestReport
from lakeidx.dagster.assets.docs_page import DocsPage
from lakeidx.dagster.assets.expectations import batches_expectation_results, expectation_specs
from lakeidx.dagster.assets.stages import open_batch
from lakeidx.dagster.expectations.verdicts import judge
from lakeidx.dagster.failures import failures_explained
from lakeidx.dagster.metadata.reports import records_table
from lakeidx.dagster.names import ASSIGNMENT_CHECKS, COMMIT_CHECKS, TABLE, asset_key, partitions_of, pool_name, table_id
from lakeidx.dagster.resources import SparkResource, StoreResource, TableResource
from lakeidx.pipeline_file.batch_checks import batch_counts, batch_results, commit_rules
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.quality import RuleResult, check_rows_accounted
from lakeidx.quality.whole_table import Verified

_DESCRIPTIONS = {
    "files_readable": "Every page of every data file, and every snapshot examined, could be decoded.",
    "referenced_files_exist": "Every file the snapshot refers to exists with its size.",
    "snapshot_chain": "Snapshot ids are contiguous, and totals add up from one to the next.",
    "options_followed": "Every option that enables maintenance is acted on, and every option name is known.",
    "deletes_counted": "Manifests count the deletes in each data file.",
    "primary_key_once": "No primary key is in two buckets of its partition, none occurs twice after a merge.",
    "index_files_agree": "Hash index files have 4 bytes per hash, the manifest's count, their checksum, and no duplicate hash.",
    "hash_in_one_bucket": "Every hash of the index is in exactly one bucket of its partition.",
    "live_keys_indexed": "The hash of every live key is in the index of the key's own bucket.",
    "stale_hashes": "Few hashes of the index belong to keys that were deleted.",
    "bucket_rows_within_target": "No bucket holds more keys than dynamic-bucket.target-row-num.",
    "bucket_skew": "No bucket holds far more keys than the mean of its partition.",
    "batch_rows_accounted": "Ingested rows = inserted + updated + upserted (fixed buckets) + deleted + rejected.",
    "staged_rows_committed": "Staged rows = committed rows + rows replaced by later rows of the batch.",
    "orphans_below_limit": "Files that nothing refers to stay below the limit.",
    "file_indexes_answer": "File indexes have no false negatives.",
    "changelog_agrees": "The changelog, applied to the rows before the batch, gives the rows after it.",
    "lookup_store_agrees": "The lookup store and a scan return the same rows.",
}
#: Space, speed or balance suffers; answers stay right.
WARNINGS = frozenset({"stale_hashes", "bucket_skew", "orphans_below_limit", "options_followed"})
#: Checks whose failure does not make query results wrong; they never block downstream assets.
NOT_BLOCKING = WARNINGS | {"bucket_rows_within_target", "deletes_counted"}


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


def check_results(config: PipelineConfig, asset: str, results: Sequence[RuleResult]) -> Iterator[dg.AssetCheckResult]:
    """Convert rule results to Dagster's check results."""
    verdicts = judge(results, config.checks)
    for result in results:
        verdict = verdicts[result.name]
        metadata: dict[str, Any] = {f"lakeidx/{name}": value for name, value in result.metrics.items()}
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
    """Return the text of a rule that passed, or why it could not be judged."""
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
            batch = open_batch(config, context, tables)
            files = batch.context.files
            counts = []
            if not batch.reports_gone:
                assign = files.require(BucketAssignmentReport, attempt=files.latest_attempt())
                counts.append(batch_counts(files.require(IngestReport), assign))
            rules = [check_rows_accounted(counts)]
            yield from check_results(config, "bucket_assignment", rules)

    @dg.multi_asset_check(
        name=f"{prefix}__{COMMIT_CHECKS}",
        specs=[
            *build_specs(config, TABLE, commit_rules(config), partitioned=True),
            *expectation_specs(config, TABLE, "batches"),
        ],
        description="Index and data agree in every bucket the batch has touched.",
        pool=pool_name(config),
    )
    def commit_checks(
        context: dg.AssetCheckExecutionContext, store: StoreResource, spark: SparkResource, tables: TableResource
    ) -> Iterator[dg.AssetCheckResult]:
        with failures_explained():
            batch = open_batch(config, context, tables)
            batch_id = batch.context.files.batch_id
            report = spark.submitted(context, "checks", ["--batch-id", batch_id], config)
            if report is None:
                results = batch_results(config, batch.context, gone=batch.reports_gone).results
            else:
                results = Verified.from_json(report).results
            yield from check_results(config, TABLE, results)
            yield from batches_expectation_results(config, context.instance, DocsPage(store, f"batches-{batch_id}"))

    return [assignment_checks, commit_checks]
