"""The asset `lookup_store`: lookup files of the newest snapshot, checked against a scan."""

from typing import Any

import dagster as dg

from lakeidx.dagster.assets.checks import StepEvents, build_specs, check_results, materialized, report_checks
from lakeidx.dagster.assets.maintenance import common
from lakeidx.dagster.failures import failures_explained
from lakeidx.dagster.names import LOOKUP_STORE
from lakeidx.dagster.resources import SparkResource, StoreResource, TableResource, resources_of
from lakeidx.maintenance.lookup_store import LookupStoreReport, run_lookup_store
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.quality.lookup_agrees import check_lookup_agrees


def lookup_checks(pipeline: PipelineConfig) -> list[dg.AssetCheckSpec]:
    """Return the checks of lookup files."""
    return build_specs(pipeline, LOOKUP_STORE, ["lookup_store_agrees"])


def build_lookup_asset(pipeline: PipelineConfig) -> dg.AssetsDefinition:
    """Build lookup files for data files that have none; look up a sample of keys and compare it with a scan."""
    # It follows every commit when the automation sensor is on; which partitions were never committed is no matter.
    follows = dg.AutomationCondition.eager().without(~dg.AutomationCondition.any_deps_missing())

    @dg.asset(
        name=LOOKUP_STORE,
        automation_condition=follows,
        kinds={"spark"},
        description="Every live data file has a lookup file, so that single keys are found without reading data files.",
        **common(pipeline),
    )
    @resources_of(pipeline)
    def lookup_store(
        context: dg.AssetExecutionContext, store: StoreResource, spark: SparkResource, tables: TableResource
    ) -> StepEvents:
        with failures_explained(context):
            table = tables.open(pipeline)
            done = spark.submitted(context, LOOKUP_STORE, [pipeline.uri], pipeline)
            if done is None:
                report = run_lookup_store(table.metadata, spark.runner(pipeline.uri))
            else:
                report = LookupStoreReport.model_validate(done)
            yield materialized(context, _lookup_metadata(report))
            rule = check_lookup_agrees(table, sample_rows=pipeline.checks.sample_rows)
            yield from report_checks(context, lookup_checks(pipeline), check_results(pipeline, LOOKUP_STORE, [rule]))

    found: dg.AssetsDefinition = lookup_store
    return found


def _lookup_metadata(report: LookupStoreReport) -> dict[str, Any]:
    """Return the metrics of a run of the stage."""
    return {f"lakeidx/{name}": value for name, value in report.model_dump().items() if value is not None}
