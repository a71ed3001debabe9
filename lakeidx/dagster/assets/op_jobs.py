"""Jobs of a table that are one op with run config. A project has several for each table, so they are made without decorators, which
look at each function a dozen times.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import dagster as dg

from lakeidx.dagster.names import asset_job_name, pool_name, table_id
from lakeidx.dagster.resources import SparkResource, TableResource
from lakeidx.pipeline_file.model import PipelineConfig

#: What an op does: with its context, its run config, and the pipeline's resources.
Work = Callable[[dg.OpExecutionContext, Any, SparkResource, TableResource], None]


@cache
def _schema(kind: type[dg.Config]) -> Any:
    return kind.to_config_schema()


def build_op_job(
    pipeline: PipelineConfig,
    name: str,
    work: Work,
    kind: type[dg.Config],
    *,
    descriptions: tuple[str, str],
    retry_policy: dg.RetryPolicy | None = None,
) -> dg.JobDefinition:
    """Build a job of one op. It takes the slot of batches: none of them runs meanwhile.

    name          of the op, after the table's
    kind          run config of the op
    descriptions  of the op and of the job
    """
    spark, tables = (pipeline.resource_prefix + n for n in ("spark", "tables"))

    def compute(context: dg.OpExecutionContext, _: Any) -> Iterator[dg.Output[None]]:
        work(context, kind(**context.op_config), getattr(context.resources, spark), getattr(context.resources, tables))
        yield dg.Output(None)

    op = dg.OpDefinition(
        compute,
        name=f"{table_id(pipeline)}__{name}",
        description=descriptions[0],
        outs={"result": dg.Out(dg.Nothing)},
        config_schema=_schema(kind),
        required_resource_keys={spark, tables},
        retry_policy=retry_policy,
        pool=pool_name(pipeline),
    )
    job = asset_job_name(pipeline, name)
    return dg.JobDefinition(
        graph_def=dg.GraphDefinition(job, node_defs=[op], description=descriptions[1]),
        description=descriptions[1],
        tags={"lakeidx/table": pipeline.table, "dagster/priority": "1"},
        executor_def=dg.in_process_executor,
    )
