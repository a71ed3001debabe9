from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lakeidx.storage import rename
from lakeidx.storage.rename import replace_unsynced


@pytest.fixture(params=["as here", "no such call", "not on this file system"])
def exchange(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What exchanges of names returned, on systems that can and cannot."""
    seen: list[int] = []
    real = rename._renameat2()

    def noting(*args: Any) -> int:
        seen.append(-1 if request.param == "not on this file system" else real(*args))
        return seen[-1]

    monkeypatch.setattr(rename, "_renameat2", lambda: None if request.param == "no such call" else noting)
    return seen


def test_the_new_file_has_the_name_and_the_old_one_is_gone(tmp_path: Path, exchange: list[int]) -> None:
    (tmp_path / "old").write_text("1")
    (tmp_path / "new").write_text("2")
    inode = os.stat(tmp_path / "new").st_ino
    replace_unsynced(str(tmp_path / "new"), str(tmp_path / "old"))
    assert os.listdir(tmp_path) == ["old"]
    assert (tmp_path / "old").read_text() == "2"
    assert os.stat(tmp_path / "old").st_ino == inode


def test_a_free_name_is_taken(tmp_path: Path, exchange: list[int]) -> None:
    (tmp_path / "new").write_text("2")
    replace_unsynced(str(tmp_path / "new"), str(tmp_path / "name"))
    assert os.listdir(tmp_path) == ["name"]
    assert all(exchange), "there is nothing to exchange names with"


def test_linux_exchanges_names(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("2")
    found = rename._renameat2()
    assert found is not None
    names = (os.fsencode(tmp_path / "a"), os.fsencode(tmp_path / "b"))
    assert found(rename._HERE, names[0], rename._HERE, names[1], rename._EXCHANGE) == 0
    assert ((tmp_path / "a").read_text(), (tmp_path / "b").read_text()) == ("2", "1")


def test_an_error_is_that_of_a_rename(tmp_path: Path, exchange: list[int]) -> None:
    with pytest.raises(FileNotFoundError):
        replace_unsynced(str(tmp_path / "none"), str(tmp_path / "name"))
