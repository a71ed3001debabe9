"""Settings of sessions that lakeidx makes: those of one process only where there is one process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakeidx.errors import UnavailableError
from lakeidx.spark.runner import default_settings, get_session

ADDRESS = {"spark.driver.host", "spark.driver.bindAddress"}


@pytest.mark.parametrize(
    ("master", "submitted", "local"),
    [
        (None, False, True),
        ("local", False, True),
        ("local[*]", False, True),
        (None, True, False),
        ("spark://m:7077", False, False),
        ("yarn", False, False),
        ("k8s://https://api", False, False),
    ],
)
def test_the_address_of_the_driver_is_set_only_where_all_is_one_process(
    master: str | None, submitted: bool, local: bool
) -> None:
    settings = default_settings(master, submitted=submitted)
    assert (set(settings) & ADDRESS) == (ADDRESS if local else set())
    assert settings["spark.sql.adaptive.enabled"] == "false"


DAEMON = "spark.python.daemon.module"


def test_workers_are_forked_with_lakeidx_only_where_they_run_this_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert default_settings("local[2]", submitted=False)[DAEMON] == "lakeidx.spark.workers.daemon"
    assert DAEMON not in default_settings("spark://m:7077", submitted=False)
    assert DAEMON not in default_settings(None, submitted=True)
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "python"))
    assert DAEMON not in default_settings("local[2]", submitted=False)
    (tmp_path / "python").symlink_to(sys.executable)
    assert DAEMON not in default_settings("local[2]", submitted=False)


def test_a_session_that_spark_refuses_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    said = """<_InactiveRpcError of RPC that terminated with:
\tstatus = StatusCode.UNAUTHENTICATED
\tdetails = "Invalid authentication token"
>"""

    def refuse(builder: Any) -> None:
        raise PySparkException(said)

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", refuse)
    with pytest.raises(
        UnavailableError, match=r"Invalid authentication token; set SPARK_CONNECT_AUTHENTICATE_TOKEN"
    ) as found:
        get_session(remote="sc://nowhere:1")
    assert "\n" not in str(found.value)
    said = "[APPLICATION_NAME_NOT_SET] An application name\nmust be set."
    with pytest.raises(UnavailableError, match=r"no Spark session: \[APPLICATION_NAME_NOT_SET\] An application name"):
        get_session(master="local[1]")
