"""The landing folder as an observable source: its files by partition, and whether they have changed."""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Sequence

import dagster as dg

from lakeidx.dagster.assets.kept_checks import kept_checks
from lakeidx.dagster.failures import failures_explained
from lakeidx.dagster.metadata.reports import SAMPLE_ROWS, records_table
from lakeidx.dagster.names import LANDING, asset_key, key_prefix, partitions_of, stages_group
from lakeidx.dagster.resources import StoreResource, resource_keys, resources_in
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.pipeline_file.partitions import list_landing, partition_key, sort_files
from lakeidx.storage.base import FileInfo

UNPLACED_CHECK = "landing_files_have_partitions"


def build_landing_asset(pipeline: PipelineConfig) -> dg.SourceAsset:
    """Build the landing asset of a pipeline: observing it lists the folder; new files become partitions to materialize."""
    partitions = partitions_of(pipeline)

    @dg.observable_source_asset(
        name=LANDING,
        key_prefix=key_prefix(pipeline),
        group_name=stages_group(pipeline),
        partitions_def=partitions,
        description=f"Files `{pipeline.landing.pattern}` of the landing folder; observing it makes new ones partitions.",
        metadata={"dagster/uri": pipeline.landing.path},
        tags={**pipeline.tags, "dagster/kind/file": ""},
        required_resource_keys=resource_keys(pipeline, "store"),
    )
    def landing(context: dg.OpExecutionContext) -> dg.DataVersionsByPartition:
        with failures_explained():
            found = by_partition(pipeline, placed_files(pipeline, resources_in(context, pipeline).store)[0])
        if isinstance(partitions, dg.DynamicPartitionsDefinition):
            context.instance.add_dynamic_partitions(str(partitions.name), sorted(found))
        known = set(partitions.get_partition_keys(dynamic_partitions_store=context.instance))
        return dg.DataVersionsByPartition({key: _version_of(files) for key, files in found.items() if key in known})

    return landing


def build_landing_check(pipeline: PipelineConfig) -> dg.AssetChecksDefinition:
    """Check that every landing file belongs to a partition; the landing sensor reports it, too."""

    @dg.asset_check(
        asset=landing_key(pipeline),
        name=UNPLACED_CHECK,
        description="Every file that matches the landing pattern belongs to a partition, so that it is loaded.",
        required_resource_keys=resource_keys(pipeline, "store"),
    )
    def landing_files_have_partitions(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        with failures_explained():
            return unplaced_result(pipeline, placed_files(pipeline, resources_in(context, pipeline).store)[1])

    return kept_checks(landing_files_have_partitions)


def placed_files(
    pipeline: PipelineConfig, stores: StoreResource, names: Collection[str] | None = None
) -> tuple[list[FileInfo], list[FileInfo]]:
    """Return the landing files there are, and those that match the pattern and belong to no partition.

    names   only these, and their success markers
    """
    partitions, landing = partitions_of(pipeline), pipeline.landing
    # Files make their own where partitions are neither by time nor by values.
    of_files = isinstance(partitions, dg.DynamicPartitionsDefinition)
    listed = list_landing(stores.open(landing.path, landing.storage_options), pipeline, names)
    return sort_files(listed, pipeline, None if of_files else set(partitions.get_partition_keys()))


def unplaced_result(pipeline: PipelineConfig, unplaced: Sequence[FileInfo]) -> dg.AssetCheckResult:
    """Judge files that match the pattern and belong to no partition."""
    if not unplaced:
        return dg.AssetCheckResult(passed=True, description="Every landing file belongs to a partition.", metadata={})
    shown = ", ".join(f.name for f in unplaced[:SAMPLE_ROWS]) + (", …" if len(unplaced) > SAMPLE_ROWS else "")
    key = pipeline.partitions.key
    how = f"partitions.key {key!r} finds no partition in the name" if key else "the name is no partition"
    return dg.AssetCheckResult(
        passed=False,
        description=f"{len(unplaced)} files match {pipeline.landing.pattern!r} and are never loaded, since {how}, or one that"
        f" does not exist: {shown}",
        metadata={
            "lakeidx/files": len(unplaced),
            "lakeidx/sample": records_table([{"file": f.path, "bytes": f.size} for f in unplaced[:SAMPLE_ROWS]]),
        },
    )


def by_partition(pipeline: PipelineConfig, files: list[FileInfo]) -> dict[str, list[FileInfo]]:
    """Return the landing files by the partition they belong to."""
    out: dict[str, list[FileInfo]] = defaultdict(list)
    for file in files:
        key = partition_key(pipeline, file.name)
        if key is not None:
            out[key].append(file)
    return dict(out)


def _version_of(files: list[FileInfo]) -> str:
    """Return a version that changes when a file is added, removed or changed."""
    content = "\n".join(f"{f.name} {f.size} {f.mtime_ms}" for f in sorted(files, key=lambda f: f.name))
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def landing_key(pipeline: PipelineConfig) -> dg.AssetKey:
    """Return the key of a table's landing asset."""
    return asset_key(pipeline, LANDING)
