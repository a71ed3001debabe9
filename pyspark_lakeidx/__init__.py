"""Lets Spark find the format ``lakeidx`` without being told: it imports the packages whose names begin with ``pyspark_``.

Only what Spark's lookup asks for lives here; the source itself is `lakeidx.spark.datasource`. Filters are pushed down only in
sessions that `lakeidx.spark.register` knows.
"""

from __future__ import annotations

from lakeidx.spark.datasource import LakeIdxDataSource as DefaultSource

__all__ = ["DefaultSource"]
