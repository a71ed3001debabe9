"""A batch that is held up while others put newer key states plans again; it ended in "no such file" of a state of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.errors import CommitConflictError
from lakeidx.key_index.state.manifest import StateFolder, StateManifest
from lakeidx.key_index.state.state_index import StateKeyIndex
from lakeidx.storage.local import LocalStore
from tests.unit.key_index.fake_table import FakeTable
from tests.unit.key_index.state.test_state_index import ROWS, check, commit_rows


@pytest.mark.parametrize("is_global", [True, False], ids=["global", "by partition"])
def test_a_state_whose_files_went(tmp_path: Path, is_global: bool) -> None:
    table, held_up, other = (
        FakeTable(tmp_path / "t"),
        StateKeyIndex(is_global=is_global),
        StateKeyIndex(is_global=is_global),
    )
    commit_rows(table, held_up, [("a", (1,))], {})
    early = table.snapshot_id
    for n in range(4):
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
    put = StateFolder.publish

    def others_follow(self: StateFolder, *args: object, **more: object) -> bool:
        made = put(self, *args, **more)  # type: ignore[arg-type]
        for file in tmp_path.rglob("run-*.keys"):
            file.unlink()
        return made

    with monkeypatch.context() as patch:
        patch.setattr(StateFolder, "publish", others_follow)
        with pytest.raises(CommitConflictError, match="plan the batch again"):
            held_up.tag(table.batch(ROWS), table.context({}))
    check(table, ROWS, StateKeyIndex(is_global=True), {})


def test_a_manifest_that_is_put_late_stays(tmp_path: Path) -> None:
    folder = StateFolder(LocalStore(), str(tmp_path))
    for snapshot_id in (5, 4, 2):
        made = StateManifest(table_id="t", scope="s", snapshot_id=snapshot_id, token=f"of {snapshot_id}")
        assert folder.publish(made, keep=2, token_of=lambda i: f"of {i}")
    assert folder.find(2, "of 2") is not None
    # The next program takes it away.
    newest = StateManifest(table_id="t", scope="s", snapshot_id=6, token="of 6")
    assert folder.publish(newest, keep=2, token_of=lambda i: f"of {i}")
    assert sorted(i for _, i, _ in folder.candidates()) == [5, 6]
