"""One Spark session for all tests of a lane: two slots, little memory, failed tasks are retried as on a cluster.

Whoever needs a session first makes it for all, so no test makes one with other settings in the process of the tests.

`tests/spark/conftest.py` has it for the modules beside it; elsewhere import the fixture `spark`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lakeidx.spark.datasource import register
from lakeidx.spark.runner import get_session
from tests.kit.spark_archive import use_archive

#: Two slots; a task may fail twice. All tasks of a job together may return 1 MiB: rows of a batch that come to the driver are seen.
MASTER = "local[2,3]"
CONFIG = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2", "spark.log.level": "OFF"}
CONFIG |= {"spark.driver.maxResultSize": "1m"}


def require_java() -> None:
    """Skip, visibly, where there is no Java."""
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session, which knows the format of lakeidx."""
    require_java()
    use_archive()
    session = get_session(master=MASTER, app_name="lakeidx-tests", config=CONFIG)
    register(session)
    yield session
    session.stop()
