"""Opening files for their keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.data.parquet.chunks import open_rows
from lakeidx.errors import CorruptFileError
from lakeidx.key_index.keys import files
from lakeidx.key_index.keys.files import open_key_file, read_key_columns, row_positions
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
    found = read_key_columns(opened, ["id"], groups, IndexMetrics())
    assert found.equals(table.select(["id"]))
    assert row_positions(opened, groups).tolist() == list(range(rows))
    assert row_positions(opened, groups[1:]).tolist() == list(range(max(1, rows // 2), rows))
    assert row_positions(opened, []).tolist() == []


def test_a_file_is_opened_for_its_rows_when_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most files are ruled out by the filter in their footer."""
    path, table = _file(tmp_path, 20_000)
    asked: list[object] = []

    def opening(*args: Any) -> pq.ParquetFile:
        asked.append(args)
        return open_rows(*args)

    monkeypatch.setattr(files, "open_rows", opening)
    opened = open_key_file(LocalStore(), path)
    assert opened.metadata.num_rows == 20_000
    assert opened.column_index("v") == 1
    assert not asked
    for _ in range(2):
        assert read_key_columns(opened, ["id"], [0, 1], IndexMetrics()).equals(table.select(["id"]))
    assert len(asked) == 1


@pytest.mark.parametrize("rows", [100, 20_000])
def test_a_column_that_is_missing_is_named(tmp_path: Path, rows: int) -> None:
    path, _ = _file(tmp_path, rows)
    opened = open_key_file(LocalStore(), path)
    with pytest.raises(CorruptFileError, match="no column 'other'"):
        read_key_columns(opened, ["id", "other"], [0], IndexMetrics())
