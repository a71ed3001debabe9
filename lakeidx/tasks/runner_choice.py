"""Choice of the runner of a call: in this process, or on Spark."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, TypeAlias

from lakeidx.errors import InvalidInputError
from lakeidx.plugins import TOOLS, load_plugin
from lakeidx.tasks.runner import LocalRunner, Progress, Runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: None or "local" for this process, "spark" for the session there is (or a new one), a session, or a runner.
RunnerLike: TypeAlias = "Runner | SparkSession | Literal['local', 'spark'] | None"

THREADS = 2


def make_runner(runner: RunnerLike, *, threads: int = THREADS, progress: Progress | None = None) -> Runner:
    """Return the runner that a caller means.

    progress   called with (done, total) after every task; for runners that are made here
    errors     InvalidInputError for anything else, or when pyspark is not installed
    """
    if runner is None or runner == "local":
        return LocalRunner(threads, progress=progress)
    if runner == "spark":
        return spark_runner()
    if hasattr(runner, "shuffle") and hasattr(runner, "map"):
        return runner  # type: ignore[return-value]
    if hasattr(runner, "createDataFrame"):
        return load_plugin(TOOLS, "spark").SparkRunner(runner)  # type: ignore[no-any-return]
    raise InvalidInputError(f"runner must be 'local', 'spark', a Spark session or a runner, not {runner!r}")


def spark_runner(
    master: str | None = None, remote: str | None = None, *, name: str = "lakeidx", parallelism: int | None = None
) -> Runner:
    """Return a runner on a Spark session.

    name         what Spark's own pages call a session that is started here
    parallelism  slots of the cluster; None = as it says
    errors   InvalidInputError when pyspark is not installed, naming the extra
    """
    if find_spec("pyspark") is None:
        raise InvalidInputError("Spark needs pyspark: pip install 'lakeidx[spark]'")
    return load_plugin(TOOLS, "spark").session_runner(master, remote, name, parallelism)  # type: ignore[no-any-return]
