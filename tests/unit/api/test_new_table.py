"""`Table.advise_files`, and advice as it reads in a shell and a notebook."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeidx
from lakeidx.key_index.registry import index_types


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Two files of 100 keys each, 50 of the second one in the first."""
    for name, start in (("monday", 0), ("tuesday", 50)):
        rows = {"id": list(range(start, start + 100)), "day": ["a"] * 100}
        pq.write_table(pa.table(rows), tmp_path / f"{name}.parquet")
    return [f"{tmp_path}/monday.parquet", f"{tmp_path}/tuesday.parquet"]


def test_the_last_file_stands_for_a_batch(files: list[str]) -> None:
    found = lakeidx.Table.advise_files(files, key=["id"], needs=lakeidx.Needs(stateless=True))
    assert found.measures.rows == 100
    assert found.measures.update_share == pytest.approx(0.5)
    assert found.index_type != "state"
    assert found.options["index.type"] == found.index_type == found.as_dict()["index.type"]
    same = lakeidx.Table.advise_files(
        files[:1], keys=files[1:], key=["id"], partition_by=["day"], machine=lakeidx.Machine(latency_ms=30.0)
    )
    assert same.measures.update_share == pytest.approx(0.5)
    seconds = {p.index_type: p.seconds for p in found.predictions}
    assert all(p.seconds >= seconds[p.index_type] for p in same.predictions)


def test_advice_reads_as_the_command_prints_it(files: list[str]) -> None:
    found = lakeidx.Table.advise_files(files, key=["id"])
    for text in (repr(found), str(found), found._repr_html_()):
        assert "100 rows in 1 files of 1 partitions" in text
        assert f"recommended: index.type = {found.index_type}" in text
        assert all(kind in text for kind in (t.name for t in index_types()))
    assert "<table>" in found._repr_html_()


def test_what_is_missing_is_named(files: list[str]) -> None:
    for arguments, says in (
        (([], ["id"]), "landing files"),
        ((files, []), "parquet has id, day"),
        ((files[:1], ["id"]), "at least two files"),
        ((files, ["idd"]), "did you mean"),
    ):
        with pytest.raises(lakeidx.InvalidInputError, match=says):
            lakeidx.Table.advise_files(arguments[0], key=arguments[1])
