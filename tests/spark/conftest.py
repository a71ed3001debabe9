"""The session of Spark's tests, and the archive of classes for every JVM that they start."""

from __future__ import annotations

from tests.kit.spark_archive import use_archive
from tests.kit.spark_fixture import spark

__all__ = ["spark"]


def pytest_runtest_setup() -> None:
    """Also for tests without that session."""
    use_archive()
