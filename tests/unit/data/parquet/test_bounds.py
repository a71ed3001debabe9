"""Bounds of columns with NaN in files of Arrow's writer, and what a table's readers find in them."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lakeidx
from lakeidx.data.parquet.footer import change_footer, change_metadata
from lakeidx.errors import InternalError


def _file(groups: int = 20) -> tuple[bytes, pa.Table]:
    """More than 15 row groups and columns: long lists, and fields far apart."""
    n = 10 * groups
    values = [None if i % 7 == 0 else math.nan if i % 5 == 0 else float(i) for i in range(n)]
    columns = {
        "l": pa.array([[{"x": 1.5, "y": [True, False]}]] * n), "d": pa.array(values), "s": pa.array(["ü"] * n),
        **{f"c{i}": pa.array(range(n)) for i in range(16)}, "f": pa.array(values, pa.float32()),
    }  # fmt: skip
    rows, out = pa.table(columns), io.BytesIO()
    with pq.ParquetWriter(out, rows.schema, write_page_index=True, write_page_checksum=True) as writer:
        for group in range(groups):
            writer.write_table(rows.slice(10 * group, 10))
    return out.getvalue(), rows


def test_only_bounds_of_the_named_columns_go() -> None:
    raw, rows = _file()
    before = pq.ParquetFile(io.BytesIO(raw)).metadata
    numbers = {before.row_group(0).column(i).path_in_schema: i for i in range(before.num_columns)}
    changed = change_footer(raw, {}, {numbers["d"], numbers["f"]})
    file = pq.ParquetFile(io.BytesIO(changed), page_checksum_verification=True)
    assert file.read().slice(0).to_pydict().__repr__() == rows.to_pydict().__repr__()
    for group in range(before.num_row_groups):
        for name, i in numbers.items():
            old, new = before.row_group(group).column(i), file.metadata.row_group(group).column(i)
            if name in ("d", "f"):
                assert not new.statistics.has_min_max
                assert new.statistics.null_count == old.statistics.null_count
                assert (new.has_column_index, new.has_offset_index) == (False, True)
            else:
                assert new.to_dict() == old.to_dict()
                assert new.has_column_index
    assert change_footer(raw, {}, ()) == raw


def test_another_footer_is_refused() -> None:
    with pytest.raises(InternalError, match="none that Arrow writes"):
        change_metadata(b"\x15\x02\x19", {}, {0})
    with pytest.raises(InternalError, match="type 14"):
        change_metadata(b"\x1e\x00", {}, {0})


@pytest.mark.parametrize("root", ["DOUBLE", "FLOAT"])
def test_files_of_tables_have_no_bounds_beside_a_nan(tmp_path: Path, root: str) -> None:
    """NaN is above every number for Spark and Java Paimon, and parquet-java would skip it by the bounds of the numbers."""
    fields = [
        {"name": "k", "type": "INT"}, {"name": "t", "type": "TIMESTAMP(9)"}, {"name": "m", "type": "TIMESTAMP(3)"},
        {"name": "d", "type": root}, {"name": "e", "type": root},
    ]  # fmt: skip
    options = {"bucket": "1"}
    table = lakeidx.Table.create(f"{tmp_path}/d.db/t", {"fields": fields, "primaryKeys": ["k"], "options": options})
    rows = {"k": [1, 2, 3], "t": [None] * 3, "m": [None] * 3, "d": [1.0, math.nan, 2.0], "e": [1.0, 3.0, 2.0]}
    table.upsert(pa.table(rows))
    (path,) = tmp_path.rglob("data-*.parquet")
    chunks = {c.path_in_schema: c.statistics for c in _chunks(path)}
    assert {n: chunks[n].has_min_max for n in ("d", "e", "k")} == {"d": False, "e": True, "k": True}
    assert table.scan(where="d > 100").to_arrow().column("k").to_pylist() == [2]
    assert table.scan(where="d < 1.5").to_arrow().column("k").to_pylist() == [1]
    assert pc.is_nan(table.scan(where="k = 2").to_arrow().column("d")).to_pylist() == [True]
    assert table.verify().passed
    table.upsert(pa.table({**rows, "d": [1.0, 1.0, 2.0]}))
    table.compact(full=True)
    assert table.scan(where="d > 100").to_arrow().num_rows == 0


def _chunks(path: Path) -> list[pq.ColumnChunkMetaData]:
    group = pq.ParquetFile(path).metadata.row_group(0)
    return [group.column(i) for i in range(group.num_columns)]
