"""A batch id whose rows came again after a column was added was refused as other content, though nothing in them had changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError
from tests.kit.shared_table.foreign import add_column
from tests.kit.small_tables import content, make_table, upsert


def test_the_same_rows_count_once(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    upsert(table, [(1, 1, "a")], batch_id="b")
    add_column(Path(table.uri), "more")
    table = Table.open(table.uri)
    assert upsert(table, [(1, 1, "a")], batch_id="b").already
    assert table.metadata.snapshot_ids() == [1]
    with pytest.raises(InvalidInputError, match="other content"):
        upsert(table, [(1, 1, "a"), (1, 2, "b")], batch_id="b")
    assert content(table) == {(1, 1): "a"}
