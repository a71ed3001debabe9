"""Tags that are made to name another snapshot, and the files that tell of tags."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lakeidx
from lakeidx.errors import InvalidInputError
from tests.kit.small_tables import table_spec


@pytest.fixture
def table(tmp_path: Path) -> lakeidx.Table:
    spec = table_spec("k INT", ["k"], options={"bucket": "1", "tag.create-success-file": "true"})
    table = lakeidx.Table.create(tmp_path / "d.db" / "t", spec)
    for k in range(3):
        table.upsert([{"k": k}])
    return table


def success(table: lakeidx.Table) -> dict[str, dict[str, int]]:
    return {f.name: json.loads(f.read_text()) for f in Path(table.uri, "tag", "tag-success-file").glob("*")}


def keys(table: lakeidx.Table, tag: str) -> list[int]:
    return sorted(table.scan(tag=tag).to_arrow()["k"].to_pylist())


def test_a_tag_is_replaced_and_what_only_it_kept_goes(table: lakeidx.Table) -> None:
    table.create_tag("daily", snapshot=1)
    with pytest.raises(InvalidInputError, match="exists already"):
        table.create_tag("daily", snapshot=3)
    table.compact(full=True)
    table.expire(retain_min=1, retain_max=1, retain_time="1 ms")
    assert keys(table, "daily") == [0]
    table.create_tag("daily", replace=True)
    assert keys(table, "daily") == [0, 1, 2]
    assert [t["tag"] for t in table.tags()] == ["daily"]
    assert not table.orphans(older_than="0 s").files
    assert table.scan().to_arrow().num_rows == 3
    table.create_tag("new", replace=True)
    assert [t["tag"] for t in table.tags()] == ["daily", "new"]


def test_success_files_follow_their_tags(table: lakeidx.Table) -> None:
    table.create_tag("a", snapshot=1)
    (first,) = success(table).items()
    assert first[0] == "a_SUCCESS"
    assert set(first[1]) == {"creationTime", "modificationTime"}
    table.create_tag("a", snapshot=2, replace=True)
    assert success(table)["a_SUCCESS"]["creationTime"] == first[1]["creationTime"]
    table.rename_tag("a", "b")
    assert set(success(table)) == {"b_SUCCESS"}
    assert [t["tag"] for t in table.tags()] == ["b"]
    assert not table.orphans(older_than="0 s").files
    table.delete_tag("b")
    assert success(table) == {}
