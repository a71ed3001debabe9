from __future__ import annotations

import ctypes
import gc
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.lookup.block_cache import Block, BlockCache, BlockFile, LoadedBlocks
from lakeidx.lookup.store import StoreType
from lakeidx.testing.limits import HANGS_SECONDS
from tests.unit.lookup.stores import ask, build, factory


class Numbers(BlockFile):
    """Block i is ten bytes of the number i; the last one is resident."""

    def __init__(self, n: int, cache: BlockCache) -> None:
        super().__init__(n, cache)
        self.n = n
        self.loaded: list[int] = []
        self.last = np.full(10, n - 1, np.uint8)

    def load_blocks(self, numbers: npt.NDArray[np.int64]) -> LoadedBlocks:
        self.loaded += numbers.tolist()
        copies = {i: np.full(10, i, np.uint8) for i in numbers.tolist() if i != self.n - 1}
        places = [copies[i].ctypes.data if i in copies else self.last.ctypes.data for i in numbers.tolist()]
        return LoadedBlocks(copies, np.array(places, np.int64))

    def file_range(self, number: int) -> Block:
        assert number == self.n - 1
        return self.last

    def block_bytes(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.where(numbers == self.n - 1, 0, 10)


def in_memory(file: BlockFile) -> list[int]:
    kept: list[int] = np.flatnonzero(file.addresses).tolist()
    return kept


def test_the_least_recently_used_block_goes() -> None:
    cache = BlockCache(30)
    file = Numbers(6, cache)
    for number in (0, 1, 2, 0, 3):
        assert file.block(number).tolist() == [number] * 10
    assert in_memory(file) == [0, 2, 3]
    assert file.loaded == [0, 1, 2, 3]
    assert (cache.used_bytes, cache.loads, cache.evictions) == (30, 4, 1)
    file.block(2)
    file.block(4)
    assert in_memory(file) == [2, 3, 4]


def test_resident_blocks_take_no_room() -> None:
    cache = BlockCache(0)
    file = Numbers(1, cache)
    file.block(0)
    assert file.all_resident
    assert file.all_in_memory()
    assert (cache.used_bytes, cache.loads) == (0, 0)
    assert file.parts(np.arange(1))[0].tolist() == [0]


def test_files_share_the_bound_and_give_it_back() -> None:
    cache = BlockCache(40)
    one, other = Numbers(5, cache), Numbers(5, cache)
    for number in range(3):
        one.block(number)
        other.block(number)
    assert in_memory(one) == [1, 2]
    assert in_memory(other) == [1, 2]
    del one
    gc.collect()
    assert cache.used_bytes == 20
    other.block(0)
    assert in_memory(other) == [0, 1, 2]


def test_pinned_blocks_stay() -> None:
    cache = BlockCache(20)
    file = Numbers(6, cache)
    file.block(0)
    pinned = file.pin(np.array([1, 2, 3, 5]))
    assert np.flatnonzero(pinned.addresses).tolist() == [0, 1, 2, 3, 5]
    for number in (4, 1, 2):
        file.block(number)
    for number in (0, 1, 2, 3, 5):
        block = np.zeros(10, np.uint8)
        copy_bytes_at(pinned.addresses[number], block)
        assert block.tolist() == [number] * 10


def copy_bytes_at(address: int, target: npt.NDArray[np.uint8]) -> None:
    ctypes.memmove(target.ctypes.data, int(address), len(target))


def test_parts_fit_the_working_bound() -> None:
    def parts(working_bytes: int) -> list[list[int]]:
        file = Numbers(6, BlockCache(0, working_bytes=working_bytes))
        return [part.tolist() for part in file.parts(np.array([0, 1, 2, 4, 5]))]

    assert parts(20) == [[0, 1], [2, 4, 5]]
    assert parts(0) == [[0], [1], [2], [4], [5]]
    assert parts(1000) == [[0, 1, 2, 4, 5]]
    assert BlockCache(5).working_bytes == 8 << 20
    assert BlockCache(1 << 30).working_bytes == 1 << 30


def test_bounds_are_not_negative() -> None:
    for bounds in ({"max_bytes": -1}, {"working_bytes": -1}):
        with pytest.raises(InvalidInputError):
            BlockCache(**bounds)


@pytest.mark.parametrize("store_type", list(StoreType))
def test_a_file_that_was_replaced_is_another_one(store_type: StoreType, tmp_path: Path) -> None:
    made_by = factory(store_type, block_size=256)
    file = build(made_by, tmp_path / "x", [(b"%05d" % i, b"value" * 5) for i in range(300)])
    before = made_by.open_reader(file)
    replaced = build(made_by, tmp_path / "x", [(b"00000", b"new")])
    assert ask(made_by.open_reader(replaced), [b"00000"]) == [b"new"]
    assert ask(before, [b"00000"]) == [b"value" * 5]


@pytest.mark.parametrize("store_type", list(StoreType))
def test_lookups_of_one_key_keep_its_blocks_in_the_cache(store_type: StoreType, tmp_path: Path) -> None:
    cache = BlockCache(4096)
    made_by = factory(store_type, cache=cache, compression="zstd", block_size=256)
    entries = [(b"%05d" % i, b"v" * (i % 40)) for i in range(1000)]
    reader = made_by.open_reader(build(made_by, tmp_path / "x", entries))
    ask(reader, [b"00039"])
    for i in range(40, 800):
        ask(reader, [b"00039"])
        ask(reader, [b"%05d" % i])
    assert cache.evictions > 20
    loads = cache.loads
    assert ask(reader, [b"00039"]) == [b"v" * 39]
    assert cache.loads == loads


@pytest.mark.slow
@pytest.mark.parametrize("store_type", list(StoreType))
@pytest.mark.parametrize("cache_bytes", [0, 3000, 1 << 20])
def test_threads_share_a_cache_within_its_bound(store_type: StoreType, cache_bytes: int, tmp_path: Path) -> None:
    cache = BlockCache(cache_bytes, working_bytes=cache_bytes)
    made_by = factory(store_type, cache=cache, block_size=512)
    entries = [(b"%05d" % i, (b"%d " % i) * (i % 20)) for i in range(0, 1200, 2)]
    model = dict(entries)
    file = build(made_by, tmp_path / "x", entries)
    start = threading.Barrier(4, timeout=HANGS_SECONDS)

    def work(seed: int) -> int:
        rng = random.Random(seed)
        done = 0
        reader = made_by.open_reader(file)
        start.wait()
        for _ in range(30):
            asked = [b"%05d" % rng.randrange(1200) for _ in range(rng.choice([1, 5, 200]))]
            found, values = reader.lookup_many(RowBytes.from_list(asked))
            assert found.tolist() == [key in model for key in asked]
            assert values.to_list() == [model.get(key, b"") for key in asked]
            done += 1
        return done

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(work, range(4))) == 120
    assert cache.used_bytes == 0
    assert cache.loads
