"""What assets work with: a store, a Spark session, tables. Nothing connects before an asset asks.

Dagster reads these classes' annotations when they are defined, so they are real types, not postponed texts.
"""

from typing import Any

import dagster as dg
from pydantic import Field

from lakeidx.pipeline.config import PipelineConfig
from lakeidx.pipeline.runner import LocalRunner, Runner
from lakeidx.storage import ObjectStore, open_store
from lakeidx.table.handle import TableHandle


class StoreResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Access to object stores; local paths need none of it. Empty fields are left to the environment (AWS_*)."""

    endpoint_url: str | None = Field(default=None, description="S3 endpoint; None = AWS, or AWS_ENDPOINT_URL")
    region_name: str | None = None
    aws_access_key_id: str | None = None
    aws_secret_access_key: str | None = None
    aws_session_token: str | None = None
    profile_name: str | None = None

    def storage_options(self) -> dict[str, Any]:
        """Options for `lakeidx.storage.open_store`."""
        return {k: v for k, v in self.model_dump().items() if v}

    def open(self, uri: str) -> ObjectStore:
        """The store a path or URI lies in."""
        return open_store(uri, self.storage_options() if "://" in uri else None)


class SparkResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Where stages run. One Spark session per process, made when the first task needs it."""

    engine: str = Field(default="spark", description="spark, or local to run small tables in the step's own process")
    master: str | None = Field(default=None, description="local[*], spark://host:7077, ...")
    remote: str | None = Field(default=None, description="Spark Connect address, sc://host:15002")
    parallelism: int | None = Field(default=None, description="slots of the cluster, when Spark cannot tell")
    spark_config: dict[str, str] = Field(default_factory=dict, description="further settings, dotted keys")

    def runner(self) -> Runner:
        """The runner of this configuration."""
        if self.engine == "local":
            return LocalRunner(self.parallelism or 2)
        # Definitions must load where there is no Spark, so it is imported when work begins.
        from lakeidx.spark.runner import SparkRunner
        from lakeidx.spark.session import get_session

        session = get_session(master=self.master, remote=self.remote, config=self.spark_config)
        return SparkRunner(session, parallelism=self.parallelism)


class TableResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Opens the tables that pipeline files describe, and makes those that are not there yet."""

    store: dg.ResourceDependency[StoreResource]

    def ensure(self, config: PipelineConfig) -> TableHandle:
        """The table of a pipeline, created when it does not exist."""
        options = self.store.storage_options() if "://" in config.uri else None
        return TableHandle.create(config.uri, config.spec(), options, exist_ok=True)

    def open(self, config: PipelineConfig) -> TableHandle:
        """The table of a pipeline; NotFoundError when it does not exist."""
        options = self.store.storage_options() if "://" in config.uri else None
        return TableHandle.open(config.uri, options)
