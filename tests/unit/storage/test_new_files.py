from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakeidx.errors import NotFoundError
from lakeidx.storage import LocalStore


@pytest.mark.parametrize("sync", [True, False])
def test_new_directories_are_flushed_up_to_one_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, sync: bool
) -> None:
    flushed: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: flushed.append(os.readlink(f"/proc/self/fd/{fd}")))
    store, table = LocalStore(sync=sync), tmp_path / "t"
    with store.open_output(f"{table}/p=1/bucket-0/data") as out:
        out.write(b"x")
    made, data = flushed[:3], flushed[3:]
    store.put(f"{table}/p=1/bucket-0/more", b"1")
    if not sync:
        assert not flushed
        return
    assert sorted(made) == [str(tmp_path), str(table), str(table / "p=1")]
    assert [os.path.dirname(data[0]), *data[1:]] == [str(table / "p=1" / "bucket-0")] * 2
    assert len(flushed) == 7


def test_writing_with_a_lost_directory(tmp_path: Path) -> None:
    out = LocalStore().open_output(str(tmp_path / "d" / "f"))
    out.write(b"1")
    for p in (tmp_path / "d").iterdir():
        p.unlink()
    (tmp_path / "d").rmdir()
    with pytest.raises(NotFoundError):
        out.close()
