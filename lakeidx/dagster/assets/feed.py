"""The assets of a feed of many tables: `sync`, a step that brings a feed file into all tables, and the tables.

The step runs, and says of each table that it was materialized; a table that no pipeline file names is an asset from its first
file on. So tables may come in the middle of a feed, and a run that is made again goes on with those that lack its file.

Dagster reads the annotations of asset functions when they are defined, so they are real types here, not postponed texts.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import dagster as dg

from lakeidx.api.feeds import FeedError, FeedResult, known_tables
from lakeidx.api.warehouse import Warehouse
from lakeidx.batch.committed_batch import BatchResult
from lakeidx.dagster.assets.stages import chosen_keys
from lakeidx.dagster.failures import failures_explained, retry_policy
from lakeidx.dagster.metadata.reports import table_metadata
from lakeidx.dagster.names import (
    LANDING,
    SYNC,
    asset_key,
    partitions_of,
    pool_name,
    stages_group,
    table_group,
    table_key,
)
from lakeidx.dagster.resources import resource_keys, resources_in
from lakeidx.errors import NotFoundError
from lakeidx.pipeline_file.feed import FeedConfig
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.pipeline_file.partitions import files_of_partitions
from lakeidx.storage import kind_of_store


def build_feed_assets(feed: FeedConfig) -> list[Any]:
    """Build the step, and an asset for each table that is named in the file, or known on a local disk."""
    pipeline = feed.landing_pipeline()
    common: dict[str, Any] = {"owners": list(feed.owners) or None, "tags": feed.tags}
    partitions = partitions_of(pipeline)

    @dg.asset(
        key=asset_key(pipeline, SYNC),
        deps=[asset_key(pipeline, LANDING)],
        partitions_def=partitions,
        group_name=stages_group(pipeline),
        pool=pool_name(pipeline),
        retry_policy=retry_policy(pipeline),
        backfill_policy=dg.BackfillPolicy.single_run(),
        kinds={"python", "paimon"},
        description=f"Brings feed files into the tables of {feed.database}; tables that are not there are made.",
        required_resource_keys=resource_keys(pipeline, "store", "spark"),
        **common,
    )
    def sync(context: dg.AssetExecutionContext) -> Iterator[Any]:
        with failures_explained(context):
            store, spark, _ = resources_in(context, pipeline)
            keys = chosen_keys(context)
            place = store.open(feed.landing.path, feed.landing.storage_options)
            warehouse = Warehouse(feed.warehouse, store.storage_options(feed.warehouse))
            created: list[str] = []
            totals: dict[str, int] = {}
            for file in files_of_partitions(place, pipeline, keys):
                try:
                    (result,) = warehouse.sync_database(
                        feed.database, [file.path], feed.landing.options(), feed.options(), strict=feed.strict,
                        max_rejected=feed.max_rejected, limits=feed.limits or None, runner=spark.runner(feed.warehouse),
                    )  # fmt: skip
                except FeedError as error:
                    if error.result is not None:
                        yield from _materializations(feed, warehouse, error.result)
                    raise
                yield from _materializations(feed, warehouse, result)
                created += result.created
                for name, count in _counted(result):
                    totals[name] = totals.get(name, 0) + count
            yield dg.MaterializeResult(
                metadata={"lakeidx/created": ", ".join(created), **{f"lakeidx/{n}": c for n, c in totals.items()}}
            )

    specs = [
        dg.AssetSpec(
            table_key(feed.database, name),
            deps=[asset_key(pipeline, SYNC)],
            kinds={"paimon", "table"},
            group_name=table_group(pipeline),
            description=f"The table {feed.database}.{name}: a copy of {source} by the feed {feed.feed}.",
            **common,
        )
        for name, source in _tables(feed).items()
    ]
    return [sync, *specs]


def _tables(feed: FeedConfig) -> dict[str, str]:
    """Return the tables that are known without a look beyond this machine, each with its source."""
    options = feed.options()
    found = {options.target(name): name for name in options.listed()}
    if _is_here(feed):
        known = known_tables(Warehouse(feed.warehouse), feed.database)
        found |= {n: s for n, s in known.items() if options.wants(s) and options.target(s) == n}
    return dict(sorted(found.items()))


def pipelines_of(feed: FeedConfig) -> Iterator[PipelineConfig]:
    """Describe each known table as a pipeline file would, for its upkeep."""
    here = Warehouse(feed.warehouse) if _is_here(feed) else None
    for name, source in _tables(feed).items():
        schema = None
        if here is not None:
            with suppress(NotFoundError):
                schema = here.table(f"{feed.database}.{name}").schema
        yield feed.table_pipeline(name, source, schema)


def _is_here(feed: FeedConfig) -> bool:
    return kind_of_store(feed.warehouse) == kind_of_store("/")


def _materializations(feed: FeedConfig, warehouse: Warehouse, result: FeedResult) -> Iterator[dg.AssetMaterialization]:
    """Say of each table that has the file what its batch did."""
    for name, batch in result.tables.items():
        table = warehouse.table(f"{feed.database}.{name}")
        snapshot = table.snapshot
        metadata = {**table_metadata(f"{feed.database}.{name}", table.uri, table.schema), **_figures(batch)}
        metadata |= {"lakeidx/feed_file": result.file, "lakeidx/created": name in result.created}
        version = {} if snapshot is None else {"dagster/data_version": snapshot.identity}
        yield dg.AssetMaterialization(table_key(feed.database, name), metadata=metadata, tags=version)


def _figures(batch: BatchResult | None) -> Mapping[str, Any]:
    if batch is None:
        return {"lakeidx/already_committed": True}
    figures = {n: v for n, v in batch.as_dict().items() if isinstance(v, int)}
    return {**{f"lakeidx/{n}": v for n, v in figures.items()}, "lakeidx/batch_id": batch.ingest.batch_id}


def _counted(result: FeedResult) -> Iterator[tuple[str, int]]:
    yield "tables", len(result.tables)
    yield "rejected", result.rejected_rows
    yield from ((f"skipped_{what.replace(' ', '_')}", count) for what, count in result.skipped.items())
