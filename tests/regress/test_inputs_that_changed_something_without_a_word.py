"""A branch's directory opened as a table, level 0 hidden by an alteration, updates counted as inserts: all without a word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakeidx.api.table import Table
from lakeidx.cli.main import app
from lakeidx.errors import InvalidInputError


def make(folder: Path, **options: str) -> Table:
    fields = [{"name": "id", "type": "INT"}, {"name": "v", "type": "INT"}]
    given = {name.replace("_", "-"): value for name, value in options.items()}
    return Table.create(folder / "d.db" / "t", {"fields": fields, "primaryKeys": ["id"], "options": given})


@pytest.mark.parametrize("end", ["", "/"])
def test_a_branch_is_no_table(tmp_path: Path, end: str) -> None:
    table = make(tmp_path, bucket="1")
    schema = Path(table.uri, "branch", "branch-b", "schema")
    schema.mkdir(parents=True)
    (schema / "schema-0").write_bytes(Path(table.uri, "schema", "schema-0").read_bytes())
    with pytest.raises(InvalidInputError, match=f"directory of branch 'b', no table: open {table.uri}.branch_b"):
        Table.open(f"{table.uri}/branch/branch-b{end}")
    done = CliRunner().invoke(app, ["expire", f"{table.uri}/branch/branch-b{end}"])
    assert done.exit_code == 2
    assert "Traceback" not in done.output
    # A table of such a name in a folder that is none.
    fields = [{"name": "id", "type": "INT"}]
    named = Table.create(
        tmp_path / "branch" / "branch-b", {"fields": fields, "primaryKeys": ["id"], "options": {"bucket": "1"}}
    )
    assert Table.open(named.uri).schema.id == 0


def test_an_alteration_that_hides_rows_says_so(tmp_path: Path) -> None:
    table = make(tmp_path, bucket="1", **{"deletion-vectors.modifiable": "true"})
    on = {"deletion-vectors.enabled": "true"}
    assert table.alter(set=on, dry_run=True).hidden == 0
    table.upsert([{"id": 1, "v": 1}])
    done = CliRunner().invoke(app, ["table", "alter", table.uri, "--set", "deletion-vectors.enabled=true"])
    assert done.exit_code == 0, done.output
    assert "readers do not see the rows of 1 files any more" in done.output
    assert table.scan().to_arrow().num_rows == 0
    table.compact(full=True)
    assert table.scan().to_arrow().num_rows == 1
    assert table.alter(reset=list(on)).hidden == 0
    assert table.alter(set=on).hidden == 0


def test_nobody_counts_inserts_of_fixed_buckets(tmp_path: Path) -> None:
    table = make(tmp_path, bucket="2")
    for _ in range(2):
        counts = table.upsert([{"id": 1, "v": 1}, {"id": 2, "v": 2}]).as_dict()
        assert (counts["upserts"], counts["inserts"], counts["updates"]) == (2, 0, 0)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": 1, "v": 3}\n{"id": 2, "v": 2, "_kind": "-D"}\n')
    done = CliRunner().invoke(app, ["upsert", table.uri, str(rows), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["rows"], found["upserts"], found["deletes"], found["inserts"]) == (2, 1, 1, 0)
