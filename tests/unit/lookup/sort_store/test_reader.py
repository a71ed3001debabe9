from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zstandard

from lakeidx.codec.containers.checksum import crc32
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.codec.varint import encode_varint
from lakeidx.errors import CorruptFileError
from lakeidx.format.lookup.sst import encode_body
from lakeidx.lookup.block_cache import BlockCache
from lakeidx.lookup.sort_store.reader import SortLookupStoreReader
from lakeidx.lookup.store import StoreType
from tests.unit.lookup.stores import ask, build, factory, show


def test_keys_that_differ_only_after_their_first_bytes(tmp_path: Path) -> None:
    # One rank for nearly all of them: the search falls back to comparing whole keys.
    keys = sorted({b"a" * i + tail for i in range(60) for tail in (b"", b"b", b"\0", b"\xff")} | {b"", b"\xff"})
    for block_size in (64, 65536):
        made_by = factory(StoreType.SORT, block_size=block_size, compression="none", bloom_fpp=None)
        entries = [(key, b"%d" % i) for i, key in enumerate(keys) if i % 2]
        reader = made_by.open_reader(build(made_by, tmp_path / "x", entries))
        assert ask(reader, keys) == [b"%d" % i if i % 2 else None for i in range(len(keys))]


@pytest.mark.parametrize("block_size", [1, 64, 700, 65536])
@pytest.mark.parametrize("sizes", ["of keys", "of values", "alike"])
@pytest.mark.parametrize("asked", [1, 15, 16, 17, 500])
def test_keys_of_several_blocks_are_searched_together(tmp_path: Path, block_size: int, sizes: str, asked: int) -> None:
    made_by = factory(StoreType.SORT, block_size=block_size, bloom_fpp=None)
    keys = [b"key %04d" % i + b"x" * (i % 5 if sizes == "of keys" else 0) for i in range(500)]
    entries = {key: b"v" * (i % 7 if sizes == "of values" else 9) for i, key in enumerate(keys) if i % 3}
    # Absent keys lie between those of a block; some lack what all keys of the file begin with.
    wanted = [key if i % 7 else key[1:] for i, key in enumerate(keys)]
    reader = made_by.open_reader(build(made_by, tmp_path / "x", list(entries.items())))
    few = [wanted[i] for i in np.random.default_rng(asked).permutation(500)[:asked]]
    assert ask(reader, few) == [entries.get(key) for key in few]


def test_a_batch_larger_than_the_cache_loads_each_block_once(tmp_path: Path) -> None:
    cache = BlockCache(1000, working_bytes=1000)
    made_by = factory(StoreType.SORT, cache=cache, block_size=500, compression="zstd", bloom_fpp=None)
    entries = [(b"%05d" % i, b"v" * 40) for i in range(1000)]
    file = build(made_by, tmp_path / "x", entries)
    reader = made_by.open_reader(file)
    asked = np.random.default_rng(1).permutation(1000)
    found, values = reader.lookup_many(RowBytes.from_list([b"%05d" % i for i in asked]))
    assert found.all()
    assert values.to_list() == [b"v" * 40] * 1000
    assert cache.loads == len(show(file)["blocks"])
    assert cache.used_bytes <= 1000


def test_columns_that_are_slices_of_others(tmp_path: Path) -> None:
    made_by = factory(StoreType.SORT)
    keys = RowBytes.from_list([b"a", b"b", b"c", b"d"])
    values = RowBytes.from_list([b"1", b"22", b"", b"4444"])
    with made_by.create_writer(tmp_path / "x", expected_entries=3) as writer:
        writer.write(keys.slice(1, 4), values.slice(1, 4))
        file = writer.finish()
    reader = made_by.open_reader(file)
    found, got = reader.lookup_many(keys.slice(0, 3))
    assert (found.tolist(), got.to_list()) == ([False, True, True], [b"", b"22", b""])


def test_entries_are_checked_once_for_a_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_by = factory(StoreType.SORT, cache=BlockCache(0), block_size=500, compression="zstd")
    entries = [(b"%05d" % i, b"%d" % i * 9) for i in range(300)]
    asked = RowBytes.from_list([key for key, _ in entries])
    checked: list[int] = []
    check = SortLookupStoreReader._check_bodies

    def counted(file: SortLookupStoreReader, numbers: npt.NDArray[np.int64], *rest: Any, **named: Any) -> None:
        checked.extend(numbers.tolist())
        check(file, numbers, *rest, **named)

    monkeypatch.setattr(SortLookupStoreReader, "_check_bodies", counted)
    file = build(made_by, tmp_path / "x", entries)
    reader = made_by.open_reader(file)
    for _ in range(3):
        assert reader.lookup_many(asked).values.to_list() == [value for _, value in entries]
    assert made_by.cache.loads == 3 * len(checked)
    assert sorted(checked) == list(range(len(show(file)["blocks"])))


def test_a_block_that_is_another_one_is_checked(tmp_path: Path) -> None:
    made_by = factory(StoreType.SORT, cache=BlockCache(0), compression="zstd")
    entries = [(b"%05d" % i, b"value") for i in range(300)]
    asked = RowBytes.from_list([key for key, _ in entries])
    built = build(made_by, tmp_path / "x", entries)
    faults = []
    reader = made_by.open_reader(built)
    with Path(built.path).open("r+b", buffering=0) as opened:
        assert reader.lookup_many(asked).found.all()
        (block,) = show(built)["blocks"]
        whole = Path(built.path).read_bytes()[: block["size"] + 1]
        for place in range(3, block["size"]):
            # Its checksum is right, its bytes are not those that were checked.
            changed = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
            os.pwrite(opened.fileno(), changed + crc32(changed).to_bytes(4, "little"), 0)
            try:
                reader.lookup_many(asked)
            except CorruptFileError as error:
                faults.append(str(error))
    assert any("is damaged or out of order" in fault for fault in faults)


def test_bytes_between_blocks_and_filter_are_for_files_of_ours_only(tmp_path: Path) -> None:
    """Development versions wrote an index of parts of blocks there, and blocks of several zstd frames."""
    path = tmp_path / "x"
    entries = [(b"%04d" % i, b"v" * (i % 90)) for i in range(200)]
    body = encode_body(entries)
    frames = b"".join(zstandard.compress(part) for part in (body[:900], body[900:]))
    stored = encode_varint(len(body)) + frames + b"\1"
    block = stored + struct.pack("<I", zlib.crc32(stored))
    index = encode_body([(entries[-1][0], encode_varint(0) + encode_varint(len(stored) - 1))]) + b"\0"
    index += struct.pack("<I", zlib.crc32(index))
    gap = b"parts of blocks"
    footer = struct.pack("<qiqqii", 0, 0, 0, len(block) + len(gap), len(index) - 5, 1481571681)
    path.write_bytes(block + gap + index + footer)
    made_by = factory(StoreType.SORT, bloom_fpp=None)
    reader = made_by.open_reader(str(path), checksum=crc32(gap, index, footer))
    assert ask(reader, [b"0007", b"0199", b"x"]) == [b"v" * 7, b"v" * 19, None]
    with pytest.raises(CorruptFileError, match="data blocks end at"):
        made_by.open_reader(str(path))
