"""A table was dropped, and created again, just before a batch put its snapshot: the put made the first snapshot of the new table,
of manifests that had gone with the old one, and the new table could not be read.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.errors import TableReplacedError
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import content, make_table, upsert


@pytest.mark.parametrize("created_again", [True, False])
@pytest.mark.parametrize("batches", [0, 1])
def test_the_new_table_is_left_alone(tmp_path: Path, batches: int, created_again: bool) -> None:
    table = make_table(tmp_path)
    for number in range(batches):
        upsert(table, [(1, number, "first")])
    store = FaultStore(table.store)

    def replaced(*_: object) -> None:
        shutil.rmtree(table.uri)
        if created_again:
            make_table(tmp_path, options={"comment": "another one"})

    fault = store.fail("put_if_absent", "/snapshot/", act=replaced)
    with pytest.raises(TableReplacedError):
        upsert(Table(store, table.paths), [(1, 1, "second")])
    assert fault.hits == 1
    assert not list(Path(table.uri).glob("snapshot/*"))
    if created_again:
        upsert(Table.open(table.uri), [(7, 7, "new")])
        assert content(Table.open(table.uri)) == {(7, 7): "new"}
