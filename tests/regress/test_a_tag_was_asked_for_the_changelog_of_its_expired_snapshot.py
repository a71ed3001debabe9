"""The changelog of a snapshot goes when the snapshot expires, though a tag or a branch keeps the rest: upkeep must not ask for it.

Handles that have read it hide the fault, so each step opens the table anew, as another process does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx import Table
from lakeidx.errors import NotFoundError
from tests.kit.shared_table.foreign import make_branch
from tests.kit.small_tables import SPEC, content, rows

FIXED = {"bucket": "1"}
LONG_LIVED = {"changelog.num-retained.max": "20", "changelog.num-retained.min": "10", "changelog.time-retained": "1 d"}
CASES: list[Mapping[str, str]] = [
    {"changelog-producer": "input"},
    {"changelog-producer": "lookup", **FIXED},
    {"changelog-producer": "full-compaction", **FIXED},
    {"changelog-producer": "input", **LONG_LIVED},
    {"changelog-producer": "none", **FIXED, **LONG_LIVED},
]


def tagged(folder: Path, options: Mapping[str, str]) -> str:
    """Make a table whose tag v1 outlives its snapshot; return its path."""
    path = f"{folder}/wh/d.db/t"
    table = Table.create(path, {**SPEC, "options": {**SPEC["options"], "write-only": "true", **options}})
    table.upsert(rows([(1, 1, "a"), (2, 1, "b")]))
    table.compact(full=True)
    for i, snapshot in enumerate(table.metadata.snapshot_ids()):
        table.create_tag(f"v{i}", snapshot=snapshot)
    table.upsert(rows([(1, 1, "c"), (1, 2, "d")]))
    table.compact()
    newest = table.metadata.latest_snapshot_id()
    Table.open(path).expire(retain_min=1, retain_max=1, retain_time="1 ms")
    assert Table.open(path).metadata.snapshot_ids() == [newest]
    return path


def told(path: str, after: int | None) -> list[dict[str, Any]]:
    """Read all changes there are after a snapshot; None: all, those of expired snapshots where they outlive them."""
    table = Table.open(path)
    first = table.metadata.earliest_commit_id()
    assert first is not None
    changes: pa.Table = table.scan(incremental=(first - 1 if after is None else after, None), kinds=True).to_arrow()
    return list(changes.sort_by("k").to_pylist())


def keep_up(path: str, after: int | None = None, **named: Any) -> None:
    """Do what keeps a table up, each in a process of its own; nothing that a state needs may go."""
    before = told(path, after), content(Table.open(path)), content(Table.open(path), **named)
    assert Table.open(path).orphans(older_than="0 s").files == ()
    Table.open(path).build_lookup_store()
    Table.open(path).expire()
    assert Table.open(path).orphans(older_than="0 s", remove=True).files == ()
    assert Table.open(path).verify().findings == ()
    assert (told(path, after), content(Table.open(path)), content(Table.open(path), **named)) == before


@pytest.mark.parametrize("options", CASES, ids=lambda o: ",".join(o.values()))
def test_upkeep_goes_on_beside_the_tag(tmp_path: Path, options: Mapping[str, str]) -> None:
    path = tagged(tmp_path, options)
    keep_up(path, tag="v1")
    Table.open(path).delete_tag("v0")
    keep_up(path, tag="v1")
    make_branch(Path(path), "b", "v1")
    keep_up(path, tag="v1")


@pytest.mark.parametrize("options", CASES, ids=lambda o: ",".join(o.values()))
@pytest.mark.parametrize("by_java", [False, True])
def test_upkeep_goes_on_when_the_tag_came_back(tmp_path: Path, options: Mapping[str, str], by_java: bool) -> None:
    path = tagged(tmp_path, options)
    Table.open(path).rollback(tag="v1")
    back = Table.open(path).metadata.latest_snapshot_id() if by_java else None
    if by_java:
        # Java writes the snapshot of the tag as it was, with the names of the changelog that is gone.
        tag = json.loads((Path(path) / "tag/tag-v1").read_text(encoding="utf-8"))
        (Path(path) / f"snapshot/snapshot-{tag['id']}").write_text(json.dumps(tag), encoding="utf-8")
    keep_up(path, back, tag="v1")
    Table.open(path).delete_tag("v1")
    Table.open(path).upsert(rows([(1, 3, "e")]))
    Table.open(path).compact()
    keep_up(path, back)


def test_a_changelog_that_a_later_snapshot_lost_is_a_fault(tmp_path: Path) -> None:
    path = f"{tmp_path}/wh/d.db/t"
    table = Table.create(path, {**SPEC, "options": {**SPEC["options"], "changelog-producer": "input"}})
    for value in "ab":
        table.upsert(rows([(1, 1, value)]))
    lost = table.metadata.load_snapshot(2).changelog_manifest_list
    (Path(path) / "manifest" / str(lost)).unlink()
    with pytest.raises(NotFoundError, match="snapshot-2 refers to a file that does not exist"):
        Table.open(path).orphans()
