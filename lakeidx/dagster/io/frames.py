"""Rows in the form of an asset's annotation: Arrow, pandas, Polars, DuckDB, Spark, or the table itself.

Types are recognised by their names, so that no library is imported that the asset does not use.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from lakeidx.api.arrow_input import as_table
from lakeidx.api.table import Table
from lakeidx.dagster.resources import SparkResource
from lakeidx.errors import InvalidInputError
from lakeidx.plugins import TOOLS, load_plugin
from lakeidx.predicate import Predicate, and_, format_predicate
from lakeidx.table.newest import on_newest
from lakeidx.table.scan.table_scan import bind_where

#: Names of the types, for messages.
_FORMS = (
    "pyarrow.Table, pyarrow.RecordBatchReader, pandas.DataFrame, polars.DataFrame, polars.LazyFrame, "
    "duckdb.DuckDBPyRelation, pyspark.sql.DataFrame, lakeidx.Table"
)


def is_spark_frame(rows: Any) -> bool:
    """Return True for a data frame of Spark or Spark Connect."""
    return _name(type(rows)) == "pyspark.DataFrame"


def rows_of(output: Any) -> Any:
    """Return an output as an Arrow table, or as the Spark data frame that it is; a lazy frame is collected.

    errors   InvalidInputError for what is no rows
    """
    if output is None:
        raise InvalidInputError("the asset returned None: return rows, or annotate it -> None if it writes by itself")
    if is_spark_frame(output):
        return output
    return as_table(output.collect() if _name(type(output)) == "polars.LazyFrame" else output)


def load_rows(
    table: Table,
    wanted: Any,
    *,
    columns: tuple[str, ...] | None,
    where: list[str | Predicate],
    state: Mapping[str, Any],
    spark: SparkResource,
    storage_options: Mapping[str, Any] | None,
) -> Any:
    """Read a table.

    wanted   a type; Any and None mean Arrow
    where    conditions that must all hold
    state    `snapshot`, `tag` or `timestamp`; nothing for the newest
    errors   InvalidInputError for a type that rows cannot be read as
    """
    name = "pyarrow.Table" if wanted in (None, Any, object) else _name(wanted)
    if name == "lakeidx.Table":
        return table
    condition = and_([bind_where(w, table.schema) for w in where]) if where else None
    if name == "pyspark.DataFrame":
        text = None if condition is None else format_predicate(condition, table.schema.fields)
        return _spark_frame(table, spark, columns, text, state, storage_options or {})
    scan = partial(table.scan, where=condition, columns=columns, **state)
    if name == "pyarrow.RecordBatchReader":
        return scan().to_reader()
    rows = scan().to_arrow() if state else on_newest(table.metadata, lambda _: scan().to_arrow())
    if name == "pyarrow.Table":
        return rows
    if name == "pandas.DataFrame":
        return pandas_frame(rows)
    if name in ("polars.DataFrame", "polars.LazyFrame"):
        import polars as pl

        frame = pl.DataFrame(rows)
        return frame if name == "polars.DataFrame" else frame.lazy()
    if name == "duckdb.DuckDBPyRelation":
        import duckdb

        return duckdb.connect().from_arrow(rows)
    raise InvalidInputError(f"a table cannot be read as {wanted!r}; annotate the input with one of {_FORMS}")


def pandas_frame(rows: pa.Table) -> Any:
    """Return rows as pandas has them; whole numbers beside nulls in its nullable types: floats would make others of large ones.

    errors   InvalidInputError for what pandas does not have: nested times of a zone outside of the years 1 to 9999
    """
    import pandas as pd

    nullable = {
        pa.int8(): pd.Int8Dtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
    }
    try:
        frame = rows.to_pandas(integer_object_nulls=True)
    except ValueError as error:
        raise InvalidInputError(
            f"rows do not become a pandas.DataFrame ({error}): annotate with pyarrow.Table"
        ) from error
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if column.null_count and column.type in nullable:
            frame[name] = column.to_pandas(types_mapper=nullable.get)
    return frame


def schema_of(rows: Any) -> pa.Schema:
    """Return the columns of rows, a Spark data frame's without running it."""
    if is_spark_frame(rows):
        return rows.limit(0).toArrow().schema
    return rows.schema


def _spark_frame(
    table: Table,
    spark: SparkResource,
    columns: tuple[str, ...] | None,
    where: str | None,
    state: Mapping[str, Any],
    storage_options: Mapping[str, Any],
) -> Any:
    names = {"snapshot": "scan.snapshot-id", "tag": "scan.tag-name", "timestamp": "scan.timestamp-millis"}
    options = {names[k]: str(v) for k, v in state.items()} | {
        f"storage.{k}": str(v) for k, v in storage_options.items()
    }
    read_table = load_plugin(TOOLS, "spark_tables").read_table
    return read_table(spark.session(), table.uri, columns=columns, where=where, options=options)


def _name(wanted: Any) -> str:
    """Return package and name of a type: ``polars.DataFrame``."""
    package = getattr(wanted, "__module__", "").partition(".")[0].lstrip("_")
    return f"{package}.{getattr(wanted, '__name__', wanted)}"
