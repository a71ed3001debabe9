"""Spark: the runner of the stages, the data source ``lakeidx``, and lookup joins.

    from lakeidx.spark import lookup_join, read_table, register, upsert

Names are loaded when they are requested: a worker that only reads starts without the rest.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakeidx.spark.datasource import read_table, register
    from lakeidx.spark.frame_upsert import upsert
    from lakeidx.spark.joins import lookup_join

__all__ = ["lookup_join", "read_table", "register", "upsert"]

_HOMES = {"lookup_join": "joins", "read_table": "datasource", "register": "datasource", "upsert": "frame_upsert"}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        raise ModuleNotFoundError("Spark needs pyspark: pip install 'lakeidx[spark]'", name=error.name) from error
