"""Lets Spark find the format ``lakeidx`` without being told: it imports the packages whose names begin with ``pyspark_``.

A process of its own does so for each session, before the first read or write. So what it finds loads nothing of lakeidx until a
source is made: the process that only looks up is not the one that reads or writes.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """Name of the format, which becomes the source itself (`lakeidx.spark.datasource`)."""

    def __new__(cls, options: dict[str, str]) -> DataSource:  # type: ignore[misc]
        """Make the source."""
        from lakeidx.spark.datasource import LakeIdxDataSource

        return LakeIdxDataSource(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "lakeidx"
