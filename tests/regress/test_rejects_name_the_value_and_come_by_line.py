"""The reason of a rejected row named column and type, not the value; broken lines came before earlier rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

import lakeidx


def test_reasons(tmp_path: Path) -> None:
    """Values are quoted and cut; the order is that of the file; kinds of reasons are counted as before."""
    table = lakeidx.Table.create(
        f"{tmp_path}/d.db/t",
        {
            "fields": [{"name": "id", "type": "INT"}, {"name": "n", "type": "INT"}],
            "primaryKeys": ["id"],
            "options": {"bucket": "1"},
        },
    )
    landing = tmp_path / "rows.csv"
    landing.write_text(f"id,n,_kind\n1,abc,+I\n2,7\n3,{'9' * 100},+I\n4,5,+X\n5,5,+I\n")
    result = table.upsert_files([str(landing)])
    assert result.ingest.rejected_path is not None
    found = [(r["line"], r["reason"]) for r in pq.read_table(result.ingest.rejected_path).to_pylist()]
    assert found == [
        (2, "cast: column n is not INT: 'abc'"),
        (3, "format: 2 columns instead of 3"),
        (4, f"cast: column n is not INT: '{'9' * 80}…'"),
        (5, "kind: the row kind is not one of +I -U +U -D: '+X'"),
    ]
    assert result.ingest.reject_reasons == {"cast": 2, "format": 1, "kind": 1}
