"""Rows with an operation, whose order is in a column of the same name as the table's sequence field."""

from __future__ import annotations

from pathlib import Path

import lakeidx
from lakeidx.landing.types import LandingOptions


def test_the_order_has_the_name_of_the_sequence_field(tmp_path: Path) -> None:
    fields = [{"name": "id", "type": "INT"}, {"name": "v", "type": "INT"}, {"name": "seq", "type": "BIGINT"}]
    options = {"bucket": "1", "sequence.field": "seq"}
    table = lakeidx.Table.create(f"{tmp_path}/d.db/t", {"fields": fields, "primaryKeys": ["id"], "options": options})
    file = tmp_path / "changes.csv"
    file.write_text("op,id,v,seq\nI,1,10,5\nU,1,20,4\nI,2,30,1\n")
    table.upsert_files([str(file)], LandingOptions(op_column="op", order=("seq",)))
    assert sorted(tuple(r.values()) for r in table.scan().to_arrow().to_pylist()) == [(1, 10, 5), (2, 30, 1)]
