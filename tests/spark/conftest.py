"""The session of Spark's tests."""

from __future__ import annotations

from tests.spark_fixture import spark

__all__ = ["spark"]
