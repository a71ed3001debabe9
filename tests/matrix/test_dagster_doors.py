"""Every value through Dagster's IO manager."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.dagster.expectations.of_rows import judge_rows
from lakeidx.dagster.io.frames import pandas_frame
from lakeidx.errors import InvalidInputError
from lakeidx.pipeline_file.sections import ExpectationConfig
from tests.kit.matrix_dagster import IO_IN, IO_OUT, is_refused_by_pandas
from tests.kit.matrix_in import WAYS_IN
from tests.kit.matrix_out import WAYS_OUT
from tests.kit.matrix_run import fill

pytestmark = pytest.mark.matrix


@pytest.mark.parametrize("name", list(IO_IN))
def test_what_goes_in_comes_out_or_is_refused(name: str, tmp_path: Path) -> None:
    fill(IO_IN[name], 0, tmp_path).check(WAYS_OUT["scan"], tmp_path)


@pytest.mark.parametrize("name", list(IO_OUT))
def test_what_is_there_comes_out(name: str, tmp_path: Path) -> None:
    fill(WAYS_IN["Arrow IPC"], 0, tmp_path).check(IO_OUT[name], tmp_path)


def test_what_pandas_does_not_have_is_refused_by_one_line(tmp_path: Path) -> None:
    filled = fill(WAYS_IN["Arrow IPC"], 0, tmp_path)
    for column in filter(is_refused_by_pandas, filled.columns):
        with pytest.raises(
            InvalidInputError, match=r"^rows do not become a pandas.DataFrame .*: annotate with pyarrow"
        ):
            pandas_frame(filled.table.scan(columns=[column.name]).to_arrow())


def test_great_expectations_counts_nulls_of_every_type(tmp_path: Path) -> None:
    filled = fill(WAYS_IN["Arrow IPC"], 0, tmp_path)
    for column in filled.columns:
        expected = ExpectationConfig(type="expect_column_values_to_not_be_null", args={"column": column.name})
        rows = filled.table.scan(columns=[column.name]).to_arrow()
        if is_refused_by_pandas(column):
            with pytest.raises(InvalidInputError, match=r"^Great Expectations cannot judge"):
                judge_rows([expected], [rows])
            continue
        (outcome,) = judge_rows([expected], [rows])
        values = [row[column.name] for row in filled.rows.values()]
        # NaN is null in pandas.
        assert outcome.unexpected == sum(v is None or v != v for v in values), column.name
        assert outcome.rows == len(values)
