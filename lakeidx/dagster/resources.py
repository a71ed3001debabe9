"""Resources of assets: a store, a Spark session, tables. Nothing connects before it is used.

Dagster reads these classes' annotations when they are defined, so they are real types, not postponed texts.
"""

import functools
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import dagster as dg
from pydantic import Field

from lakeidx.batch.context import BatchContext
from lakeidx.dagster.failures import forget_failure
from lakeidx.dagster.garbage import search_what_runs_make
from lakeidx.dagster.submitted import report_of, run_command
from lakeidx.errors import InvalidInputError
from lakeidx.pipeline_file.model import RESOURCE_PREFIX, PipelineConfig
from lakeidx.plugins import TOOLS, load_plugin
from lakeidx.storage import ObjectStore, kind_of_store
from lakeidx.storage.landing_folders import open_landing
from lakeidx.table.handle import TableHandle
from lakeidx.tasks.lazy_runner import LazyRunner
from lakeidx.tasks.logs import print_logs
from lakeidx.tasks.runner import LocalRunner, Runner

# Each run loads this; what only some of them use is imported where it is used.
if TYPE_CHECKING:
    from lakeidx.api.table import Table
    from lakeidx.storage.s3.event_queue import EventQueue


@functools.cache
def config_fields(kind: type[dg.Config]) -> dict[str, Any]:
    """Return the fields of run config for the decorator of a function that takes it; Dagster would make them anew each time."""
    return kind.to_fields_dict()


class Resources(NamedTuple):
    """The resources of a pipeline, of which a function of Dagster has those that it asks for with `resource_keys`."""

    store: "StoreResource"
    spark: "SparkResource"
    tables: "TableResource"


def resource_keys(pipeline: PipelineConfig, *names: str) -> set[str]:
    """Return the keys of a pipeline's resources, all where none is named; by its prefix a project may have a `store`, too."""
    return {pipeline.resource_prefix + name for name in names or Resources._fields}


def resources_in(context: Any, pipeline: PipelineConfig) -> Resources:
    """Return the resources of a pipeline that a context has.

    A sensor that is called by hand gets them by name, too; it passes those over.
    """
    prefix = pipeline.resource_prefix
    return Resources._make(getattr(context.resources, prefix + name, None) for name in Resources._fields)


class StoreResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Access to object stores; local paths need none of it. Empty fields are left to the environment (AWS_*)."""

    endpoint_url: str | None = Field(default=None, description="S3 endpoint; None = AWS, or AWS_ENDPOINT_URL")
    region_name: str | None = None
    aws_access_key_id: str | None = None
    aws_secret_access_key: str | None = None
    aws_session_token: str | None = None
    profile_name: str | None = None
    read_timeout: float | None = Field(default=None, description="seconds a request may stay without an answer; 60")

    def storage_options(self, uri: str) -> dict[str, Any] | None:
        """Return the options for `lakeidx.storage.open_store`; none for local paths, and those of requests for other clouds."""
        given = {k: v for k, v in self.model_dump().items() if v}
        kind = kind_of_store(uri)
        # A queue of S3's events has an address of the web.
        of_s3 = kind in ("s3", "http", "https")
        return given if of_s3 else {k: v for k, v in given.items() if k == "read_timeout"} if kind else None

    def open(self, uri: str, options: Mapping[str, Any] | None = None) -> ObjectStore:
        """Return the store a path or URI is in; landing folders may also be where only fsspec reads.

        options   of a landing folder's store
        """
        return open_landing(uri, self.storage_options(uri), options)

    def queue(self, url: str) -> "EventQueue":
        """Return a queue of S3's event notifications."""
        from lakeidx.storage.s3.event_queue import EventQueue

        return EventQueue(url, self.storage_options(url))


class SparkResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Place where stages run: one Spark session per process, made when the first task needs it."""

    engine: str = Field(
        default="auto",
        description="local: in the step's own process; spark; submit: stages, upkeep and checks as jobs; auto: spark where master "
        "or remote is set, and for tables on an object store, local for others",
    )
    submit: str = Field(default="", description="with engine submit: the command, e.g. spark-submit --master yarn")
    submit_seconds: float = Field(
        default=0,
        description="with engine submit: how long a job may take before it is ended and run again; 0 = for ever",
    )
    master: str | None = Field(default=None, description="local[*], spark://host:7077, ...")
    remote: str | None = Field(default=None, description="Spark Connect address, sc://host:15002")
    parallelism: int | None = Field(default=None, description="slots of the cluster, where Spark does not report them")
    spark_config: dict[str, str] = Field(
        default_factory=dict, description="further settings, dotted keys; shown in the UI"
    )
    spark_config_json: str | None = Field(
        default=None, description="further settings as a JSON object; may hold secrets"
    )

    def runner(self, uri: str) -> Runner:
        """Return the runner of this configuration for a table; Spark starts with its first task."""
        asked = self.engine == "spark" or self.master or self.remote
        if self.engine in ("local", "submit") or not (asked or kind_of_store(uri)):
            return LocalRunner(self.parallelism or 2)
        return LazyRunner(self._spark_runner)

    def run_job(
        self,
        context: dg.AssetExecutionContext | dg.OpExecutionContext,
        job: str,
        arguments: Sequence[str],
        extras: Mapping[str, Any],
    ) -> Sequence[Any]:
        """Run a job of ``jobs/`` that reports through Dagster Pipes, wait for it and return the messages it has sent.

        Overridden by deployments whose jobs no command starts: call the Pipes client of EMR, Databricks, Dataproc, Kubernetes.

        errors   the error that has ended the job
        """
        return run_command(self.submit, context, job, arguments, extras, limit_seconds=self.submit_seconds)

    def submit_stage(
        self,
        context: dg.AssetExecutionContext,
        stage: str,
        pipeline: PipelineConfig,
        batch: BatchContext,
        files: Sequence[str] = (),
    ) -> dict[str, Any] | None:
        """Run a stage of a batch as a job and return its report, as `submitted` does.

        files   landing files, for ingest
        """
        arguments = ["--batch-id", batch.files.batch_id]
        if batch.overwrite is not None:
            arguments += ["--overwrite", batch.overwrite]
        return self.submitted(context, stage, arguments, pipeline, files=list(files))

    def submitted(
        self,
        context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext,
        job: str,
        arguments: Sequence[str],
        pipeline: PipelineConfig,
        **extras: Any,
    ) -> dict[str, Any] | None:
        """Run work as a job and return its report, if this configuration submits jobs; None otherwise: the caller does the work.

        extras   what the job is sent beside the pipeline
        errors   the error that has ended the job
        """
        if self.engine != "submit":
            return None
        # Of checks Pipes takes the context of their step.
        of_step = context.op_execution_context if isinstance(context, dg.AssetCheckExecutionContext) else context
        sent = {"pipeline": pipeline.model_dump(mode="json", by_alias=True), **extras}
        return report_of(self.run_job(of_step, job, arguments, sent))

    def session(self) -> Any:
        """Return the Spark session of this configuration; it starts with the first call.

        errors   InvalidInputError for settings that are no JSON object; ImportError without pyspark
        """
        # Definitions must load where there is no Spark, so it is imported when work begins.
        try:
            config = {**json.loads(self.spark_config_json or "{}"), **self.spark_config}
        except (ValueError, TypeError):
            # Settings may be secrets: neither the text nor the parser's quotation of it is shown.
            raise InvalidInputError("the Spark settings (LAKEIDX_SPARK_CONFIG) are not a JSON object") from None
        return load_plugin(TOOLS, "spark").get_session(master=self.master, remote=self.remote, config=config)

    def _spark_runner(self) -> Runner:
        runner: Runner = load_plugin(TOOLS, "spark").SparkRunner(self.session(), parallelism=self.parallelism)
        return runner


class TableResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Opens the tables that pipeline files describe, and makes those that are not there yet."""

    store: dg.ResourceDependency[StoreResource]

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Begin a run's process; sensors open tables, too, and are no run."""
        print_logs(os.environ.get("LAKEIDX_LOG_FORMAT"))
        if context.run is not None and context.instance is not None:
            search_what_runs_make()
            forget_failure(context.instance, context.run)

    def ensure(self, config: PipelineConfig) -> "Table":
        """Open the table of a pipeline for all that a table can do; create it when it does not exist."""
        from lakeidx.api.table import Table

        made = self.ensure_handle(config)
        return Table(made.store, made.paths, made.metadata)

    def ensure_handle(self, config: PipelineConfig) -> TableHandle:
        """Open the table of a pipeline for a batch; create it when it does not exist."""
        from lakeidx.maintenance.wanted_schema import ensure_table

        options = self.store.storage_options(config.uri)
        return ensure_table(
            config.uri, config.spec(), options, policy=config.schema_changes, landed=config.lands_columns,
            create_branch=config.create_branch,
        )  # fmt: skip

    def handle(self, config: PipelineConfig) -> TableHandle:
        """Open the table of a pipeline for a batch; NotFoundError when it does not exist."""
        return TableHandle.open(config.uri, self.store.storage_options(config.uri))

    def open(self, config: PipelineConfig) -> "Table":
        """Open the table of a pipeline for all that a table can do; NotFoundError when it does not exist."""
        from lakeidx.api.table import Table

        return Table.open(config.uri, self.store.storage_options(config.uri))


_STORE_VARIABLES = {
    "endpoint_url": "AWS_ENDPOINT_URL",
    "region_name": "AWS_REGION",
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "aws_session_token": "AWS_SESSION_TOKEN",
    "profile_name": "AWS_PROFILE",
}


def _reference(environment: Mapping[str, str], variable: str) -> Any:
    """Refer to a variable that is set: Dagster shows its name, and reads it when a run starts."""
    return dg.EnvVar(variable) if environment.get(variable) else None


def resources_from_environment(
    environment: Mapping[str, str] = os.environ, *, spark: SparkResource | None = None, prefix: str = RESOURCE_PREFIX
) -> dict[str, Any]:
    """Build the resources of a deployment: secrets as references that are looked up when a run begins, never when code loads.

    prefix   what their names begin with: `resource_prefix` of the pipelines

    ===========================  ==============================================================
    AWS_*                        access to S3, as everywhere
    LAKEIDX_S3_READ_TIMEOUT      seconds a request to S3 may stay without an answer
    LAKEIDX_ENGINE               spark, local or submit; auto (default) as `SparkResource` says
    LAKEIDX_SPARK_SUBMIT         with submit: the command that runs a job, e.g. spark-submit --master yarn
    LAKEIDX_SUBMIT_SECONDS       with submit: how long a job may take before it is ended and run again
    LAKEIDX_SPARK_MASTER         local[*], spark://host:7077
    LAKEIDX_SPARK_REMOTE         Spark Connect address; SPARK_REMOTE does, too
    LAKEIDX_SPARK_PARALLELISM    slots of the cluster, where Spark does not report them
    LAKEIDX_SPARK_CONFIG         further settings as a JSON object
    ===========================  ==============================================================
    """
    secrets = {field: _reference(environment, variable) for field, variable in _STORE_VARIABLES.items()}
    timeout = environment.get("LAKEIDX_S3_READ_TIMEOUT")
    store = StoreResource(**{k: v for k, v in secrets.items() if v}, read_timeout=float(timeout) if timeout else None)
    slots = environment.get("LAKEIDX_SPARK_PARALLELISM")
    spark = spark or SparkResource(
        engine=environment.get("LAKEIDX_ENGINE") or "auto",
        submit=environment.get("LAKEIDX_SPARK_SUBMIT", ""),
        submit_seconds=float(environment.get("LAKEIDX_SUBMIT_SECONDS") or 0),
        master=environment.get("LAKEIDX_SPARK_MASTER") or None,
        remote=_reference(environment, "LAKEIDX_SPARK_REMOTE"),
        parallelism=int(slots) if slots else None,
        spark_config_json=_reference(environment, "LAKEIDX_SPARK_CONFIG"),
    )
    found = {"store": store, "spark": spark, "tables": TableResource(store=store)}
    return {prefix + name: resource for name, resource in found.items()}
