"""Lookup files that Java's writer has put beside its data files answer point lookups."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx import Table
from lakeidx.errors import CorruptFileError
from lakeidx.lookup.point.table_lookup import TableLookup
from lakeidx.table.view import load_view
from tests.conftest import GOLDEN

pytestmark = pytest.mark.golden
CASE = GOLDEN / "tables/remote-lookup-file"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    shutil.copytree(CASE / "table", tmp_path / "g.db/t")
    return Table.open(f"{tmp_path}/g.db/t")


def keys_of(table: Table) -> pa.Table:
    rows = table.scan().to_arrow().select(["id", "n"])
    # Half of the keys are not there.
    absent = pa.table({"id": [f"no {i}" for i in range(rows.num_rows)], "n": rows["n"]}, schema=rows.schema)
    return pa.concat_tables([rows, absent])


def test_lookups_ask_them(table: Table) -> None:
    (newest,) = (s for s in json.loads((CASE / "case.json").read_text())["snapshots"] if s["id"] == 6)
    keys = keys_of(table)
    assert keys.num_rows == 2 * newest["rows"]
    with_files, without = TableLookup(table.metadata), TableLookup(table.metadata, use_files=False)
    found, plain = with_files.lookup(keys), without.lookup(keys)
    assert found.found.tolist() == [True] * newest["rows"] + [False] * newest["rows"]
    assert found.rows.equals(plain.rows)
    live = load_view(table.metadata, table.snapshot).entries
    beside = [n for e in live for n in e.file.extra_files if n.endswith(".lookup")]
    assert beside
    assert (with_files.metrics.lookup_files, without.metrics.lookup_files) == (len(beside), 0)


def test_a_lookup_file_that_is_gone_and_one_that_is_damaged(table: Table) -> None:
    keys = keys_of(table)
    expected = TableLookup(table.metadata, use_files=False).lookup(keys).rows
    for path in Path(table.uri).glob("bucket-0/*.lookup"):
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(CorruptFileError, match=r"\.value\.v1\.lookup"):
        TableLookup(table.metadata).lookup(keys)
    for path in Path(table.uri).glob("bucket-0/*.lookup"):
        path.unlink()
    assert TableLookup(table.metadata).lookup(keys).rows.equals(expected)


def test_rows_of_an_older_schema_are_not_taken_for_rows_of_the_newest(table: Table) -> None:
    table.alter(add={"more": "INT"})
    changed = Table.open(table.uri)
    lookup = TableLookup(changed.metadata)
    keys = keys_of(changed)
    found = lookup.lookup(keys)
    assert lookup.metrics.lookup_files == 0
    assert found.rows.equals(TableLookup(changed.metadata, use_files=False).lookup(keys).rows)
