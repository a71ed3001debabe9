"""A batch whose rows were all rejected succeeded, and emptied the table when it overwrote; partitions of none were all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lakeidx import Table
from lakeidx.cli.main import app
from lakeidx.errors import InvalidInputError, RejectedRowsError
from lakeidx.landing.reject_limit import RejectLimit
from tests.kit.small_tables import SPEC, content, rows


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.create(f"{tmp_path}/wh/d.db/t", SPEC)
    made.upsert(rows([(1, 1, "there")]))
    return made


def landing(folder: Path, good: int, bad: int) -> str:
    lines = [f"1,{k},new" for k in range(good)] + ["1,no number,x"] * bad
    path = folder / f"{good}-{bad}.csv"
    path.write_text("\n".join(["p,k,v", *lines]) + "\n")
    return str(path)


@pytest.mark.parametrize("arguments", [[], ["--overwrite", "table"], ["--overwrite", "partitions"], ["--strict"]])
def test_a_batch_without_a_good_row_fails(table: Table, tmp_path: Path, arguments: list[str]) -> None:
    outcome = CliRunner().invoke(app, ["upsert", table.uri, landing(tmp_path, 0, 3), "--no-progress", *arguments])
    assert outcome.exit_code == 1
    assert "3 rows rejected and " in outcome.output
    assert content(table) == {(1, 1): "there"}
    assert table.metadata.snapshot_ids() == [1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "good", "bad", "passes"),
    [("2", 8, 2, True), ("2", 8, 3, False), ("20%", 8, 2, True), ("20%", 7, 2, False), ("5,50%", 1, 2, False),
     ("5,50%", 7, 6, False), ("5,50%", 7, 5, True), ("0", 3, 0, True), ("0", 3, 1, False), (2, 8, 2, True), ("100%", 0, 1, False)],
)  # fmt: skip
def test_rejected_rows_have_a_limit(
    table: Table, tmp_path: Path, limit: str | int, good: int, bad: int, passes: bool
) -> None:
    file = landing(tmp_path, good, bad)
    if passes:
        assert table.upsert_files([file], max_rejected=limit).ingest.rows_rejected == bad
        return
    with pytest.raises(RejectedRowsError, match=f"{bad} rows rejected and (the batch may reject|no row is left)"):
        table.upsert_files([file], max_rejected=limit)
    assert table.metadata.snapshot_ids() == [1]
    outcome = CliRunner().invoke(app, ["upsert", table.uri, file, "--max-rejected", str(limit), "--no-progress"])
    assert outcome.exit_code == 1


@pytest.mark.parametrize("text", ["", "many", "-1", "101%", "5%%", "1,2,x", "nan%"])
def test_a_limit_that_cannot_be_read(text: str) -> None:
    with pytest.raises(InvalidInputError, match="write a number of rows, a share like 5%, or both like 100,5%"):
        RejectLimit.parse(text)


@pytest.mark.parametrize("arguments", [{}, {"batch_id": "b"}])
def test_partitions_of_a_table_without_any_are_not_overwritten(tmp_path: Path, arguments: dict[str, Any]) -> None:
    table = Table.create(f"{tmp_path}/wh/d.db/t", {**SPEC, "primaryKeys": ["k"], "partitionKeys": []})
    table.upsert(rows([(1, 1, "there"), (1, 2, "there")]))
    with pytest.raises(InvalidInputError, match="the table has no partition keys, so all of it would be replaced"):
        table.overwrite(rows([(1, 3, "new")]), **arguments)
    assert len(content(table)) == 2
    table.overwrite(rows([(1, 3, "new")]), whole_table=True, **arguments)
    assert content(table) == {(1, 3): "new"}
