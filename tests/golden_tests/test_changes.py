"""Derived changelogs equal those that Java's changelog-producer ``lookup`` wrote for the same commits."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from lakeidx.api import Table
from lakeidx.table.scan.incremental import IncrementalMode
from tests.conftest import GOLDEN

pytestmark = pytest.mark.golden


def tables() -> list[Path]:
    schemas = sorted((GOLDEN / "tables").rglob("schema/schema-0"))
    options = {s.parent.parent: json.loads(s.read_text(encoding="utf-8"))["options"] for s in schemas}
    return [folder for folder, found in options.items() if found.get("changelog-producer") == "lookup"]


def changelog(table: Table, mode: IncrementalMode) -> Counter[str]:
    """Changes of a whole history. A record that was written again as it was counts for nothing (row-deduplicate)."""
    rows = table.changes(0, mode=mode).to_arrow().to_pylist()
    found = Counter(str(row) for row in rows)
    for row in rows:
        pair = [str({**row, "_rowkind": kind}) for kind in ("-U", "+U")]
        while found[pair[0]] > 0 and found[pair[1]] > 0:
            found.subtract(pair)
    return +found


@pytest.mark.parametrize("folder", tables(), ids=lambda p: p.parts[-3])
def test_a_derived_changelog_is_that_of_java(folder: Path) -> None:
    table = Table.open(str(folder))
    derived = changelog(table, IncrementalMode.DERIVED)
    assert derived == changelog(table, IncrementalMode.CHANGELOG)
    assert derived


def test_there_are_tables_to_compare() -> None:
    assert len(tables()) >= 1
