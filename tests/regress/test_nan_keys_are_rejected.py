"""A NaN in a key column went in, and merges (Java's, too) lost or doubled such keys."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import zstandard
from typer.testing import CliRunner

import lakeidx
from lakeidx.cli.main import app
from lakeidx.errors import InvalidInputError

_NAN = float("nan")


def _table(folder: Path, root: str = "DOUBLE", **more: object) -> lakeidx.Table:
    fields = [{"name": "k", "type": root}, {"name": "v", "type": "DOUBLE"}, {"name": "id", "type": "INT"}]
    spec = {"fields": fields, "primaryKeys": ["k", "id"], "options": {"bucket": "1"}, **more}
    return lakeidx.Table.create(f"{folder}/d.db/t", spec)


@pytest.mark.slow
@pytest.mark.parametrize("root", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("form", ["csv", "jsonl", "csv.gz", "jsonl.zst", "parquet", "arrow"])
def test_rows_with_a_nan_key_are_rejected_with_the_reason(tmp_path: Path, root: str, form: str) -> None:
    """NaN stays possible in columns that are no keys; a Parquet file is looked at although its types fit."""
    table = _table(tmp_path, root)
    landing = tmp_path / f"rows.{form}"
    if form in ("parquet", "arrow"):
        arrow = pa.float32() if root == "FLOAT" else pa.float64()
        columns = {"k": pa.array([_NAN, 1.5], arrow), "v": [1.0, _NAN], "id": pa.array([1, 2], pa.int32())}
        schema = pa.schema(
            [pa.field("k", arrow, False), pa.field("v", pa.float64()), pa.field("id", pa.int32(), False)]
        )
        rows = pa.table(columns, schema=schema)
        if form == "parquet":
            pq.write_table(rows, landing)
        else:
            feather.write_feather(rows, str(landing))
    else:
        csv, jsonl = "k,v,id\nNaN,1.0,1\n1.5,nan,2\n", '{"k":"NaN","v":1.0,"id":1}\n{"k":1.5,"v":"NaN","id":2}\n'
        text = (csv if form.startswith("csv") else jsonl).encode()
        pack = {"gz": gzip.compress, "zst": zstandard.ZstdCompressor().compress}
        landing.write_bytes(pack.get(form.rpartition(".")[2], bytes)(text))
    result = table.upsert_files([str(landing)])
    assert (result.ingest.rows_in, result.ingest.rows_rejected) == (2, 1)
    assert result.ingest.reject_reasons == {"key": 1}
    assert result.ingest.rejected_path is not None
    rejected = pq.read_table(result.ingest.rejected_path).to_pylist()
    assert [r["reason"] for r in rejected] == ["key: column k is NaN, which no key column may be"]
    assert table.scan(columns=["id"]).to_arrow().column("id").to_pylist() == [2]


def test_rows_in_memory_and_partition_columns(tmp_path: Path) -> None:
    """The whole upsert is refused, as for any other bad row in memory."""
    table = _table(tmp_path, partitionKeys=["k"])
    with pytest.raises(InvalidInputError, match="row 2: key: column k is NaN"):
        table.upsert(pa.table({"k": [1.0, _NAN], "v": [0.0, 0.0], "id": [1, 2]}))
    assert table.snapshot is None


def test_deletes_and_lookups_find_no_such_row(tmp_path: Path) -> None:
    """A question is no row: it has an answer."""
    table = _table(tmp_path)
    table.upsert(pa.table({"k": [1.0, -0.0], "v": [0.0, 0.0], "id": [1, 1]}))
    asked = pa.table({"k": [_NAN, 1.0], "id": [1, 1]})
    assert table.lookup(asked).column("_FOUND").to_pylist() == [False, True]
    assert table.delete(asked.slice(0, 1)) is None
    table.compact(full=True)
    table.build_lookup_store()
    assert lakeidx.Table.open(table.uri).lookup(asked).column("_FOUND").to_pylist() == [False, True]
    assert table.scan(where="k > 100").to_arrow().num_rows == 0


def test_a_delete_of_such_a_row_is_refused(tmp_path: Path) -> None:
    """Rows with row kinds come by the same way."""
    table = _table(tmp_path)
    with pytest.raises(InvalidInputError, match="column k is NaN"):
        table.upsert(pa.table({"k": [_NAN], "v": [0.0], "id": [1], "_kind": ["-D"]}))
    landing = tmp_path / "rows.csv"
    landing.write_text("k,v,id,_kind\nNaN,1.0,1,-D\n")
    result = CliRunner().invoke(app, ["upsert", table.uri, str(landing)])
    assert result.exit_code == 1
    assert "column k is NaN, which no key column may be" in result.output
    assert "Traceback" not in result.output
    assert table.snapshot is None


def test_spark_writes_none(tmp_path: Path) -> None:
    """What a task of a data frame stages."""
    from lakeidx.spark.read_options import ReadOptions
    from lakeidx.spark.table_writer import TableWriter

    table = _table(tmp_path)
    batch = pa.RecordBatch.from_pydict({"k": [1.0, _NAN], "v": [0.0, 0.0], "id": pa.array([1, 2], pa.int32())})
    writer = TableWriter(ReadOptions.parse({"path": table.uri}), batch.schema, overwrite=False)
    with pytest.raises(InvalidInputError, match="row 2 of task 0: key: column k is NaN"):
        writer.write(iter([batch]))
