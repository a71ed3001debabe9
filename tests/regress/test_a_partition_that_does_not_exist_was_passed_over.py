"""``--partition`` with a slip in it, for one that no data is in, did nothing and said that all was well."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakeidx.api.table import Table
from lakeidx.cli.main import app
from lakeidx.errors import NotFoundError
from lakeidx.jobs import compaction
from tests.kit.small_tables import make_table, upsert


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = make_table(tmp_path)
    upsert(made, [(1, 1, "a"), (10, 1, "a")])
    return Table.open(made.uri)


@pytest.mark.parametrize(
    "command", [["compact"], ["compact", "--dry-run"], ["lookup-store"], ["index", "rebuild"], ["index", "resize"]]
)
def test_commands_name_it_and_those_like_it(table: Table, command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, table.uri, "--partition", "p=1", "--partition", "p=11"])
    assert result.exit_code == 2
    assert "--partition 'p=11' does not exist; did you mean 'p=1' or 'p=10'?" in result.stderr


def test_methods_name_it(table: Table) -> None:
    for method in (table.compact, table.build_lookup_store, table.rebuild_index, table.resize_rings):
        with pytest.raises(NotFoundError, match="'p=11' does not exist"):
            method(partitions=["p=11"])


def test_a_job_passes_over_what_may_have_expired(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    given = [table.uri, "--engine", "local", "--full", "--partition", "p=1", "--partition", "p=11"]
    assert compaction.main(given) == 0
    assert json.loads(capsys.readouterr().out)["buckets"] == 1
