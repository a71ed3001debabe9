"""How many tasks a Spark session runs at a time: by its configuration, else by Spark's own answer."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from lakeidx.errors import InvalidInputError
from lakeidx.spark.jobs import described
from lakeidx.tasks.limits import available_cores

_UNKNOWN = (
    "how many tasks this Spark cluster runs at a time is not known: set spark.cores.max (standalone), or spark.executor.instances"
    " (spark.dynamicAllocation.maxExecutors with dynamic allocation) and spark.executor.cores; or give the number (--parallelism)"
)


def session_slots(session: SparkSession) -> int:
    """Return the number of tasks the session runs at a time.

    errors   InvalidInputError when dynamic allocation has no upper limit, or Spark knows of no slot: says what to set
    """
    master = _setting(session, "spark.master") or ""
    if master == "local":
        return 1
    if master.startswith("local["):
        inside = master[len("local[") : -1].split(",")[0]
        return available_cores() if inside == "*" else int(inside)
    per_task = int(_setting(session, "spark.task.cpus") or 1)
    cores = _configured_cores(session, master)
    slots = cores // per_task if cores is not None else _slots_by_query(session)
    if slots < 1:
        raise InvalidInputError(_UNKNOWN)
    return slots


def _configured_cores(session: SparkSession, master: str) -> int | None:
    """Return the cores of the application by the configuration; None when only Spark knows."""
    most = _setting(session, "spark.cores.max")
    if most:
        return int(most)
    # A standalone worker's executor takes all of its cores unless configured otherwise; elsewhere the default is one.
    per_executor = _setting(session, "spark.executor.cores") or ("" if master.startswith("spark://") else "1")
    dynamic = (_setting(session, "spark.dynamicAllocation.enabled") or "false").lower() == "true"
    executors = _setting(session, "spark.dynamicAllocation.maxExecutors" if dynamic else "spark.executor.instances")
    if executors and per_executor:
        return int(executors) * int(per_executor)
    if dynamic:
        raise InvalidInputError(_UNKNOWN)
    return None


def _slots_by_query(session: SparkSession) -> int:
    """Ask Spark: a range without a number of partitions gets one for each slot, once an executor has started.

    The count before makes it start one.
    """
    with described(session, "slots: how many tasks run at a time"):
        session.range(1).count()
        return int(session.range(1 << 20).select(sf.spark_partition_id().alias("part")).distinct().count())


def _setting(session: SparkSession, key: str) -> str | None:
    found = session.conf.get(key, None)
    return None if found is None else str(found)
