"""A handle did not notice that its table was dropped and created again when both first schema files had one size and time: within a
tick of the disk's clock, or within the second that object stores count in.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from lakeidx.api.table import Table
from lakeidx.errors import TableReplacedError
from lakeidx.storage.base import FileInfo
from tests.kit.small_tables import make_table


def make_again_at_the_same_time(table: Table, folder: Path) -> None:
    schema = table.paths.schema_path(0)
    then = os.stat(schema)
    shutil.rmtree(table.paths.root)
    # Each has the time it was created in its schema, in milliseconds.
    time.sleep(0.002)
    make_table(folder)
    os.utime(schema, ns=(then.st_atime_ns, then.st_mtime_ns))
    assert os.stat(schema).st_size == then.st_size


def test_a_disk_is_read(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    assert table.metadata.latest_schema().id == 0
    make_again_at_the_same_time(table, tmp_path)
    with pytest.raises(TableReplacedError):
        table.metadata.latest_schema()


def test_an_etag_tells_and_nothing_is_read_while_it_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(tmp_path)
    store = table.metadata.store
    listing, get, got = store.list, store.get, []

    def list_with_etags(directory: str) -> list[FileInfo]:
        return [f._replace(etag=Path(f.path).read_text()) for f in listing(directory)]

    def counted(path: str) -> Any:
        got.append(path)
        return get(path)

    monkeypatch.setattr(store, "list", list_with_etags)
    monkeypatch.setattr(store, "get", counted)
    handle = Table(store, table.paths)
    handle.metadata.latest_schema()
    assert got == [table.paths.schema_path(0)]
    got.clear()
    handle.metadata.latest_schema()
    assert got == []
    make_again_at_the_same_time(table, tmp_path)
    with pytest.raises(TableReplacedError):
        handle.metadata.latest_schema()
