"""Loads of a folder: each file once, whatever runs beside, whatever died; what is skipped or fails says why.

The table adds up amounts, so a file that is loaded twice is seen.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import lakeidx
from lakeidx.api.folder_load import LoadResult
from lakeidx.errors import InvalidInputError, LakeIdxError, NotFoundError, UnavailableError
from lakeidx.storage.local import LocalStore
from tests.kit.command_line import call

SPEC: dict[str, Any] = {
    "fields": [{"name": "id", "type": "BIGINT"}, {"name": "amount", "type": "BIGINT"}],
    "primaryKeys": ["id"],
    "options": {"bucket": "-1", "merge-engine": "aggregation", "fields.amount.aggregate-function": "sum"},
}


@pytest.fixture
def table(tmp_path: Path) -> lakeidx.Table:
    return lakeidx.Table.create(f"{tmp_path}/wh/d.db/t", SPEC)


def put(folder: Path, name: str, amount: int, text: str = "id,amount\n1,{}\n") -> Path:
    """A file of one row that is old enough to be whole."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(text.format(amount), encoding="utf-8")
    os.utime(file, (1_700_000_000, 1_700_000_000 + amount))
    return file


def total(table: lakeidx.Table) -> int:
    return sum(table.scan().to_arrow().column("amount").to_pylist())


def states(result: LoadResult) -> dict[str, str]:
    return {f.file: f.state for f in result.files}


def test_files_are_loaded_once_and_what_is_skipped_says_why(table: lakeidx.Table, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for name, amount in (("a.csv", 1), ("b.csv", 2), ("_part.csv", 1000), ("a.txt", 1000), ("other.csv", 1000)):
        put(folder, name, amount)
    put(folder, "bad.csv", 5, "nothing,of,it\n1,2,3\n")
    (folder / "below.csv").mkdir()
    put(tmp_path / "elsewhere", "x.csv", 1000)
    (folder / "link.csv").symlink_to(tmp_path / "elsewhere" / "x.csv")

    first = table.load(folder, pattern="[!o]*")
    assert {f.file: f.reason for f in first.of_state("skipped")} == {
        "_part.csv": "names that begin with . or _ are those of programs at work",
        "a.txt": "of an unknown kind (.parquet .arrow .orc .avro .csv .json .xlsx, texts also .gz .zst; others need a format)",
        "below.csv": "a folder: only files right in the folder are loaded",
        "link.csv": "a link that leads out of the folder",
        "other.csv": "not named [!o]*",
    }
    assert [f.file for f in first.of_state("loaded")] == ["a.csv", "b.csv"]
    (failed,) = first.of_state("failed")
    assert failed.file == "bad.csv"
    assert "lacks the required columns" in failed.reason
    assert (total(table), first.rows, first.complete) == (3, 2, False)

    again = table.load(folder, pattern="[!o]*")
    assert [(f.file, f.reason) for f in again.files if f.state == "skipped" and f.batch] == [
        ("a.csv", "loaded before"), ("b.csv", "loaded before"),
    ]  # fmt: skip
    assert (total(table), again.rows) == (3, 0)
    for line in ("2 files loaded, 2 rows; 1 file failed", "failed bad.csv: ", "loaded b.csv: 1 rows, snapshot 2"):
        assert line in str(first)


def test_a_touched_file_is_known_by_its_content_and_a_changed_one_is_new(table: lakeidx.Table, tmp_path: Path) -> None:
    file = put(tmp_path / "in", "a.csv", 7)
    table.load(tmp_path / "in")
    for second in (10, 10, 20):
        os.utime(file, (1_700_000_000, 1_700_001_000 + second))
        assert states(table.load(tmp_path / "in")) == {"a.csv": "skipped"}
    assert total(table) == 7
    put(tmp_path / "in", "a.csv", 100)
    assert states(table.load(tmp_path / "in")) == {"a.csv": "loaded"}
    # Back to what it was is another change: the newest content has the last word.
    file.write_text("id,amount\n1,7\n", encoding="utf-8")
    assert states(table.load(tmp_path / "in", settle_seconds=0)) == {"a.csv": "loaded"}
    assert total(table) == 114


def test_loads_at_once_load_each_file_once(table: lakeidx.Table, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for n in range(8):
        put(folder, f"{n}.csv", 10**n)
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda _: lakeidx.Table.open(table.uri).load(folder), range(3)))
    assert total(table) == 11_111_111
    assert sum(r.rows for r in results) == 8
    assert all(r.complete and len(r.files) == 8 for r in results)
    assert table.load(folder).rows == 0


def test_a_load_that_died_before_it_noted_the_file_loads_nothing_twice(table: lakeidx.Table, tmp_path: Path) -> None:
    put(tmp_path / "in", "a.csv", 3)
    table.load(tmp_path / "in")
    (ledger,) = (tmp_path / "wh" / "_lakeidx").rglob("_committed")
    shutil.rmtree(ledger)
    assert states(table.load(tmp_path / "in")) == {"a.csv": "skipped"}
    assert total(table) == 3


def test_a_rollback_makes_its_files_new(table: lakeidx.Table, tmp_path: Path) -> None:
    for n, name in enumerate(("a.csv", "b.csv", "c.csv")):
        put(tmp_path / "in", name, 10**n)
    table.load(tmp_path / "in")
    table.rollback(snapshot=1)
    assert states(table.load(tmp_path / "in")) == {"a.csv": "skipped", "b.csv": "loaded", "c.csv": "loaded"}
    assert total(table) == 111


def test_a_file_that_is_still_written_waits(
    table: lakeidx.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(tmp_path / "in", "a.csv", 4)
    os.utime(file)

    def goes_on(seconds: float) -> None:
        with file.open("a", encoding="utf-8") as more:
            more.write("2,5\n")

    monkeypatch.setattr("lakeidx.api.folder_load.time.sleep", goes_on)
    (waiting,) = table.load(tmp_path / "in").files
    assert (waiting.state, waiting.reason) == ("skipped", "still written: the next load takes it")
    monkeypatch.undo()
    assert states(table.load(tmp_path / "in", settle_seconds=0.05)) == {"a.csv": "loaded"}
    assert total(table) == 9


def test_a_folder_of_an_archive_is_one_too(table: lakeidx.Table, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("day/a.csv", "id,amount\n1,1\n")
        archive.writestr("day/b.csv", "id,amount\n1,20\n")
    for rows in (2, 0):
        assert table.load(f"zip://day::{tmp_path}/x.zip").rows == rows
    assert total(table) == 21


def test_a_folder_is_watched_until_it_is_told_to_stop(table: lakeidx.Table, tmp_path: Path) -> None:
    stop, found = Event(), []
    put(tmp_path / "in", "a.csv", 1)
    for result in table.watch(tmp_path / "in", every=0.01, stop=stop):
        found.append(states(result))
        if len(found) == 1:
            put(tmp_path / "in", "b.csv", 10)
        else:
            stop.set()
    assert found == [{"a.csv": "loaded"}, {"b.csv": "loaded"}]
    assert total(table) == 11


@pytest.mark.parametrize(
    ("folder", "kind", "text"),
    [
        ("none", NotFoundError, "the folder does not exist"),
        ("in/a.csv", InvalidInputError, "a file, not a folder: name the folder that it is in"),
        ("in/*.csv", InvalidInputError, "name the folder, and its files by a pattern"),
    ],
)
def test_what_is_no_folder_is_said(
    table: lakeidx.Table, tmp_path: Path, folder: str, kind: type[LakeIdxError], text: str
) -> None:
    put(tmp_path / "in", "a.csv", 1)
    with pytest.raises(kind, match=text.replace("*", r"\*")):
        table.load(tmp_path / folder)
    (tmp_path / "empty").mkdir()
    assert str(table.load(tmp_path / "empty")) == f"there are no files in {tmp_path}/empty"


def test_an_error_that_is_no_files_own_ends_the_load(
    table: lakeidx.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "in", "a.csv", 1)

    def down(*_: object) -> bool:
        raise UnavailableError("the server did not answer")

    monkeypatch.setattr(LocalStore, "put_if_absent", down)
    with pytest.raises(UnavailableError):
        table.load(tmp_path / "in")


def test_the_command_says_what_became_of_each_file(table: lakeidx.Table, tmp_path: Path) -> None:
    put(tmp_path / "in", "a.csv", 1)
    put(tmp_path / "in", "b.csv", 2, "x\n")
    done = call("load", table.uri, tmp_path / "in", "--json", code=1)
    found = json.loads(done.stdout)
    assert (found["loaded"], found["skipped"], found["failed"], found["rows"]) == (1, 0, 1, 1)
    assert [f["state"] for f in found["files"]] == ["loaded", "failed"]
    assert "1 file loaded, 1 rows; 1 file failed" in done.stderr
