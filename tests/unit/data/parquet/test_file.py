"""One file being written: it appears when finished, whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.data.parquet.chunks import FloatMarks
from lakeidx.data.parquet.columns import ParquetColumns
from lakeidx.data.parquet.file import ParquetFile
from lakeidx.data.parquet.properties import parquet_properties
from lakeidx.errors import InvalidInputError
from lakeidx.options.table_options import TableOptions
from lakeidx.types import Field, parse_type
from tests.unit.data.tables import STORE

FIELDS = [
    Field(0, "a", parse_type("INT NOT NULL")),
    Field(1, "d", parse_type("DOUBLE")),
    Field(2, "t", parse_type("TIMESTAMP(9)")),
]


def new_file(folder: Path) -> ParquetFile:
    columns = ParquetColumns.of(FIELDS)
    settings = parquet_properties(TableOptions({}), compression="zstd").settle(columns.physical)
    return ParquetFile(STORE, str(folder / "data-1.parquet"), columns, settings)


def group(*numbers: int) -> pa.Table:
    n = len(numbers)
    return pa.table(
        [pa.array(numbers, pa.int32()), pa.array([-0.0] * n), pa.array([None] * n, pa.timestamp("ns"))],
        names=["a", "d", "t"],
    )


def test_nothing_is_seen_before_the_end(tmp_path: Path) -> None:
    file = new_file(tmp_path)
    file.write_group(group(1, 2))
    assert file.position > 0
    assert not (tmp_path / "data-1.parquet").exists()
    file.write_group(group(3))
    done = file.finish({"key": "value"})
    assert (done.rows, done.size) == (3, (tmp_path / "data-1.parquet").stat().st_size)
    assert done.floats == {"d": FloatMarks(negative_zero=True)}
    assert done.null_counts == {"t": 3}
    found = pq.ParquetFile(done.path)
    assert (found.num_row_groups, found.metadata.metadata) == (2, {b"key": b"value"})
    assert found.read().column("a").to_pylist() == [1, 2, 3]


def test_an_aborted_file_leaves_nothing(tmp_path: Path) -> None:
    file = new_file(tmp_path)
    file.abort()
    file.write_group(group(1))
    file.abort()
    del file
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_rows_is_a_file(tmp_path: Path) -> None:
    done = new_file(tmp_path).finish()
    assert done.rows == 0
    assert pq.read_table(done.path).num_rows == 0


def test_rows_of_other_columns_are_refused(tmp_path: Path) -> None:
    file = new_file(tmp_path)
    with pytest.raises(InvalidInputError, match="2 columns for a file of 3"):
        file.write_group(group(1).drop_columns(["t"]))
    with pytest.raises(InvalidInputError, match="column a"):
        file.write_group(group(1).set_column(0, "a", pa.array(["x"])))
    file.abort()
