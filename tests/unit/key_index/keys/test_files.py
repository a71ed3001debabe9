"""Opening files for their keys."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.errors import CorruptFileError
from lakeidx.key_index.keys.files import open_key_file, read_columns, row_positions
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.storage.local import LocalStore


def _file(folder: Path, rows: int) -> tuple[str, pa.Table]:
    random = np.random.default_rng(rows)
    table = pa.table({"id": np.arange(rows), "v": random.integers(0, 1 << 60, rows)})
    path = str(folder / f"{rows}.parquet")
    pq.write_table(table, path, row_group_size=max(1, rows // 2))
    return path, table


@pytest.mark.parametrize("rows", [1, 1000, 20_000])
def test_a_small_file_is_read_once_with_its_footer(tmp_path: Path, rows: int) -> None:
    path, table = _file(tmp_path, rows)
    opened = open_key_file(LocalStore(), path)
    if rows < 20_000:
        Path(path).write_bytes(b"")
    groups = range(opened.metadata.num_row_groups)
    found = read_columns(opened, ["id"], groups, IndexMetrics())
    assert found.equals(table.select(["id"]))
    assert row_positions(opened, groups).tolist() == list(range(rows))
    assert row_positions(opened, groups[1:]).tolist() == list(range(max(1, rows // 2), rows))
    assert row_positions(opened, []).tolist() == []


@pytest.mark.parametrize("rows", [100, 20_000])
def test_a_column_that_is_missing_is_named(tmp_path: Path, rows: int) -> None:
    path, _ = _file(tmp_path, rows)
    opened = open_key_file(LocalStore(), path)
    with pytest.raises(CorruptFileError, match="no column 'other'"):
        read_columns(opened, ["id", "other"], [0], IndexMetrics())
