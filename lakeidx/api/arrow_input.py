"""Conversion of what callers pass as rows or keys to Arrow."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakeidx.codec.values import map_types
from lakeidx.errors import InvalidInputError
from lakeidx.landing.cast_rows import short_text
from lakeidx.landing.kind_rules import KIND_COLUMN
from lakeidx.types import DataType, Field, Root


class _ArrowStreamable(Protocol):
    """Anything that exports itself as an Arrow stream (pandas, Polars, DuckDB, PySpark 4, scans of lakeidx, ...)."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


#: Bytes of a reader that are read at once.
_MOST_BYTES = 32 << 20
#: What Arrow raises for values that it makes no column of.
_NO_ARROW = (pa.ArrowException, OverflowError, ValueError, TypeError)
Rows: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader | _ArrowStreamable | list[Mapping[str, Any]]


def absent_columns(rows: Any) -> dict[str, NDArray[np.bool_]]:
    """Return bool[n] by column: dictionaries of a list that do not have it; Arrow data has all its columns in each row."""
    if not isinstance(rows, list):
        return {}
    names = dict.fromkeys(n for r in rows for n in r)
    return {n: mask for n in names if (mask := np.array([n not in r for r in rows], dtype=bool)).any()}


def as_table(rows: Any, fields: Sequence[Field] = ()) -> pa.Table:
    """Convert rows of any Arrow form, or a list of dictionaries, to a table.

    fields   columns of the table: of a list, maps are told from rows by them
    errors   InvalidInputError for what is no Arrow data, or cannot be made any
    """
    try:
        if isinstance(rows, pa.Table):
            return rows
        if isinstance(rows, pa.RecordBatch):
            return pa.Table.from_batches([rows])
        if isinstance(rows, pa.RecordBatchReader):
            return rows.read_all()
        if hasattr(rows, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(rows).read_all()
    except _NO_ARROW as error:
        raise InvalidInputError(
            f"{type(rows).__name__} does not become Arrow data: {_where(rows)}{_said(error)}"
        ) from error
    if isinstance(rows, list):
        _check_dictionaries(rows)
        types = {f.name: f.type for f in fields}
        names = dict.fromkeys(n for r in rows for n in r)
        return pa.table({n: _column([r.get(n) for r in rows], n, types.get(n)) for n in names})
    raise InvalidInputError(
        "rows must be Arrow data (a table, a reader, or what exports __arrow_c_stream__) or a list of dictionaries, not "
        f"{_right_form(rows)}"
    )


def as_stream(rows: Any, fields: Sequence[Field], *, whole: bool) -> pa.Table | pa.RecordBatchReader:
    """Convert rows as `as_table` does, but leave a reader of many one: they are staged as they come.

    whole   the caller needs all of them; so do rows with kinds, which are looked at before
    """
    if whole or not isinstance(rows, pa.RecordBatchReader) or KIND_COLUMN in rows.schema.names:
        return as_table(rows, fields)
    first, size = list[pa.RecordBatch](), 0
    for batch in rows:
        first.append(batch)
        size += batch.nbytes
        if size > _MOST_BYTES:
            return pa.RecordBatchReader.from_batches(rows.schema, chain(first, rows))
    return pa.Table.from_batches(first, rows.schema)


def _right_form(given: Any) -> str:
    """Return what was given in the place of rows, and how what it may have meant is written."""
    if isinstance(given, str | os.PathLike):
        return f"the text {str(given)[:60]!r}: a condition is given as where=..., files to upsert_files([...])"
    if not isinstance(given, Mapping):
        return f"{type(given).__name__}: one row or key is [{{'id': 1}}]"
    columns = any(isinstance(v, list | tuple) for v in given.values())
    return (
        "a dictionary: make a table of its columns, pyarrow.table(...)"
        if columns
        else "a dictionary: put it into a list, [{...}]"
    )


def _where(rows: Any) -> str:
    """Name the first column of a data frame that does not become Arrow data by itself; pandas does not always say."""
    for name in getattr(rows, "columns", ()):
        try:
            pa.RecordBatchReader.from_stream(rows[[name]]).read_all()
        except _NO_ARROW:
            return f"column {name!r}: "
    return ""


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())


def _check_dictionaries(rows: Sequence[Any]) -> None:
    if not rows:
        raise InvalidInputError(
            "an empty list has no columns: where no row is meant, give an Arrow table with the columns"
        )
    wrong = next((i for i, r in enumerate(rows) if not isinstance(r, Mapping)), None)
    if wrong is not None:
        kind = type(rows[wrong]).__name__
        raise InvalidInputError(f"row {wrong + 1} of the list is no dictionary, but {kind}: write {{'id': 1}} for it")


def _column(values: list[Any], name: str, wanted: DataType | None) -> pa.Array:
    """Make a column of Python values; their types say what it is, but for maps, which look like rows of different fields."""
    try:
        return pa.array(
            values if wanted is None or not _has_map(wanted) else [_with_entries(v, wanted) for v in values]
        )
    except _NO_ARROW as error:
        raise InvalidInputError(
            f"column {name!r}: the values do not become one Arrow column: {_said(error)}"
        ) from error


def _with_entries(value: Any, t: DataType) -> Any:
    """Write the maps in a value as lists of entries, for Arrow to find their types: made with a given one, values are cut to it."""
    if value is None:
        return None
    if t.root is Root.ROW:
        return {**value, **{f.name: _with_entries(value[f.name], f.type) for f in t.fields if f.name in value}}
    if t.root is Root.ARRAY and t.element is not None:
        return [_with_entries(v, t.element) for v in value]
    if t.root not in (Root.MAP, Root.MULTISET):
        return value
    entries = list(value.items() if isinstance(value, Mapping) else value)
    if not all(isinstance(e, (tuple, list)) and len(e) == 2 for e in entries):
        raise ValueError(f"a map is a dictionary or a list of pairs, not {short_text(value)}")
    key, item = map_types(t)
    return [{"key": _with_entries(k, key), "value": _with_entries(v, item)} for k, v in entries]


def _has_map(t: DataType) -> bool:
    inner = [c for c in (t.key, t.element) if c is not None] + [f.type for f in t.fields]
    return t.root in (Root.MAP, Root.MULTISET) or any(map(_has_map, inner))


def step_rows(rows: pa.Table, kind_column: str | None) -> pa.Table:
    """Return the rows of a step of a stream as an upsert takes them, their kinds in column ``_kind``.

    kind_column   column of the table that holds row kinds, if it has one
    """
    from lakeidx.table.scan.layout import ROW_KIND

    rows = rows.rename_columns([KIND_COLUMN if n == ROW_KIND else n for n in rows.column_names])
    if kind_column in rows.column_names:
        # The column of a deleted row has the kind with which that came into the other table.
        retracts = pc.is_in(rows.column(KIND_COLUMN), pa.array(["-U", "-D"]))
        kinds = pc.if_else(retracts, None, rows.column(kind_column))
        rows = rows.set_column(rows.column_names.index(kind_column), kind_column, kinds)
    return rows
