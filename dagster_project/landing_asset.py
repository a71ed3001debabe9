"""The landing folder as an observable source: what lies there, by partition, and whether it is the same as before."""

import hashlib
from collections import defaultdict

import dagster as dg

from dagster_project.failures import failures_explained
from dagster_project.names import LANDING, asset_key, key_prefix, partitions_of
from dagster_project.resources import StoreResource
from lakeidx.pipeline.config import PipelineConfig
from lakeidx.pipeline.partitions import landing_files, partition_key
from lakeidx.storage.base import FileInfo


def build_landing_asset(pipeline: PipelineConfig) -> dg.SourceAsset:
    """The landing asset of a pipeline. Observing it lists the folder; new files become partitions that can be materialized."""
    partitions = partitions_of(pipeline)

    @dg.observable_source_asset(
        name=LANDING,
        key_prefix=key_prefix(pipeline),
        group_name=key_prefix(pipeline)[1],
        partitions_def=partitions,
        description=f"Files `{pipeline.landing.pattern}` in `{pipeline.landing.path}`. Observe it to make new files partitions; "
        "the landing sensor does so by itself.",
        metadata={"dagster/uri": pipeline.landing.path},
        tags={**pipeline.tags, "dagster/kind/file": ""},
    )
    def landing(context: dg.OpExecutionContext, store: StoreResource) -> dg.DataVersionsByPartition:
        with failures_explained():
            found = by_partition(pipeline, landing_files(store.open(pipeline.landing.path), pipeline))
        if isinstance(partitions, dg.DynamicPartitionsDefinition):
            context.instance.add_dynamic_partitions(str(partitions.name), sorted(found))
        known = set(partitions.get_partition_keys(dynamic_partitions_store=context.instance))
        return dg.DataVersionsByPartition({key: version_of(files) for key, files in found.items() if key in known})

    return landing


def by_partition(pipeline: PipelineConfig, files: list[FileInfo]) -> dict[str, list[FileInfo]]:
    """Landing files by the partition they belong to."""
    out: dict[str, list[FileInfo]] = defaultdict(list)
    for file in files:
        key = partition_key(pipeline, file.name)
        if key is not None:
            out[key].append(file)
    return dict(out)


def version_of(files: list[FileInfo]) -> str:
    """Differs when a file came, went or changed."""
    content = "\n".join(f"{f.name} {f.size} {f.mtime_ms}" for f in sorted(files, key=lambda f: f.name))
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def landing_key(pipeline: PipelineConfig) -> dg.AssetKey:
    """Key of a table's landing asset."""
    return asset_key(pipeline, LANDING)
