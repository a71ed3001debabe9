"""A batch that is held up while others put newer key states plans again; it ended in "no such file" of a state of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeidx.batch.key_state.index import StateKeyIndex
from lakeidx.batch.key_state.state_table import StateTables
from lakeidx.errors import CommitConflictError
from tests.unit.batch.key_state.test_index import ROWS, check, commit_rows
from tests.unit.key_index.fake_table import FakeTable


@pytest.mark.parametrize("is_global", [True, False], ids=["global", "by partition"])
def test_a_state_whose_files_went(tmp_path: Path, is_global: bool) -> None:
    table, held_up, other = (
        FakeTable(tmp_path / "t"),
        StateKeyIndex(is_global=is_global),
        StateKeyIndex(is_global=is_global),
    )
    commit_rows(table, held_up, [("a", (1,))], {})
    early = table.snapshot_id
    # So many that the files of the first one are merged, and go.
    for n in range(12):
        commit_rows(table, other, [("a", (n,))], {})
    table.snapshot_id, now = early, table.snapshot_id
    with pytest.raises(CommitConflictError, match="plan it again"):
        held_up.tag(table.batch(ROWS), table.context({}))
    table.snapshot_id = now
    check(table, ROWS, held_up, {})


def test_files_that_others_remove_while_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, held_up = FakeTable(tmp_path / "t"), StateKeyIndex(is_global=True)
    table.write("a", 0, [((k,), 0) for k in range(5)])
    table.commit()
    put = StateTables.upkeep

    def others_follow(self: StateTables, *args: Any, **more: Any) -> Any:
        made = put(self, *args, **more)
        for file in tmp_path.rglob("_index/state/*/bucket-*/data-*"):
            file.unlink()
        return made

    with monkeypatch.context() as patch:
        patch.setattr(StateTables, "upkeep", others_follow)
        with pytest.raises(CommitConflictError, match="plan the batch again"):
            held_up.tag(table.batch(ROWS), table.context({}))
    check(table, ROWS, StateKeyIndex(is_global=True), {})
