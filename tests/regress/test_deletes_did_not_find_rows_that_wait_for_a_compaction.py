"""With deletion vectors, readers see level 0 after a compaction; deletes looked only among what they see, and found nothing.

Each verb that reads before it writes takes all that is committed. The model is a dictionary, compared after a full compaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from lakeidx.api.table import Table
from lakeidx.cli.main import app
from lakeidx.errors import InvalidInputError
from lakeidx.landing.read import LandingOptions

OPTIONS: list[Any] = [
    pytest.param({"bucket": "2"}, id="fixed"),
    pytest.param({"bucket": "-1"}, id="dynamic"),
    pytest.param({"bucket": "2", "deletion-vectors.merge-on-read": "true"}, id="merge on read"),
    pytest.param({"bucket": "-1", "changelog-producer": "lookup"}, id="changelog"),
]
Model = dict[int, int | None]


def make(folder: Path, options: dict[str, str]) -> Table:
    spec = {
        "fields": [{"name": "id", "type": "INT"}, {"name": "v", "type": "INT"}],
        "primaryKeys": ["id"],
        "options": {"deletion-vectors.enabled": "true", **options},
    }
    return Table.create(folder / "d.db" / "t", spec)


def upsert(table: Table, model: Model, rows: Mapping[int, int | None]) -> None:
    table.upsert([{"id": i, "v": v} for i, v in rows.items()])
    model |= rows


def compacted(table: Table) -> Model:
    table.compact(full=True)
    return {r["id"]: r["v"] for r in Table.open(table.uri).scan().to_arrow().to_pylist()}


def keys(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32())})


def deleted(table: Table, **what: Any) -> int:
    result = table.delete(**what)
    assert result is not None
    return result.deletes


@pytest.mark.parametrize("options", OPTIONS)
def test_deletes_of_rows_in_level_0(tmp_path: Path, options: dict[str, str]) -> None:
    table = make(tmp_path, options)
    model: Model = {}
    upsert(table, model, {i: i for i in range(12)})
    assert deleted(table, keys=keys(0, 1, 99), dry_run=True) == 2
    assert deleted(table, keys=keys(0, 1, 99)) == 2
    assert deleted(table, where="v IN (2, 3)", dry_run=True) == 2
    assert deleted(table, where="v IN (2, 3)") == 2
    assert table.delete(keys(0), dry_run=True) is None
    assert compacted(table) == {i: i for i in range(4, 12)}
    # What is there counts, not what readers still see: 4 has another value, 5 and 6 are gone or back.
    model = {i: i for i in range(4, 12)}
    upsert(table, model, {4: 400, 5: 500, 12: 12})
    assert deleted(table, keys=keys(6, 7)) == 2
    upsert(table, model, {6: 600})
    assert table.delete(where="v = 4") is None
    assert table.delete(where="v = 7 OR v = 6") is None
    assert deleted(table, where="v >= 500") == 2
    for gone in (7, 5, 6):
        del model[gone]
    assert compacted(table) == model


def test_by_the_command(tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "1"})
    table.upsert([{"id": i, "v": i} for i in range(4)])
    rows = tmp_path / "keys.jsonl"
    rows.write_text('{"id": 0}\n')
    for arguments in (["--keys", str(rows)], ["--where", "v = 1"]):
        done = CliRunner().invoke(app, ["delete", table.uri, *arguments, "--json"])
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["rows"] == 1
    assert compacted(table) == {2: 2, 3: 3}


def test_rows_are_completed_from_what_is_committed(tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "1"})
    table.alter(add={"b": "STRING"})
    table.upsert([{"id": 1, "v": 1, "b": "KEEP"}])
    landed = tmp_path / "rows.jsonl"
    landed.write_text('{"id": 1, "v": 2}\n')
    table.upsert_files([landed], LandingOptions(missing="table"))
    table.compact(full=True)
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "v": 2, "b": "KEEP"}]


def test_a_column_with_nulls_in_level_0_does_not_become_required(tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "1"})
    table.upsert([{"id": 1, "v": None}])
    with pytest.raises(InvalidInputError, match="cannot become NOT NULL"):
        table.alter(nullable={"v": False})


@pytest.mark.parametrize("options", OPTIONS[:2])
def test_a_stream_begins_with_the_rows_that_a_condition_holds_for_now(tmp_path: Path, options: dict[str, str]) -> None:
    """What is newer was left out by its statistics, and the row before it came back."""
    table = make(tmp_path, options)
    table.upsert([{"id": i, "v": 1} for i in range(4)])
    table.compact(full=True)
    table.upsert([{"id": i, "v": 2} for i in range(4)])
    (step,) = table.follow(where="v = 1", mode="delta")
    assert step.changes.to_arrow().num_rows == 0
