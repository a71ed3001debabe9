"""Rows that come as a stream are staged as they come: they need not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeidx
from lakeidx.api import Table, arrow_input, verbs
from lakeidx.api.expressions import assigned
from lakeidx.batch import parts
from lakeidx.errors import InvalidInputError, NotFoundError

SPEC = {"fields": [{"name": "k", "type": "INT"}, {"name": "v", "type": "INT"}], "primaryKeys": ["k"],
        "options": {"bucket": "2"}}  # fmt: skip


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> lakeidx.Warehouse:
    monkeypatch.setattr(arrow_input, "_MOST_BYTES", 0)
    monkeypatch.setattr(parts, "PART_ROWS", 10)
    made = lakeidx.Warehouse(tmp_path)
    made.create("d.t", SPEC)
    return made


def stream(folder: Path, staged: list[int], last: int | None = 0) -> pa.RecordBatchReader:
    schema = pa.schema([("k", pa.int32()), ("v", pa.int32())])

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, 50, 10):
            staged.append(len(list(folder.rglob("part-*.parquet"))))
            keys = [*range(first, first + 9), last if first == 40 else first + 9]
            yield pa.record_batch([pa.array(keys, pa.int32()), pa.array(keys, pa.int32())], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def test_a_stream_is_staged_as_it_comes(warehouse: lakeidx.Warehouse, tmp_path: Path) -> None:
    staged = list[int]()
    result = warehouse.table("d.t").upsert(stream(tmp_path, staged))
    assert staged == [0, 1, 2, 3, 4]
    assert result.rows == 50
    assert sorted(warehouse.table("d.t").scan().to_arrow().column("k").to_pylist()) == list(range(49))


def test_a_bad_row_of_a_stream_is_named(warehouse: lakeidx.Warehouse, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="row 50: "):
        warehouse.table("d.t").upsert(stream(tmp_path, [], None))
    assert warehouse.table("d.t").snapshot is None


def test_a_query_is_inserted_as_it_is_computed(warehouse: lakeidx.Warehouse) -> None:
    warehouse.sql("INSERT INTO d.t SELECT id, id * 2 FROM source", sources={"source": pa.table({"id": range(100)})})
    assert str(warehouse.sql("INSERT OVERWRITE d.t SELECT k, v + 1 FROM d.t WHERE k < 60")) == (
        "0 inserted, 0 updated, 0 deleted, 60 upserted"
    )
    done = warehouse.sql("CREATE TABLE d.copy TBLPROPERTIES ('primary-key' = 'k') AS SELECT * FROM d.t")
    assert str(done) == "60 inserted, 0 updated, 0 deleted"
    table = Table.open(warehouse.path("d.copy")).scan().to_arrow()
    assert sorted(table.column("v").to_pylist()) == [2 * k + 1 for k in range(60)]


def test_an_update_is_staged_as_its_rows_are_read(
    warehouse: lakeidx.Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = warehouse.table("d.t")
    table.upsert(pa.table({"k": range(100), "v": range(100)}))
    compute, staged = assigned, list[int]()

    def counted(*args: Any) -> Any:
        staged.append(len(list(tmp_path.rglob("part-*.parquet"))))
        return compute(*args)

    monkeypatch.setattr(verbs, "assigned", counted)
    assert str(warehouse.sql("UPDATE d.t SET v = v + 1 WHERE k < 80")) == "0 inserted, 80 updated, 0 deleted"
    assert staged[-1] > staged[0]
    wanted = [k + 1 if k < 80 else k for k in range(100)]
    assert table.scan().to_arrow().sort_by("k").column("v").to_pylist() == wanted
    # A window sees all rows, not those of a piece.
    table.update({"v": "count(*) OVER ()"}, where="k < 80")
    assert set(table.scan(where="k < 80").to_arrow().column("v").to_pylist()) == {80}


def test_an_update_whose_files_expire_while_it_reads_is_run_again(
    warehouse: lakeidx.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, compute = warehouse.table("d.t"), assigned
    table.upsert(pa.table({"k": range(100), "v": range(100)}))
    expired = list[int]()

    def meanwhile(*args: Any) -> Any:
        if args[-1] and not expired:
            expired.append(1)
            other = lakeidx.Table.open(table.uri)
            other.compact(full=True)
            other.upsert(pa.table({"k": [0], "v": [1000]}))
            raise NotFoundError("a file is gone", path=table.uri)
        return compute(*args)

    monkeypatch.setattr(verbs, "assigned", meanwhile)
    table.update({"v": "v + 1"}, where="k < 2")
    assert expired
    assert table.scan(where="k < 2").to_arrow().sort_by("k").column("v").to_pylist() == [1001, 2]
