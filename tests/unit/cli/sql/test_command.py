"""``lakeidx sql``: statements of the command line and of a pipe, with the formats of scans."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from lakeidx.cli.main import app

MADE = "CREATE TABLE shop.orders (id INT, total INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '-1')"


@pytest.fixture
def lake(tmp_path: Path) -> str:
    assert run(MADE, f"{tmp_path}/lake").exit_code == 0
    assert run("INSERT INTO shop.orders VALUES (1, 10), (2, 20)", f"{tmp_path}/lake").exit_code == 0
    return f"{tmp_path}/lake"


def run(statement: str | None, lake: str, *more: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(
        app, ["sql", *([] if statement is None else [statement]), "--warehouse", lake, *more], input=stdin
    )


def test_rows_come_as_a_scan_s_do(lake: str, tmp_path: Path) -> None:
    query = "SELECT id, total * 2 AS twice FROM shop.orders ORDER BY id"
    wanted = [{"id": 1, "twice": 20}, {"id": 2, "twice": 40}]
    assert [json.loads(line) for line in run(query, lake).stdout.splitlines()] == wanted
    assert run(query, lake, "--format", "csv").stdout.replace('"', "") == "id,twice\n1,20\n2,40\n"
    assert "twice" in run(query, lake, "--format", "table").stdout
    assert run(query, lake, "-o", f"{tmp_path}/out.parquet").exit_code == 0
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == wanted


def test_a_verb_prints_what_it_has_changed(lake: str) -> None:
    done = json.loads(run("UPDATE shop.orders SET total = 0 WHERE id = 1", lake, "--json").stdout)
    assert (done["inserted"], done["updated"], done["deleted"]) == (0, 1, 0)
    assert len(done["snapshots"]) == 1


def test_a_verb_that_is_given_a_file_for_rows_is_not_run(lake: str, tmp_path: Path) -> None:
    for text in (
        "UPDATE shop.orders SET total = total + 1",
        "WITH x AS (SELECT 3 a) INSERT INTO shop.orders SELECT a, a FROM x",
    ):
        refused = run(text, lake, "-o", f"{tmp_path}/out.csv")
        assert (refused.exit_code, "has none" in refused.stderr) == (2, True)
    assert json.loads(run("SELECT sum(total) AS s FROM shop.orders", lake).stdout)["s"] == "30"


def test_a_pipe_brings_several_statements_and_stops_at_a_wrong_one(lake: str) -> None:
    text = "DELETE FROM shop.orders WHERE id = 1; SELECT id FROM shop.orders;\nSELECT nope FROM shop.orders; DROP TABLE shop.orders"
    found = run(None, lake, stdin=text)
    assert found.exit_code == 2
    assert json.loads(found.stdout.splitlines()[-1]) == {"id": 2}
    assert found.stderr.strip().startswith("lakeidx: line 2, column 8:")
    assert json.loads(run("SHOW TABLES", lake).stdout)["tableName"] == "orders"


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM shop.orders", "DELETE FROM shop.orders WHERE id + 0 > 0", "UPDATE shop.orders SET total = 1",
        "UPDATE shop.orders SET total = 1 WHERE id + 0 > 0",
        "MERGE INTO shop.orders t USING shop.orders s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ],
)  # fmt: skip
def test_a_verb_beyond_a_limit_asks_for_yes(lake: str, text: str) -> None:
    run("ALTER TABLE shop.orders SET TBLPROPERTIES ('lakeidx.limits' = 'deletes=5%,updates=5%')", lake)
    refused = run(text, lake)
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    rows = "SELECT id, total FROM shop.orders"
    assert run(rows, lake).stdout.count("\n") == 2
    assert run(text, lake, "--limit", "deletes=1%,updates=1%").exit_code == 2
    before = run(rows, lake).stdout
    assert run(text, lake, "--yes").exit_code == 0
    assert run(rows, lake).stdout != before


@pytest.mark.parametrize("text", ["SELECT 1; SELECT 2", "DELETE FROM shop.orders WHERE id = 9"])
def test_a_file_takes_the_rows_of_one_query(lake: str, tmp_path: Path, text: str) -> None:
    assert run(text, lake, "-o", f"{tmp_path}/out.csv").exit_code == 2
    assert not (tmp_path / "out.csv").exists()
