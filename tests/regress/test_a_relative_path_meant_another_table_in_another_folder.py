"""A table opened by a relative path was looked for, and staged into, below the folder of whoever used it: a worker's, too."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import lakeidx
from lakeidx.storage.local import absolute

SPEC = {"fields": [{"name": "id", "type": "BIGINT"}], "primaryKeys": ["id"], "options": {"bucket": "-1"}}


def test_the_table_stays_the_same_when_the_folder_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    made = lakeidx.Table.create("wh/d.db/t", SPEC)
    opened = lakeidx.Table.open("wh/d.db/t")
    monkeypatch.chdir(tmp_path / "elsewhere")
    made.upsert([{"id": 1}])
    pickle.loads(pickle.dumps(opened)).upsert([{"id": 2}])
    assert sorted(lakeidx.Table.open("../wh/d.db/t").scan().to_arrow().column("id").to_pylist()) == [1, 2]
    assert made.uri == opened.uri == f"{tmp_path}/wh/d.db/t"
    assert not list((tmp_path / "elsewhere").iterdir())


def test_uris_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute("a/b.csv") == f"{tmp_path}/a/b.csv"
    assert absolute("s3://b/a.csv") == "s3://b/a.csv"
    assert absolute("file:/a.csv") == "file:/a.csv"
