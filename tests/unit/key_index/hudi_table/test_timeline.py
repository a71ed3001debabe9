"""Which base files a table shows: states of instants, replaced groups, archived instants, left-over attempts."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.errors import CorruptFileError, NotFoundError, UnsupportedError
from lakeidx.key_index.hudi_table.timeline import (
    InstantState,
    latest_base_files,
    open_hudi_table,
    parse_instant,
    read_timeline,
)
from lakeidx.storage import open_store
from tests.unit.key_index.hudi_tables import HandMadeTable


@pytest.fixture(params=[1, 2], ids=["layout 1", "layout 2"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> HandMadeTable:
    return HandMadeTable(tmp_path / "t", layout=request.param)


def _names(table: HandMadeTable) -> list[str]:
    store = open_store(table.path)
    return [f"{f.partition}/{f.name}" for f in latest_base_files(store, open_hudi_table(store, table.path))]


def test_newest_completed_file_of_each_group(table: HandMadeTable) -> None:
    table.instant("20260101000000001")
    table.instant("20260101000000002")
    table.file("20260101000000001", "a-0", ["1"])
    second = table.file("20260101000000002", "a-0", ["1", "2"])
    first = table.file("20260101000000001", "b-0", ["3"])
    assert _names(table) == [f"/{second}", f"/{first}"]


def test_no_completed_instant_means_no_files(table: HandMadeTable) -> None:
    table.instant("20260101000000001", state="inflight")
    table.file("20260101000000001", "a-0", ["1"])
    assert _names(table) == []


@pytest.mark.parametrize("state", ["requested", "inflight"])
def test_pending_instants_show_nothing(table: HandMadeTable, state: str) -> None:
    table.instant("20260101000000001")
    table.instant("20260101000000002", state=state)
    table.instant("20260101000000003")
    kept = table.file("20260101000000001", "a-0", ["1"])
    table.file("20260101000000002", "a-0", ["1"])
    table.file("20260101000000002", "b-0", ["1"])
    table.file("20260101000000004", "c-0", ["1"])
    assert _names(table) == [f"/{kept}"]


def test_the_very_first_instant_still_inflight(table: HandMadeTable) -> None:
    """A later writer finished before it: its files must not pass for archived ones."""
    table.instant("20260101000000001", state="inflight")
    table.instant("20260101000000002")
    table.file("20260101000000001", "a-0", ["1"])
    kept = table.file("20260101000000002", "b-0", ["1"])
    assert _names(table) == [f"/{kept}"]


def test_instants_before_the_timeline_are_committed(table: HandMadeTable) -> None:
    table.instant("20260101000000005")
    old = table.file("20250101000000001", "a-0", ["1"])
    new = table.file("20260101000000005", "b-0", ["2"])
    assert _names(table) == [f"/{old}", f"/{new}"]


def test_replaced_groups_are_gone(table: HandMadeTable) -> None:
    table.instant("20260101000000001")
    table.file("20260101000000001", "a-0", ["1"], partition="p=1")
    table.file("20260101000000001", "a-0", ["1"], partition="p=2")
    replaced = {"partitionToReplaceFileIds": {"p=1": ["a-0"]}}
    table.instant("20260101000000002", "replacecommit", content=replaced)
    table.file("20260101000000002", "b-0", ["1"], partition="p=1")
    table.instant("20260101000000003", "replacecommit", state="inflight")
    assert [n.split("_")[0] for n in _names(table)] == ["p=1/b-0", "p=2/a-0"]


def test_of_two_attempts_the_listed_one(table: HandMadeTable) -> None:
    for token in ("0-9-9", "0-1-1", "0-5-5"):
        table.file("20260101000000001", "a-0", ["1"], token=token)
    listed = {"partitionToWriteStats": {"": [{"fileId": "a-0", "path": "a-0_0-1-1_20260101000000001.parquet"}]}}
    table.instant("20260101000000001", content=listed)
    assert _names(table) == ["/a-0_0-1-1_20260101000000001.parquet"]


def test_only_marked_directories_are_partitions(table: HandMadeTable) -> None:
    table.instant("20260101000000001")
    inside = table.file("20260101000000001", "a-0", ["1"], partition="x/y z")
    other = table.root / "loose"
    other.mkdir()
    (other / "b-0_1-1-1_20260101000000001.parquet").touch()
    (table.root / "x" / "y z" / ".c-0_1-1-1_20260101000000001.parquet.crc").touch()
    (table.root / "x" / "y z" / "readme.txt").touch()
    assert _names(table) == [f"x/y z/{inside}"]


def test_empty_commit_content_is_fine(table: HandMadeTable) -> None:
    table.instant("20260101000000001", "replacecommit")
    for file in table.timeline.glob("*.replacecommit"):
        file.write_bytes(b"")
    kept = table.file("20260101000000001", "a-0", ["1"])
    assert _names(table) == [f"/{kept}"]


@pytest.mark.parametrize("damage", [b"{", b"[1]", b"Obj\x01", b"Obj\x01\x02\x02", b"\xff"])
def test_a_damaged_replacecommit_is_an_error(table: HandMadeTable, damage: bytes) -> None:
    table.instant("20260101000000001", "replacecommit")
    for file in table.timeline.glob("*.replacecommit"):
        file.write_bytes(damage)
    with pytest.raises(CorruptFileError) as caught:
        _names(table)
    assert caught.value.path is not None
    assert caught.value.path.endswith(".replacecommit")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("20260101000000001.commit.requested", ("20260101000000001", "commit", InstantState.REQUESTED)),
        ("20260101000000001.inflight", ("20260101000000001", "commit", InstantState.INFLIGHT)),
        ("20260101000000001.commit.inflight", ("20260101000000001", "commit", InstantState.INFLIGHT)),
        ("20260101000000001.commit", ("20260101000000001", "commit", InstantState.COMPLETED)),
        ("20260101000000001_20260101000000009.commit", ("20260101000000001", "commit", InstantState.COMPLETED)),
        ("20260101000000001.compaction.requested", ("20260101000000001", "commit", InstantState.REQUESTED)),
        ("20260101000000001.logcompaction.inflight", ("20260101000000001", "deltacommit", InstantState.INFLIGHT)),
        ("20260101000000001.clustering.inflight", ("20260101000000001", "replacecommit", InstantState.INFLIGHT)),
        ("20200101000000.clean", ("20200101000000", "clean", InstantState.COMPLETED)),
        ("hoodie.properties", None),
        ("archived", None),
        (".20260101000000001.commit.crc", None),
        ("20260101000000001.commit.something.else", None),
        ("20260101000000001", None),
    ],
)
def test_names_of_instants_are_parsed(name: str, expected: tuple[str, str, InstantState] | None) -> None:
    found = parse_instant(name)
    assert (None if found is None else (found.time, found.action, found.state)) == expected


def test_highest_state_counts(table: HandMadeTable) -> None:
    table.instant("20260101000000001", "compaction")
    store = open_store(table.path)
    (instant,) = read_timeline(store, open_hudi_table(store, table.path))
    assert (instant.action, instant.state) == ("commit", InstantState.COMPLETED)


def test_what_is_refused(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    with pytest.raises(NotFoundError, match="Hudi table"):
        open_hudi_table(store, str(tmp_path / "nothing"))
    cases = [
        ({"hoodie.table.type": "MERGE_ON_READ"}, "MERGE_ON_READ"),
        ({"hoodie.table.base.file.format": "ORC"}, "ORC"),
        ({"hoodie.table.version": "10"}, "version 10"),
    ]
    for i, (properties, message) in enumerate(cases):
        made = HandMadeTable(tmp_path / str(i), layout=1, properties=properties)
        with pytest.raises(UnsupportedError, match=message):
            open_hudi_table(store, made.path)
    made = HandMadeTable(tmp_path / "n", layout=1, properties={"hoodie.table.version": "six"})
    with pytest.raises(CorruptFileError, match="six"):
        open_hudi_table(store, made.path)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("hoodie.table.name=t\nhoodie.table.version=8", "the last line does not end"),
        ("hoodie.table.version=8\n", "no hoodie.table.name"),
        (
            "hoodie.table.name=u\nhoodie.table.checksum=498511606\nhoodie.table.version=8\n",
            "checksum of the table's name",
        ),
        ("hoodie.table.name=t\nhoodie.table.checksum=498511606\n", "no hoodie.table.version"),
    ],
)
def test_damaged_properties_are_an_error(tmp_path: Path, text: str, match: str) -> None:
    """The checksum is what Hudi 1.0 wrote for a table named t: tests/golden/hudi-tables."""
    file = tmp_path / ".hoodie" / "hoodie.properties"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(CorruptFileError, match=match):
        open_hudi_table(open_store(str(tmp_path)), str(tmp_path))
