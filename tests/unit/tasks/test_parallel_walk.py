"""A walk by directories finds what one walk finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.storage.local import LocalStore
from lakeidx.tasks.in_parallel import parallel_walk
from tests.kit.metered_store import MeteredStore


@pytest.mark.parametrize("folders", [0, 1, 2, 5, 16, 100])
def test_every_file_is_found_once(tmp_path: Path, folders: int) -> None:
    made = [
        tmp_path / "file",
        tmp_path / "p=",
        *(tmp_path / f"p={n}" / x for n in range(folders) for x in ("a", "b/c")),
    ]
    for path in made:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    store = MeteredStore(LocalStore())
    assert sorted(f.path for f in parallel_walk(store, str(tmp_path))) == sorted(map(str, made))
    counts = {verb: count.requests for verb, count in store.counts.items()}
    assert counts["list"] == 1
    assert counts.get("walk", 0) == folders


def test_nothing_is_found_in_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    assert parallel_walk(LocalStore(), str(tmp_path / "none")) == []
