from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.errors import InvalidInputError, NotFoundError, UnavailableError
from lakeidx.lookup.scratch_file import ScratchFile, is_disk_full, map_file
from lakeidx.lookup.store import StoreType
from lakeidx.maintenance.warm_up import warm_up
from tests.kit.largest_file import largest_file
from tests.unit.lookup.stores import build, factory


def test_the_name_appears_with_the_last_byte(tmp_path: Path) -> None:
    file = ScratchFile(tmp_path / "a" / "b")
    file.write(b"xy", memoryview(b"z"))
    assert not (tmp_path / "a" / "b").exists()
    file.commit()
    file.discard()
    assert (tmp_path / "a" / "b").read_bytes() == b"xyz"
    assert file.size == 3
    assert len(list((tmp_path / "a").iterdir())) == 1
    with pytest.raises(InvalidInputError, match="closed"):
        file.write(b"more")


def test_what_is_discarded_leaves_nothing(tmp_path: Path) -> None:
    file = ScratchFile(tmp_path / "x")
    file.write(b"xy")
    file.discard()
    file.discard()
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InvalidInputError):
        ScratchFile(tmp_path / "file" / "x")
    (tmp_path / "folder").mkdir()
    file = ScratchFile(tmp_path / "folder")
    with pytest.raises(InvalidInputError, match="folder"):
        file.commit()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


def test_a_full_disk_says_so_and_nothing_is_left(tmp_path: Path) -> None:
    file = ScratchFile(tmp_path / "x")
    with largest_file(20_000), pytest.raises(UnavailableError, match="the disk is full") as caught:
        file.write(b"z" * 50_000)
    assert is_disk_full(caught.value)
    assert caught.value.path == str(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("store_type", list(StoreType))
def test_stores_on_a_full_disk(tmp_path: Path, store_type: StoreType) -> None:
    made_by = factory(store_type, compression="none", block_size=4096)
    entries = [(i.to_bytes(4, "big"), bytes(40)[:-1] + bytes([i % 256])) for i in range(2000)]
    # Compiled code is kept in files, too.
    warm_up(packages=("lakeidx.codec", "lakeidx.lookup"), processes=1)
    with largest_file(20_000), pytest.raises(UnavailableError) as caught:
        build(made_by, tmp_path / "x", entries)
    assert is_disk_full(caught.value)
    assert list(tmp_path.iterdir()) == []
    assert build(made_by, tmp_path / "x", entries[:100]).entries == 100


def test_other_errors_are_not_a_full_disk() -> None:
    assert not is_disk_full(UnavailableError("x"))
    assert not is_disk_full(OSError(28, "x"))


def test_a_mapped_file_stays_readable_after_its_deletion(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    data = map_file(tmp_path / "x", expected_size=3)
    (tmp_path / "x").unlink()
    assert data.tobytes() == b"abc"
    assert not data.flags.writeable
    with pytest.raises(NotFoundError):
        map_file(tmp_path / "x")
    with pytest.raises(InvalidInputError):
        map_file(tmp_path)
    (tmp_path / "empty").write_bytes(b"")
    assert map_file(tmp_path / "empty").tobytes() == b""
