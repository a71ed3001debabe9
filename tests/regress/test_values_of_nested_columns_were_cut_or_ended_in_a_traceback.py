"""Values inside nested columns, and data frames that make no Arrow data: each ended in a traceback, or was cut without a word."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from lakeidx import Table
from lakeidx.errors import InvalidInputError

ROW = {
    "type": "ROW",
    "fields": [{"id": 0, "name": "a", "type": "TIMESTAMP(3)"}, {"id": 1, "name": "b", "type": "INT NOT NULL"}],
}
CODES = pa.dictionary(pa.int32(), pa.string())


def create(folder: Path, t: Any) -> Table:
    fields = [{"name": "k", "type": "INT"}, {"name": "v", "type": t}]
    return Table.create(f"{folder}/d.db/t", {"fields": fields, "primaryKeys": ["k"], "options": {"bucket": "1"}})


def test_a_null_row_with_a_required_field_in_a_map(tmp_path: Path) -> None:
    table = create(tmp_path, {"type": "MAP", "key": "STRING", "value": ROW})
    inner = pa.struct([("a", pa.timestamp("us")), ("b", pa.int32())])
    values = [[("x", None), ("y", {"a": None, "b": 1})], None, []]
    table.upsert(pa.table({"k": pa.array([1, 2, 3], pa.int32()), "v": pa.array(values, pa.map_(pa.string(), inner))}))
    assert table.scan().to_arrow().column("v").to_pylist() == values


@pytest.mark.parametrize(
    ("t", "value"),
    [("INT", Decimal("1.5")), ("TIMESTAMP(3)", dt.datetime(2026, 1, 1, 0, 0, 0, 1)), ("TIME(3)", dt.time(0, 0, 0, 1))],
)
def test_values_of_maps_in_lists_of_dictionaries_are_not_cut(t: str, value: Any, tmp_path: Path) -> None:
    table = create(tmp_path, {"type": "MAP", "key": "STRING", "value": t})
    with pytest.raises(InvalidInputError, match="column v is not MAP"):
        table.upsert([{"k": 1, "v": {"x": value}}])
    table.upsert([{"k": 1, "v": {}}, {"k": 2, "v": []}, {"k": 3, "v": None}])
    assert table.scan().to_arrow().column("v").to_pylist() == [[], [], None]
    with pytest.raises(InvalidInputError, match="a map is a dictionary or a list of pairs"):
        table.upsert([{"k": 1, "v": [{"key": "x", "value": None}]}])


def test_a_data_frame_with_a_number_beyond_64_bits_names_its_column(tmp_path: Path) -> None:
    table = create(tmp_path, "BIGINT")
    with pytest.raises(InvalidInputError, match=r"DataFrame does not become Arrow data: column 'v': .*too large"):
        table.upsert(pd.DataFrame({"k": [1], "v": pd.Series([2**64], dtype=object)}))


def test_broken_text_in_a_dictionary_in_a_nested_column_takes_no_other_row(tmp_path: Path) -> None:
    table = create(tmp_path, {"type": "ARRAY", "element": "STRING"})
    raw = pa.array([b"a", b"\xff", b"c"])
    text = pa.Array.from_buffers(pa.string(), 3, raw.buffers()).dictionary_encode()
    rows = pa.table(
        {"k": pa.array([1, 2, 3], pa.int32()), "v": pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), text)}
    )
    pyarrow.feather.write_feather(rows, f"{tmp_path}/f.arrow", compression="uncompressed")
    assert table.upsert_files([f"{tmp_path}/f.arrow"]).ingest.rows_rejected == 1
    assert table.scan().to_arrow().column("v").to_pylist() == [["a"], ["c"]]


def test_a_parquet_file_that_arrow_writes_and_does_not_read_is_not_called_damaged(tmp_path: Path) -> None:
    table = create(tmp_path, {"type": "ROW", "fields": [{"id": 0, "name": "a", "type": "STRING"}]})
    codes = pa.StructArray.from_arrays([pa.array(["x"] * 3, CODES)], ["a"])
    pq.write_table(
        pa.table({"k": pa.array([1, 2, 3], pa.int32()), "v": codes}), tmp_path / "f.parquet", row_group_size=1
    )
    with pytest.raises(InvalidInputError, match=r"Arrow cannot read the Parquet file .*: write it with plain types"):
        table.upsert_files([tmp_path / "f.parquet"])
