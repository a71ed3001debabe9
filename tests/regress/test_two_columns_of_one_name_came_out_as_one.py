"""Columns of a query that have one name are all printed: the later ones have numbers."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

import lakeidx
from lakeidx.api.sql.query import QueryResult
from lakeidx.cli.main import app


def test_a_join_prints_both_keys(tmp_path: Path) -> None:
    spec = {"fields": [{"name": "id", "type": "INT"}], "primaryKeys": ["id"], "options": {"bucket": "1"}}
    warehouse = lakeidx.Warehouse(tmp_path)
    warehouse.create("d.t", spec).upsert([{"id": 1}])
    query = "SELECT a.id, b.id + 1 AS id FROM d.t a JOIN d.t b ON a.id = b.id"
    said = CliRunner().invoke(app, ["sql", query, "--warehouse", str(tmp_path)])
    assert said.exit_code == 0, said.output
    assert json.loads(said.stdout) == {"id": 1, "id_1": 2}
    rows = warehouse.sql(query)
    assert isinstance(rows, QueryResult)
    assert rows.to_arrow().to_pylist() == [{"id": 1, "id_1": 2}]
