"""Options of Spark reads that name two states."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.spark.read_options import ReadOptions
from lakeidx.table.scan.incremental import IncrementalMode
from lakeidx.table.scan.layout import Layout


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    spec = {"fields": [{"name": "k", "type": "INT"}], "primaryKeys": ["k"], "options": {"bucket": "1"}}
    made = Table.create(f"{tmp_path_factory.mktemp('options')}/d.db/t", spec)
    for k in range(3):
        made.upsert(pa.table({"k": [k]}))
    made.create_tag("a", snapshot=1)
    made.create_tag("b", snapshot=3)
    return made


def between(table: Table, **options: str) -> tuple[int, int, IncrementalMode]:
    named = {"path": table.uri, **{f"incremental-between{k.replace('_', '-')}": v for k, v in options.items()}}
    found = ReadOptions.parse(named).between_states(table.metadata)
    assert found is not None
    (after, upto), mode = found
    return after.number, upto.number, mode


def test_the_ends_of_a_range(table: Table) -> None:
    auto, diff = IncrementalMode.AUTO, IncrementalMode.DIFF
    assert between(table, **{"": "1,3"}) == (1, 3, auto)
    assert between(table, **{"": "0, b"}) == (0, 3, auto)
    assert between(table, **{"": "a,b"}) == between(table, _tag="a,b") == (1, 3, diff)
    assert between(table, _tag="a,b", _tag_to_snapshot="true") == (1, 3, auto)
    assert between(table, **{"": "1,3"}, _scan_mode="diff") == (1, 3, diff)
    times = [table.metadata.load_snapshot(i).time_millis for i in (1, 3)]
    assert between(table, _timestamp=f"{times[0]},{times[1]}") == (1, 3, auto)
    assert between(table, _timestamp="1999-01-01,2199-01-01T00:00:00Z") == (0, 3, auto)
    assert ReadOptions.parse({"path": table.uri}).between_states(table.metadata) is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"_tag": "a,x"}, "incremental-between-tag: no tag 'x'; tags: a, b"),
        ({"": "1,x"}, "'x' is not a tag of the table"),
        ({"_timestamp": "1,yesterday"}, "'yesterday' is not a time"),
        ({"": "1,3", "_tag": "a,b"}, "give one of incremental-between"),
        ({"": "1,branch:none"}, "branch 'none' does not exist"),
    ],
)
def test_ends_that_are_not_there(table: Table, options: dict[str, str], says: str) -> None:
    with pytest.raises((InvalidInputError, NotFoundError), match=says):
        between(table, **options)


def test_branches_are_not_read(table: Table) -> None:
    for name in ("schema/schema-0", "snapshot/snapshot-1"):
        file = Path(table.uri) / "branch" / "branch-dev" / name
        file.parent.mkdir(parents=True)
        file.write_bytes((Path(table.uri) / name).read_bytes())
    with pytest.raises(InvalidInputError, match="Spark reads one branch"):
        between(table, **{"": "1,branch:dev"})


def test_paths_and_options_choose_the_layout() -> None:
    assert ReadOptions.parse({"path": "/t"}).layout is Layout.PLAIN
    assert ReadOptions.parse({"path": "/t", "read.changelog": "true"}).layout is Layout.KINDS
    audit = ReadOptions.parse({"path": "/t$audit_log"})
    assert (audit.path, audit.layout) == ("/t", Layout.AUDIT_LOG)
    with pytest.raises(InvalidInputError, match="no system table 'snapshot'"):
        ReadOptions.parse({"path": "/t$snapshot"})


@pytest.mark.parametrize("option", ["branch", "hoodie.datasource.query.type", "snapshot-id", "timestamp"])
def test_a_write_takes_no_option_of_other_sources_for_one_of_a_new_table(option: str) -> None:
    for writes in (False, True):
        with pytest.raises(InvalidInputError, match="does not have this option; write"):
            ReadOptions.parse({"path": "/t", option: "x"}, writes=writes)


def test_a_write_names_the_keys_and_options_of_a_new_table() -> None:
    options = {"primary-key": "a, b", "partition": "a", "bucket": "2"}
    assert ReadOptions.parse({"path": "/t", "where": "a = 1", **options}, writes=True).table_options == options
    for key in options:
        with pytest.raises(InvalidInputError, match=f"^{key}: lakeidx does not have this option"):
            ReadOptions.parse({"path": "/t", key: "a"})


def test_a_misspelt_option_of_a_new_table_names_the_nearest() -> None:
    with pytest.raises(InvalidInputError, match=r"^bukcet: lakeidx does not have this option; did you mean 'bucket'"):
        ReadOptions.parse({"path": "/lake/d.db/t", "primary-key": "id", "bukcet": "2"}, writes=True)
