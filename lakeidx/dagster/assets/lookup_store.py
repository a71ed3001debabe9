"""The asset `lookup_store`: lookup files of the newest snapshot, checked against a scan."""

import dagster as dg

from lakeidx.dagster.assets.checks import StepEvents, build_specs, check_results, materialized, report_checks
from lakeidx.dagster.assets.maintenance import Upkeep, build_upkeep_asset
from lakeidx.dagster.names import LOOKUP_STORE
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

    return build_upkeep_asset(
        pipeline,
        LOOKUP_STORE,
        _build_files,
        automation_condition=follows,
        kinds={"spark"},
        description="Every live data file has a lookup file, so that single keys are found without reading data files.",
    )


def _build_files(step: Upkeep) -> StepEvents:
    uri, spark = step.pipeline.uri, step.spark
    done = spark.submitted(step.context, LOOKUP_STORE, [uri], step.pipeline)
    if done is None:
        report = run_lookup_store(step.table.metadata, spark.runner(uri))
    else:
        report = LookupStoreReport.model_validate(done)
    figures = {f"lakeidx/{name}": value for name, value in report.model_dump().items() if value is not None}
    yield materialized(step.context, figures)
    rule = check_lookup_agrees(step.table, sample_rows=step.pipeline.checks.sample_rows)
    results = check_results(step.pipeline, LOOKUP_STORE, [rule])
    yield from report_checks(step.context, lookup_checks(step.pipeline), results)
