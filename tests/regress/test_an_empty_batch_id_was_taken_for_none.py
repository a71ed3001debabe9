"""``batch_id=""`` drew an id of its own, so that a batch that came again was added twice; other types ended in a TypeError."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError
from tests.kit.small_tables import make_table, rows


@pytest.mark.parametrize("batch_id", ["", 5, b"day", Path("day")])
def test_it_is_refused(tmp_path: Path, batch_id: Any) -> None:
    table = Table.open(make_table(tmp_path).uri)
    given = rows([(1, 1, "a")])
    for write in (table.upsert, table.overwrite):
        with pytest.raises(InvalidInputError, match="batch id"):
            write(given, batch_id=batch_id)
    with pytest.raises(InvalidInputError, match="batch id"):
        table.upsert_files([], batch_id=batch_id)
    assert table.snapshot is None
