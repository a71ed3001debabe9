"""A clause of a merge whose action was not understood deleted the rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError


@pytest.mark.parametrize(
    "clause",
    ["MATCHED THEN DO NOTHING", "NOT MATCHED THEN DELETE", "NOT MATCHED THEN UPDATE SET v = 1", "MATCHED THEN INSERT *",
     "NOT MATCHED THEN INSERT (k, v) VALUES (source.k)", "NOT MATCHED BY SOURCE THEN INSERT *"],
)  # fmt: skip
def test_other_actions_are_refused(tmp_path: Path, clause: str) -> None:
    spec = {"fields": [{"name": "k", "type": "INT"}, {"name": "v", "type": "INT"}], "primaryKeys": ["k"]}
    table = Table.create(tmp_path / "d.db" / "t", {**spec, "options": {"bucket": "1"}})
    with pytest.raises(InvalidInputError):
        table.merge([{"k": 1, "v": 2}], on=["k"]).when(clause)
