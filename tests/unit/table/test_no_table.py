"""A directory that is no table: the tables beside it whose names are like its own."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeidx
from lakeidx.errors import NotFoundError, UnavailableError
from lakeidx.format.paths import TablePaths
from lakeidx.storage.local import LocalStore
from lakeidx.table.metadata import TableMetadata


def test_names_like_it_are_named(tmp_path: Path) -> None:
    spec = {"fields": [{"name": "k", "type": "INT"}], "primaryKeys": ["k"], "options": {"bucket": "1"}}
    for name in ("orders", "customers"):
        lakeidx.Table.create(f"{tmp_path}/d.db/{name}", spec)
    with pytest.raises(NotFoundError, match="no schema/schema-0; did you mean 'orders'\\? Else create it with"):
        lakeidx.Table.open(f"{tmp_path}/d.db/order")
    with pytest.raises(NotFoundError, match="no schema/schema-0; create it with"):
        lakeidx.Table.open(f"{tmp_path}/d.db/weather")


def test_a_folder_that_may_not_be_listed_is_no_other_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(store: LocalStore, dir: str) -> list[object]:
        if dir.endswith("/schema"):
            return []
        raise UnavailableError("access denied", path=dir)

    monkeypatch.setattr(LocalStore, "list", refuse)
    with pytest.raises(NotFoundError, match="create it with"):
        TableMetadata(LocalStore(), TablePaths(f"{tmp_path}/d.db/t")).latest_schema()
