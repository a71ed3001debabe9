"""Columns that only landing files of changes have: refused, added or widened, as the pipeline file says; once for all files."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.batch.upsert import finish_batch
from lakeidx.errors import InvalidInputError
from lakeidx.landing.new_columns import NewColumnsError
from lakeidx.maintenance.landed_columns import ingest_landing
from lakeidx.maintenance.wanted_schema import ensure_table
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.types import parse_type
from tests.kit.small_tables import table_fields


def pipeline(tmp_path: Path, policy: str) -> PipelineConfig:
    return PipelineConfig.model_validate(
        {
            "table": "d.t",
            "warehouse": str(tmp_path / "wh"),
            "landing": {
                "path": str(tmp_path),
                "pattern": "*.json",
                "format": "canal",
                "order": ["id"],
                "missing_columns": "null",
            },
            "fields": table_fields("k BIGINT, n INT, seq BIGINT"),
            "primaryKeys": ["k"],
            "options": {"bucket": -1, "sequence.field": "seq"},
            "merge_schema": policy,
        }
    )


def run(tmp_path: Path, config: PipelineConfig, batch: str, *messages: dict[str, Any]) -> Table:
    """Ingest one file per message."""
    files = []
    for number, message in enumerate(messages):
        files.append(tmp_path / f"{batch}-{number}.json")
        files[-1].write_text(json.dumps(message) + "\n", encoding="utf-8")
    table = ensure_table(config.uri, config.spec(), policy=config.schema_changes, landed=config.lands_columns)
    context = make_context(table.metadata, batch)
    ingest_landing(context, [str(f) for f in files], config.landing_options(), strict=True)
    finish_batch(context, lambda stage: None)
    return Table.open(config.uri)


def insert(order: int, types: dict[str, str] | None = None, **row: str | None) -> dict[str, Any]:
    return {
        "type": "INSERT",
        "id": order,
        "data": [row],
        "old": None,
        "mysqlType": types or {"k": "bigint", "n": "int"},
    }


FIRST = insert(1, k="1", n="5")
CITY = insert(2, {"k": "bigint", "n": "int", "city": "varchar(20)"}, k="2", n="6", city="Bern")
WIDE = insert(3, {"k": "bigint", "n": "bigint"}, k="3", n=str(2**40))


def test_new_columns_are_refused_by_default(tmp_path: Path) -> None:
    config = pipeline(tmp_path, "refuse")
    run(tmp_path, config, "a", FIRST)
    with pytest.raises(InvalidInputError, match="columns the table does not have: city STRING"):
        run(tmp_path, config, "b", CITY)


def test_added_and_kept_by_later_runs(tmp_path: Path) -> None:
    config = pipeline(tmp_path, "add")
    run(tmp_path, config, "a", FIRST)
    found = run(tmp_path, config, "b", CITY, insert(4, {"zip": "int"}, k="4", n=None, zip="3000"))
    assert [(f.name, str(f.type)) for f in found.schema.fields[3:]] == [("city", "STRING"), ("zip", "INT")]
    again = run(tmp_path, config, "c", insert(5, k="1", n="7"))
    assert again.schema.id == found.schema.id
    rows = again.scan(columns=["k", "n", "city", "zip"]).to_arrow().sort_by("k").to_pylist()
    assert [tuple(r.values()) for r in rows] == [(1, 7, None, None), (2, 6, "Bern", None), (4, None, None, 3000)]
    with pytest.raises(InvalidInputError, match=r"INT is not|n is not INT"):
        run(tmp_path, config, "d", WIDE)


def test_widened_and_kept_by_later_runs(tmp_path: Path) -> None:
    config = pipeline(tmp_path, "widen")
    run(tmp_path, config, "a", FIRST)
    found = run(tmp_path, config, "b", WIDE)
    assert str(found.schema.field("n").type) == "BIGINT"
    again = run(tmp_path, config, "c", insert(6, k="6", n="7"))
    assert {r["k"]: r["n"] for r in again.scan().to_arrow().to_pylist()} == {1: 5, 3: 2**40, 6: 7}


def test_the_error_crosses_processes() -> None:
    error = pickle.loads(pickle.dumps(NewColumnsError({"a": parse_type("INT")}, path="/f")))
    assert (error.columns, "a INT" in str(error)) == ({"a": parse_type("INT")}, True)
