"""A negative limit gave an empty table, and one text in place of a list of columns the columns named by its letters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError
from tests.kit.small_tables import make_table, upsert


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"limit": -1}, "limit must be 0 or more rows, not -1"), ({"columns": "kv"}, "columns must be a list of texts, not 'kv'"),
        ({"columns": ["w"]}, "no column 'w'"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("state", [{}, {"incremental": (0, None)}, {"incremental": (0, None), "mode": "diff"}])
def test_they_are_refused(tmp_path: Path, asked: dict[str, Any], said: str, state: dict[str, Any]) -> None:
    made = make_table(tmp_path)
    upsert(made, [(1, 1, "a")])
    table = Table.open(made.uri)
    assert table.scan(columns=["k", "v"], limit=0, **state).to_arrow().num_rows == 0
    assert table.scan(columns=["k", "v"], limit=1, **state).to_arrow().num_rows == 1
    with pytest.raises(InvalidInputError, match=said):
        table.scan(**asked, **state)
