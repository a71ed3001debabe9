"""`verify` names rows of kinds that the merge engine does not take, which earlier releases landed, and what to set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeidx import Table
from tests.kit.small_tables import make_table, upsert

ENGINES = {
    "first-row": {"merge-engine": "first-row"},
    "partial-update": {"merge-engine": "partial-update"},
    "max": {"merge-engine": "aggregation", "fields.v.aggregate-function": "max"},
    "first_value": {"merge-engine": "aggregation", "fields.v.aggregate-function": "first_value"},
}


def with_options(uri: str, options: dict[str, str]) -> None:
    path = Path(uri) / "schema/schema-0"
    schema = json.loads(path.read_text(encoding="utf-8"))
    schema["options"] |= options
    path.write_text(json.dumps(schema), encoding="utf-8")


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("kind", ["-D", "-U"])
def test_the_file_and_the_option_are_named(tmp_path: Path, name: str, kind: str) -> None:
    table = make_table(tmp_path)
    upsert(table, [(1, 1, "a"), (1, 2, "b")])
    upsert(table, [(1, 1, "a")], [kind])
    with_options(table.uri, ENGINES[name])
    (found,) = [r for r in Table.open(table.uri).verify().findings if r.name == "files_readable"]
    assert "1 rows of kind -U or -D, which the table cannot merge" in str(found.sample[0]["fault"])
    assert "ignore-" in str(found.sample[0]["fault"])
    assert "/data-" in str(found.sample[0]["file"])
    # The way out that it names.
    with_options(table.uri, {"ignore-delete": "true"})
    assert [r for r in Table.open(table.uri).verify().findings if r.name == "files_readable"] == []
