"""Spark sessions for lakeidx: local, a master URL, or Spark Connect, by configuration alone.

Only settings that the block shuffle needs are set, each with its reason; everything else is the user's.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakeidx.errors import InvalidInputError, UnavailableError
from lakeidx.spark.jobs import is_connect
from lakeidx.spark.workers.python import runs_lakeidx

#: Settings of sessions that lakeidx makes itself.
_DEFAULTS: dict[str, str] = {
    # Blocks are compressed Arrow IPC already.
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    # Adaptive execution would regroup shuffle partitions whose task each bucket was given on purpose.
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.log.level": "ERROR",
}
#: More settings where driver and executors are one process: nothing else calls it, and it needs no name in the network.
_LOCAL_DEFAULTS: dict[str, str] = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def get_session(
    *,
    master: str | None = None,
    remote: str | None = None,
    app_name: str = "lakeidx",
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Get or start a Spark session.

    master    ``local[*]``, ``spark://host:7077``, ...; None = what spark-submit or the environment says, else local[*]
    remote    Spark Connect address ``sc://host:15002``; None = SPARK_REMOTE when set
    config    further settings, dotted keys
    errors    InvalidInputError when both master and remote are given; UnavailableError when Spark refuses or does not answer
    """
    remote = remote or (os.environ.get("SPARK_REMOTE") if master is None else None)
    if master and remote:
        raise InvalidInputError("give a Spark master or a Spark Connect address, not both")
    # Workers of a local session otherwise take the first python3 on the PATH, which need not be this environment.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    if remote:
        builder = builder.remote(remote)
    else:
        submitted = "SPARK_ENV_LOADED" in os.environ and master is None
        if not submitted:
            builder = builder.master(master or "local[*]")
        for key, value in default_settings(master, submitted=submitted).items():
            builder = builder.config(key, value)
    for key, value in (config or {}).items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except PySparkException as error:
        raise UnavailableError(_no_session(str(error)), path=remote or master) from error


def default_settings(master: str | None, *, submitted: bool) -> dict[str, str]:
    """Return the default settings of a classic session.

    submitted   the master is that of spark-submit, which has its own idea of the driver's address
    """
    local = not submitted and (master or "local").startswith("local")
    return {**_DEFAULTS, **(_LOCAL_DEFAULTS if local else {}), **(_worker_daemon() if local else {})}


def _no_session(said: str) -> str:
    """Return one line on why there is no session; of a failed call its details."""
    found = re.search(r'details = "(.*)"', said)
    hint = "; set SPARK_CONNECT_AUTHENTICATE_TOKEN to the server's token" if "UNAUTHENTICATED" in said else ""
    return f"no Spark session: {found[1] if found else said.strip().partition(chr(10))[0]}{hint}"


def _worker_daemon() -> dict[str, str]:
    """Return the daemon that Spark's workers are forked from, where they run this Python and it has lakeidx by itself."""
    program = os.environ.get("PYSPARK_PYTHON", sys.executable)
    return {"spark.python.daemon.module": "lakeidx.spark.workers.daemon"} if runs_lakeidx(program) else {}


def local_folder(session: SparkSession) -> str | None:
    """Return the folder for temporary files (`spark.local.dir`) of a session whose tasks run on this machine; None for others."""
    if is_connect(session):
        return None
    master = session.conf.get("spark.master", None) or ""
    if master != "local" and not master.startswith("local["):
        return None
    # Spark has a folder of its own in it, and in that one the files that are added to the session.
    jvm = session.sparkContext._jvm
    assert jvm is not None
    return str(Path(jvm.org.apache.spark.SparkFiles.getRootDirectory()).parent.parent)
