"""Every value through Dagster's IO manager."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.dagster.io.frames import pandas_frame
from lakeidx.errors import InvalidInputError
from tests.kit.matrix_dagster import IO_IN, IO_OUT, is_refused_by_pandas
from tests.kit.matrix_in import WAYS_IN
from tests.kit.matrix_out import WAYS_OUT
from tests.kit.matrix_run import LIGHT_IN, LIGHT_LAYOUTS, fill
from tests.kit.share import share_of

pytestmark = pytest.mark.matrix


@pytest.mark.parametrize("name", list(IO_IN))
def test_what_goes_in_comes_out_or_is_refused(name: str, tmp_path: Path) -> None:
    filled = fill(IO_IN[name], 0, tmp_path)
    filled.check(WAYS_OUT["scan"], tmp_path)
    filled.check_all(name, WAYS_OUT | IO_OUT, 0.1, tmp_path)


@pytest.mark.parametrize("name", list(IO_OUT))
def test_what_is_there_comes_out(name: str, tmp_path: Path) -> None:
    fill(WAYS_IN["Arrow IPC"], 0, tmp_path).check(IO_OUT[name], tmp_path)


@pytest.mark.parametrize(("name", "layout"), share_of(LIGHT_LAYOUTS, 0.1))
def test_what_came_by_others_comes_out(name: str, layout: int, tmp_path: Path) -> None:
    fill(LIGHT_IN[name], layout, tmp_path).check_all(f"{name} {layout}", IO_OUT, 0.4, tmp_path)


def test_what_pandas_does_not_have_is_refused_by_one_line(tmp_path: Path) -> None:
    filled = fill(WAYS_IN["Arrow IPC"], 0, tmp_path)
    for column in filter(is_refused_by_pandas, filled.columns):
        with pytest.raises(
            InvalidInputError, match=r"^rows do not become a pandas.DataFrame .*: annotate with pyarrow"
        ):
            pandas_frame(filled.table.scan(columns=[column.name]).to_arrow())
