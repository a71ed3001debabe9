from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.codec.rows.compacted_row import encode_compacted
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.lookup.hash_store.writer import context_path
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.store import StoreType
from lakeidx.types import parse_type
from tests.unit.lookup.stores import ask, build, factory


@pytest.mark.parametrize("entries", [[b"a", b"bb", b"a"], [b"", b""], [b"k%d" % i for i in range(50)] + [b"k7"]])
def test_a_key_put_twice_is_refused(tmp_path: Path, entries: list[bytes]) -> None:
    at = len(entries) - 1
    with pytest.raises(InvalidInputError, match=f"entry {at} has a duplicate key: {entries[at].hex()}"):
        build(factory(StoreType.HASH), tmp_path / "x.hash", [(key, b"v") for key in entries])
    assert list(tmp_path.iterdir()) == []


def test_a_finished_writer_takes_no_more(tmp_path: Path) -> None:
    with factory(StoreType.HASH).create_writer(tmp_path / "x.hash", expected_entries=1) as out:
        file = out.finish()
        assert file.side_files == (str(context_path(tmp_path / "x.hash")),)
        with pytest.raises(InvalidInputError, match="finished"):
            out.finish()
        with pytest.raises(InvalidInputError, match="finished"):
            out.write(RowBytes.empty(), RowBytes.empty())


def test_other_input_that_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="power of two, not 100"):
        factory(StoreType.HASH, block_size=100).create_writer(tmp_path / "x.hash", expected_entries=1)
    with pytest.raises(InvalidInputError, match="2 keys but 1 values"):
        factory(StoreType.HASH).create_writer(tmp_path / "x.hash", expected_entries=1).write(
            RowBytes.from_list([b"a", b"b"]), RowBytes.from_list([b"v"])
        )
    order = KeyOrder.row_compacted([parse_type("INT")])
    good = encode_compacted([1], [parse_type("INT")])
    with pytest.raises(InvalidInputError, match=r"key 1 .*bytes follow"):
        build(factory(StoreType.HASH, order=order), tmp_path / "x.hash", [(good, b""), (good + b"x", b"")])
    assert list(tmp_path.iterdir()) == []


def test_a_new_file_never_meets_an_old_context(tmp_path: Path) -> None:
    made_by = factory(StoreType.HASH)
    path = tmp_path / "x.hash"
    old = build(made_by, path, [(b"a", b"1")])
    new = build(made_by, path, [(b"a", b"2")])
    assert old.checksum != new.checksum
    reader = made_by.open_reader(new)
    assert ask(reader, [b"a"]) == [b"2"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.hash", "x.hash.context"]
