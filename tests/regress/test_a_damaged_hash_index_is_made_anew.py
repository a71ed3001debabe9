"""A hash index file with a wrong hash, or none: `verify` finds it, readers do without it, one command makes the index anew."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakeidx.api.table import Table
from lakeidx.cli.main import app
from lakeidx.errors import CorruptFileError, InvalidInputError, NotFoundError
from lakeidx.table.newest import load_newest
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import SPEC, content, make_table, upsert

ROWS = [(p, k, f"a{k}") for p in (1, 2) for k in range(25)]


def flip(file: Path) -> None:
    damaged = bytearray(file.read_bytes())
    damaged[5] ^= 4
    file.write_bytes(damaged)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-4])


DAMAGES = [flip, cut, Path.unlink]


def damaged(folder: Path, damage: Callable[[Path], None]) -> str:
    """Make a table whose hash index files are all damaged; return its path."""
    table = make_table(folder)
    upsert(table, ROWS)
    upsert(table, [(1, 3, None), (2, 4, "b4")], ["-D", "+U"])
    for file in Path(table.uri, "index").iterdir():
        damage(file)
    return table.uri


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_batch_that_needs_it_is_refused(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """A key whose hash is another one would get a second bucket; with a flipped bit nothing but the checksum in the name tells."""
    uri = damaged(tmp_path, damage)
    before = set(Path(uri).rglob("data-*"))
    with pytest.raises((CorruptFileError, NotFoundError), match="lakeidx index rebuild TABLE --type hash") as caught:
        upsert(Table.open(uri), [(1, 3, "b")])
    assert "/index/index-" in (caught.value.path or "")
    assert set(Path(uri).rglob("data-*")) == before


@pytest.mark.parametrize("damage", DAMAGES)
def test_readers_of_single_keys_do_without_it(
    tmp_path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    uri = damaged(tmp_path, damage)
    assert content(Table.open(uri), where="p = 2 AND k = 4") == {(2, 4): "b4"}
    keys = [{"p": 1, "k": 2}, {"p": 1, "k": 3}, {"p": 2, "k": 4}]
    found = Table.open(uri).lookup(keys).to_pylist()
    assert [row["v"] for row in found] == ["a2", None, "b4"]
    assert "without its hash index" in caplog.text


@pytest.mark.parametrize("damage", DAMAGES)
def test_one_command_makes_it_anew_in_one_commit(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    uri = damaged(tmp_path, damage)
    before = content(Table.open(uri))
    found = {rule.name for rule in Table.open(uri).verify().findings}
    assert found & {"live_keys_indexed", "index_files_agree", "referenced_files_exist"}
    assert Table.open(uri).rebuild_index(index_type="hash", dry_run=True).snapshot_ids == ()
    done = CliRunner().invoke(app, ["index", "rebuild", uri, "--type", "hash", "--no-progress", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["snapshot_ids"] == [3]
    table = Table.open(uri)
    assert table.verify().passed
    assert content(table) == before
    # The deleted key is in a data file still, and has its bucket.
    upsert(table, [(1, 3, "c3"), (1, 99, "c99"), (2, 4, "c4")])
    assert content(Table.open(uri)) == {**before, (1, 3): "c3", (1, 99): "c99", (2, 4): "c4"}
    assert Table.open(uri).verify().passed
    # What is right stays as it is.
    assert table.rebuild_index(index_type="hash").snapshot_ids == ()


def test_a_rebuild_goes_by_partitions_and_drops_the_files_of_empty_buckets(tmp_path: Path) -> None:
    uri = damaged(tmp_path, Path.unlink)
    rebuilt = Table.open(uri).rebuild_index(index_type="hash", partitions=["p=1"])
    assert (rebuilt.files, rebuilt.snapshot_ids) == (4, (3,))
    upsert(Table.open(uri), [(1, 3, "b")])
    with pytest.raises(NotFoundError):
        upsert(Table.open(uri), [(2, 3, "b")])
    Table.open(uri).rebuild_index(index_type="hash")
    table = Table.open(uri)
    table.delete(where="p = 2")
    table.compact(full=True)
    table.rebuild_index(index_type="hash")
    view = load_newest(table.metadata)
    assert {e.partition for e in view.index} == {e.partition for e in view.entries}
    upsert(Table.open(uri), [(2, 1, "z")])
    assert Table.open(uri).verify().passed


def test_a_batch_meanwhile_is_in_the_rebuilt_index(tmp_path: Path) -> None:
    """Its new key is in a bucket whose files had been read."""
    table = make_table(tmp_path, options={"dynamic-bucket.target-row-num": "100"})
    upsert(table, ROWS)
    upsert(table, [(1, 3, None)], ["-D"])
    # The index keeps the hash of the deleted key, which no data file has any more: a rebuild has something to do.
    Table.open(table.uri).compact(full=True)
    store = FaultStore(table.store)
    store.fail("put_if_absent", "/snapshot/snapshot-4", act=lambda *_: upsert(Table.open(table.uri), [(1, 77, "x")]))
    opened = Table(store, table.paths)
    rebuilt = opened.rebuild_index(index_type="hash", runner=LocalRunner(1))
    assert (rebuilt.snapshot_ids, rebuilt.rounds) == ((5,), 2)
    assert Table.open(table.uri).verify().passed
    assert content(Table.open(table.uri))[1, 77] == "x"


@pytest.mark.parametrize("options", [{"bucket": "2"}, {"bucket": "-1", "partition": "none"}])
def test_tables_without_a_hash_index_say_so(tmp_path: Path, options: dict[str, str]) -> None:
    spec = {**SPEC, "options": {"bucket": options["bucket"]}}
    if "partition" in options:
        spec["primaryKeys"] = ["k"]
    table = Table.create(f"{tmp_path}/d.db/t", spec)
    with pytest.raises(InvalidInputError, match="has no hash index"):
        table.rebuild_index(index_type="hash")
    with pytest.raises(InvalidInputError, match="takes no columns"):
        table.rebuild_index(index_type="hash", columns=["k"])
