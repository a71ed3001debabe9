"""Spark: the runner of the stages, the data source ``lakeidx``, and lookup joins.

    from lakeidx.spark import LakeTable, create, lookup_join, read_table, register, sql, upsert

Names are loaded when they are requested: a worker that only reads starts without the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeidx import lazy_names

if TYPE_CHECKING:
    from lakeidx.spark.datasource import read_table, register
    from lakeidx.spark.frame_upsert import upsert
    from lakeidx.spark.joins import lookup_join
    from lakeidx.spark.lake_table import LakeTable
    from lakeidx.spark.new_tables import create
    from lakeidx.spark.statements.sql import sql

__all__ = ["LakeTable", "create", "lookup_join", "read_table", "register", "sql", "upsert"]

_PLACES = {
    "LakeTable": "lakeidx.spark.lake_table",
    "create": "lakeidx.spark.new_tables",
    "lookup_join": "lakeidx.spark.joins",
    "read_table": "lakeidx.spark.datasource",
    "register": "lakeidx.spark.datasource",
    "sql": "lakeidx.spark.statements.sql",
    "upsert": "lakeidx.spark.frame_upsert",
}
__getattr__ = lazy_names(__name__, _PLACES, needs=("pyspark", "Spark needs pyspark: pip install 'lakeidx[spark]'"))
