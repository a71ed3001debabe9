"""Ways into and out of a table by Dagster's IO manager, and its values as Great Expectations gets them.

Dagster reads the annotations of assets when they are defined, so they are real types here, not postponed texts.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lakeidx
from lakeidx.dagster import LakeIdxIOManager
from lakeidx.dagster.expectations.of_rows import judge_rows
from lakeidx.dagster.resources import SparkResource
from lakeidx.errors import InvalidInputError, LakeIdxError
from lakeidx.pipeline_file.sections import ExpectationConfig
from lakeidx.types import Root
from tests.dagster.pipelines import QUIET
from tests.kit.matrix_in import (
    Load,
    Maker,
    Refused,
    WayIn,
    arrow_rows,
    arrow_value,
    complete,
    pandas_frame,
    polars_frame,
    put_one_by_one,
    writes_pandas,
    writes_polars,
)
from tests.kit.matrix_out import Shown, WayOut, nan_is_null, of_arrow, of_pandas
from tests.kit.matrix_values import Column, Row


def run_assets(folder: Path, *assets: dg.AssetsDefinition | dg.AssetSpec, spark: SparkResource | None = None) -> None:
    """Materialize assets; a failure is raised as the one line that the step says."""
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize(
            list(assets),
            resources={"io_manager": LakeIdxIOManager(warehouse=str(folder), spark=spark)},
            instance=instance,
            run_config=QUIET,
            raise_on_error=False,
        )
    if not done.success:
        failed = next(e for e in done.all_events if e.is_step_failure).step_failure_data
        error = failed.user_failure_data.description if failed.user_failure_data else failed.error_display_string
        raise LakeIdxError(str(error).strip())


def _put(make: Maker, load: Load) -> Refused:
    def put(rows: Sequence[Row]) -> None:
        data = make(load.columns, [complete(load, r) for r in rows], load.layout)

        @dg.asset(name="t", key_prefix="d")
        def made() -> Any:
            return data

        run_assets(load.folder, made)

    return put_one_by_one(load, 0.02, put)


IO_IN: dict[str, WayIn] = {
    "IO manager, Arrow": WayIn(partial(_put, arrow_rows), arrow_value),
    "IO manager, pandas": WayIn(partial(_put, pandas_frame), writes_pandas),
    "IO manager, Polars": WayIn(partial(_put, polars_frame), writes_polars),
}


def _read(
    kind: Any, shown: Callable[[Any, Sequence[Column]], Shown], table: lakeidx.Table, columns: Sequence[Column], _: Path
) -> Shown:
    seen: list[Any] = []
    if kind is pd.DataFrame:
        columns = [c for c in columns if not is_refused_by_pandas(c)]

    @dg.asset(ins={"t": dg.AssetIn(key=["d", "t"], metadata={"columns": ["id", *(c.name for c in columns)]})})
    def read(t: kind) -> None:
        seen.append(shown(t, columns))

    run_assets(Path(table.uri).parents[1], dg.AssetSpec(["d", "t"]), read)
    found: Shown = seen[0]
    return found


def _way(kind: Any, shown: Callable[[Any, Sequence[Column]], Shown], but: Any = None) -> WayOut:
    return WayOut(partial(_read, kind, shown), but or {})


def _duckdb(rows: Any, columns: Sequence[Column]) -> Shown:
    return of_arrow(rows.to_arrow_table(), columns)


def _polars(rows: Any, columns: Sequence[Column]) -> Shown:
    return of_arrow(rows.to_arrow(), columns)


def is_refused_by_pandas(column: Column) -> bool:
    """Moments in a ROW or MAP are Python's in pandas, which has none of other years."""
    return column.type.root in (Root.ROW, Root.MAP) and "ZONE" in str(column.type)


def _python_has(rows: pa.Table) -> bool:
    """Tell whether all values are Python's: not every way in has written moments of other years."""
    try:
        rows.to_pylist()
    except (ValueError, OverflowError):
        return False
    return True


def _judged(table: lakeidx.Table, columns: Sequence[Column], _: Path) -> Shown:
    """Let Great Expectations count the nulls of each column, or refuse it; it hands no values out."""
    shown = of_arrow(table.scan().to_arrow(), columns)
    for column in columns:
        expected = ExpectationConfig(type="expect_column_values_to_not_be_null", args={"column": column.name})
        rows = table.scan(columns=[column.name]).to_arrow()
        if is_refused_by_pandas(column) and not _python_has(rows):
            with pytest.raises(InvalidInputError, match=r"^Great Expectations cannot judge"):
                judge_rows([expected], [rows])
            continue
        (outcome,) = judge_rows([expected], [rows])
        values = [row[column.name] for row in shown.values()]
        # NaN is null in pandas.
        assert outcome.unexpected == sum(v is None or v != v for v in values), column.name
        assert outcome.rows == len(values)
    return shown


_NO_NAN = {Root.FLOAT: nan_is_null, Root.DOUBLE: nan_is_null}
IO_OUT: dict[str, WayOut] = {
    "IO manager, Arrow": _way(pa.Table, of_arrow),
    "IO manager, pandas": _way(pd.DataFrame, of_pandas, _NO_NAN),
    "IO manager, Polars": _way(pl.DataFrame, _polars),
    "IO manager, DuckDB": _way(duckdb.DuckDBPyRelation, _duckdb),
    "Great Expectations": WayOut(_judged),
}
