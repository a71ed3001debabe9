"""Conversion of what callers pass as rows or keys to Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.errors import InvalidInputError


class _ArrowStreamable(Protocol):
    """Anything that exports itself as an Arrow stream (pandas, Polars, DuckDB, PySpark 4, scans of lakeidx, ...)."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Rows: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader | _ArrowStreamable | list[Mapping[str, Any]]


def absent_columns(rows: Any) -> dict[str, NDArray[np.bool_]]:
    """Return bool[n] by column: dictionaries of a list that do not have it; Arrow data has all its columns in each row."""
    if not isinstance(rows, list):
        return {}
    names = dict.fromkeys(n for r in rows for n in r)
    return {n: mask for n in names if (mask := np.array([n not in r for r in rows], dtype=bool)).any()}


def as_table(rows: Any) -> pa.Table:
    """Convert rows of any Arrow form, or a list of dictionaries, to a table.

    errors   InvalidInputError for what is no Arrow data
    """
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, pa.RecordBatchReader):
        return rows.read_all()
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(rows).read_all()
    if isinstance(rows, list) and rows and all(isinstance(r, Mapping) for r in rows):
        names = dict.fromkeys(n for r in rows for n in r)
        return pa.table({n: [r.get(n) for r in rows] for n in names})
    raise InvalidInputError(
        "rows must be Arrow data (a table, a reader, or what exports __arrow_c_stream__) or a list of dictionaries, not "
        f"{type(rows).__name__}"
    )
