"""An empty or broken newest snapshot file is named by readers and `verify`, and a rollback goes below it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakeidx import Table
from lakeidx.cli.main import app
from lakeidx.errors import CorruptFileError
from tests.kit.small_tables import content, make_table, upsert

DAMAGES = [b"", b'{"version":3,"id":3,', b"[]", b"\xff\xfe"]


def damaged(folder: Path, damage: bytes, *ids: int) -> str:
    """Make a table of snapshots 1 to 4, of which some are damaged."""
    table = make_table(folder)
    for number in range(1, 5):
        upsert(table, [(1, 1, f"v{number}"), (1, 1 + number, "x")])
        if number == 2:
            Table.open(table.uri).create_tag("kept")
    for number in ids:
        (Path(table.uri) / f"snapshot/snapshot-{number}").write_bytes(damage)
    return table.uri


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_file_and_the_way_out_are_named(tmp_path: Path, damage: bytes) -> None:
    uri = damaged(tmp_path, damage, 4)
    with pytest.raises(CorruptFileError, match=r"snapshot-4 .*newest snapshot is damaged.*lakeidx rollback TABLE"):
        Table.open(uri).scan()
    (found,) = Table.open(uri).verify().findings
    assert found.name == "files_readable"
    assert str(found.sample[0]["file"]).endswith("snapshot/snapshot-4")
    assert "lakeidx rollback TABLE" in str(found.sample[0]["fault"])


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("ids", [(4,), (3,), (3, 4)])
def test_the_rollback_goes_below(tmp_path: Path, damage: bytes, ids: tuple[int, ...]) -> None:
    uri = damaged(tmp_path, damage, *ids)
    assert Table.open(uri).rollback(snapshot=2, dry_run=True).snapshots_gone == [4, 3]
    done = CliRunner().invoke(app, ["rollback", uri, "--snapshot", "2"])
    assert done.exit_code == 0, done.output
    assert all(f"files of damaged snapshot {i}" in done.output for i in ids)
    assert content(Table.open(uri))[1, 1] == "v2"
    assert Table.open(uri).metadata.listed_snapshot_ids() == [1, 2]
    # What the damaged one alone had is found, and nothing else.
    assert Table.open(uri).orphans(older_than="0 s", remove=True).files
    assert content(Table.open(uri)) == {(1, 1): "v2", (1, 2): "x", (1, 3): "x"}
    upsert(Table.open(uri), [(1, 9, "new")])
    assert Table.open(uri).verify().passed


def test_a_tag_gives_the_way_out_too(tmp_path: Path) -> None:
    uri = damaged(tmp_path, b"", 3, 4)
    Table.open(uri).rollback(tag="kept")
    assert content(Table.open(uri))[1, 1] == "v2"


def test_what_lies_below_must_be_whole(tmp_path: Path) -> None:
    """Which files a damaged snapshot that stays needs is not known."""
    uri = damaged(tmp_path, b"", 1)
    with pytest.raises(CorruptFileError, match="snapshot-1"):
        Table.open(uri).rollback(snapshot=2)
    assert Table.open(uri).metadata.listed_snapshot_ids() == [1, 2, 3, 4]
