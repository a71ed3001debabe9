"""A NaN in a key column went in, and merges (Java's, too) lost or doubled such keys."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeidx
from lakeidx.errors import InvalidInputError

_NAN = float("nan")


def _table(folder: Path, root: str = "DOUBLE", **more: object) -> lakeidx.Table:
    fields = [{"name": "k", "type": root}, {"name": "v", "type": "DOUBLE"}, {"name": "id", "type": "INT"}]
    spec = {"fields": fields, "primaryKeys": ["k", "id"], "options": {"bucket": "1"}, **more}
    return lakeidx.Table.create(f"{folder}/d.db/t", spec)


@pytest.mark.parametrize("root", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_rows_with_a_nan_key_are_rejected_with_the_reason(tmp_path: Path, root: str, form: str) -> None:
    """NaN stays possible in columns that are no keys; a Parquet file is looked at although its types fit."""
    table = _table(tmp_path, root)
    landing = tmp_path / f"rows.{form}"
    if form == "parquet":
        arrow = pa.float32() if root == "FLOAT" else pa.float64()
        columns = {"k": pa.array([_NAN, 1.5], arrow), "v": [1.0, _NAN], "id": pa.array([1, 2], pa.int32())}
        schema = pa.schema(
            [pa.field("k", arrow, False), pa.field("v", pa.float64()), pa.field("id", pa.int32(), False)]
        )
        pq.write_table(pa.table(columns, schema=schema), landing)
    elif form == "csv":
        landing.write_text("k,v,id\nNaN,1.0,1\n1.5,nan,2\n")
    else:
        landing.write_text('{"k":"NaN","v":1.0,"id":1}\n{"k":1.5,"v":"NaN","id":2}\n')
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
