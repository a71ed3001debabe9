"""``lakeidx batch``, ``--limit`` and ``--yes``."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx import Table
from tests.kit.command_line import answer, call, lines


@pytest.fixture
def table(tmp_path: Path) -> Table:
    spec = {"fields": [{"name": "id", "type": "BIGINT"}, {"name": "v", "type": "STRING"}], "primaryKeys": ["id"]}
    made = Table.create(f"{tmp_path}/lake/a.db/t", {**spec, "options": {"bucket": "-1"}})
    made.upsert([{"id": n, "v": "a"} for n in range(100)])
    return made


def test_a_batch_beyond_a_limit_is_listed_shown_and_decided_about(table: Table, tmp_path: Path) -> None:
    for name in ("one", "two"):
        file = tmp_path / f"{name}.csv"
        file.write_text("\n".join(["id,v", *(f"{n},{name}" for n in range(60))]))
        said = call("upsert", table.uri, str(file), "--batch-id", name, "--limit", "updates=50%", code=1).output
        assert f"batch '{name}' of {table.uri} is held before its commit: 60 updates are 60.0% of the table's" in said
    listed = lines("batch", "list", table.uri, "--format", "jsonl")
    assert [(b["batch"], b["state"], b["updates"]) for b in listed] == [("one", "held", 60), ("two", "held", 60)]
    assert answer("batch", "show", table.uri, "one", "--json")["files"] == [str(tmp_path / "one.csv")]
    assert answer("batch", "release", table.uri, "one", "--json")["snapshots"] == [2]
    assert answer("batch", "discard", table.uri, "two", "--json") == {
        "batch": "two",
        "rows": 60,
        "dry_run": False,
    }
    assert lines("batch", "list", table.uri, "--format", "jsonl") == []
    assert "it was discarded" in call("batch", "release", table.uri, "two", code=2).output
    assert table.scan(where="v = 'one'").to_arrow().num_rows == 60


@pytest.mark.parametrize(
    "words",
    [("delete", "--where", "id < 10"), ("update", "--set", "v = 'b'", "--where", "id < 10")],
    ids=["delete", "update"],
)
@pytest.mark.parametrize("named", [(), ("--batch-id", "mine")], ids=["unnamed", "named"])
def test_a_verb_beyond_a_limit_asks_for_yes_and_leaves_nothing(
    table: Table, words: tuple[str, ...], named: tuple[str, ...]
) -> None:
    verb, *rest = words
    limits = ("--limit", "deletes=5%,updates=5%")
    said = call(verb, table.uri, *rest, *named, *limits, code=2).output
    assert "nothing was written: 10 " in said
    assert "Give --yes to do it all the same" in said
    assert not table.held_batches()
    assert not table.orphans(older_than="0 s").files
    call(verb, table.uri, *rest, *named, *limits, "--yes")
    assert len(table.snapshots()) == 2
    table.alter(set={"lakeidx.limits": "deletes=5%"})
    assert "Give --yes" in call("delete", table.uri, "--where", "id > 50", code=2).output
