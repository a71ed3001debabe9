"""Expiry of tables that the released Java wrote: what it left after its own expiry, and ours over all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.errors import NotFoundError
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.table.expiration.tags import delete_tag
from lakeidx.table.history import load_tag, tag_names
from lakeidx.table.view import load_view
from tests.kit.golden_tables import TABLES, GoldenTable
from tests.kit.reachable import files_on_disk, reachable, reopened

pytestmark = pytest.mark.golden

FAR_AHEAD_MS = 1 << 60
NEWEST_ONLY = Retention(num_min=1, num_max=1, limit=1000)


EXPIRED = [t for t in TABLES if any(s["op"] == "expire" for s in t.info["steps"])]


def test_there_are_cases() -> None:
    assert EXPIRED
    assert len(TABLES) > len(EXPIRED)


@pytest.mark.parametrize("case", EXPIRED, ids=lambda c: c.name)
def test_java_left_what_is_reachable(case: GoldenTable, tmp_path: Path) -> None:
    """So the test's idea of reachable is Java's."""
    table = case.copy_to(tmp_path)
    assert files_on_disk(table) == reachable(table)


@pytest.mark.parametrize("case", TABLES, ids=lambda c: c.name)
def test_expiry_to_the_newest_snapshot_and_the_tags(case: GoldenTable, tmp_path: Path) -> None:
    table = case.copy_to(tmp_path)
    newest = table.snapshot
    assert newest is not None
    left_over = files_on_disk(table) - reachable(table)
    live = {e.file.file_name for e in load_view(table.metadata, newest).entries}
    tagged = {n: load_tag(table.metadata, n) for n in tag_names(table.metadata)}
    tag_files = {n: {e.file.file_name for e in load_view(table.metadata, s).entries} for n, s in tagged.items()}
    had_changelog = any(s.changelog_manifest_list for s in table.metadata.snapshots() if s.id != newest.id)
    report = expire_table(table.metadata, table.schema, now_ms=FAR_AHEAD_MS, retention=NEWEST_ONLY)
    table = reopened(table)
    assert table.metadata.snapshot_ids() == [newest.id]
    assert report.notes == ()
    assert ("changelog" in report.count_by_role) == had_changelog
    assert files_on_disk(table) - left_over == reachable(table)
    assert {e.file.file_name for e in load_view(table.metadata, newest).entries} == live
    for name, files in tag_files.items():
        assert {e.file.file_name for e in load_view(table.metadata, load_tag(table.metadata, name)).entries} == files
    for name in tagged:
        delete_tag(table.metadata, table.schema, name)
        assert files_on_disk(table) - left_over == reachable(table)
    if tagged:
        with pytest.raises(NotFoundError):
            load_tag(table.metadata, next(iter(tagged)))
