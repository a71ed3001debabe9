"""`lakeidx.tag_hudi_table`: keys as an array, as rows and as a file; what it answers reads well."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeidx
from tests.unit.key_index.hudi_tables import HandMadeTable

T1 = "20260101000000001"


@pytest.fixture
def table(tmp_path: Path) -> str:
    made = HandMadeTable(tmp_path / "t", layout=2)
    made.instant(T1)
    made.file(T1, "a-0", ["k1", "k2"], partition="p=1")
    made.file(T1, "b-0", ["k3", "k4"], partition="p=2")
    return made.path


def test_keys_in_every_form(table: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": ["k3", "none"]}), tmp_path / "keys.parquet")
    rows = pa.table({"x": ["k3", "none"], "y": ["k1", "k2"]})
    expected = [("k3", "b-0"), ("none", None)]
    for keys, column in (
        (pa.array(["k3", "none"]), None),
        (rows, "x"),
        ([{"key": "k3"}, {"key": "none"}], None),
        (str(tmp_path / "keys.parquet"), None),
        (str(tmp_path / "keys.parquet"), "x"),
    ):
        found = lakeidx.tag_hudi_table(table, keys, column=column)
        assert [(r["key"], r["file_id"]) for r in found.to_table().to_pylist()] == expected
    only = lakeidx.tag_hudi_table(table, pa.array(["k3"]), partitions=["p=1"])
    assert not only.found.any()


def test_what_was_opened_is_told(table: str) -> None:
    found = lakeidx.tag_hudi_table(table, pa.array(["k3", "none"]))
    assert found.as_dict()["found"] == 1
    assert found.as_dict()["repeated"] == 0
    assert "found=1" in repr(found)
    assert "files" in found._repr_html_()


def test_rows_without_a_key_column(table: str) -> None:
    with pytest.raises(lakeidx.InvalidInputError, match=r"there is no column key; .*the rows have"):
        lakeidx.tag_hudi_table(table, [{"x": "k1", "y": "k2"}], column="key")
    with pytest.raises(lakeidx.InvalidInputError, match="which column holds the keys"):
        lakeidx.tag_hudi_table(table, [{"x": "k1", "y": "k2"}])
    with pytest.raises(lakeidx.InvalidInputError, match="guess"):
        lakeidx.tag_hudi_table(table, pa.array(["k1"]), bad_filter="guess")
