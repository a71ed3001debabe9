"""Decompressed blocks of lookup files: one least-recently-used cache with a bound in bytes, shared by all readers."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakeidx.errors import InvalidInputError

Block = npt.NDArray[np.uint8]
DEFAULT_CACHE_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """Counters since the cache was made, and what it holds now."""

    max_bytes: int
    used_bytes: int
    blocks: int
    hits: int
    loads: int
    evictions: int


class BlockCache:
    """Least-recently-used blocks of any number of files.

    max_bytes  bound on the blocks kept between calls (``lookup.cache-max-memory-size``). A running batch lookup holds the
               blocks of its current part besides, at most as many bytes again. A block larger than the bound is not kept.
    """

    def __init__(self, max_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        if max_bytes < 0:
            raise InvalidInputError(f"a cache bound is not negative: {max_bytes}")
        self.max_bytes = max_bytes
        self.lock = threading.Lock()
        self._blocks: OrderedDict[tuple[FileBlocks, int], int] = OrderedDict()
        self._used = self._hits = self._loads = self._evictions = 0

    def stats(self) -> CacheStats:
        """The counters."""
        with self.lock:
            return CacheStats(
                max_bytes=self.max_bytes, used_bytes=self._used, blocks=len(self._blocks), hits=self._hits,
                loads=self._loads, evictions=self._evictions,
            )  # fmt: skip

    def touch(self, file: FileBlocks, numbers: list[int]) -> None:
        """Count uses of blocks that are in the cache; the caller holds the lock."""
        for number in numbers:
            self._blocks.move_to_end((file, number))
        self._hits += len(numbers)

    def admit(self, file: FileBlocks, number: int, block: Block) -> None:
        """Keep a loaded block and drop the least recently used ones that no longer fit."""
        with self.lock:
            self._loads += 1
            if len(block) > self.max_bytes or (file, number) in self._blocks:
                return
            self._blocks[file, number] = len(block)
            self._used += len(block)
            file.keep(number, block)
            while self._used > self.max_bytes:
                (other, dropped), size = self._blocks.popitem(last=False)
                other.drop(dropped)
                self._used -= size
                self._evictions += 1

    def forget(self, file: FileBlocks) -> None:
        """Drop all blocks of a file."""
        with self.lock:
            for key in [k for k in self._blocks if k[0] is file]:
                self._used -= self._blocks.pop(key)
                file.drop(key[1])


class FileBlocks:
    """The blocks of one file that are in memory: resident ones (views of the file) for ever, others while the cache keeps them.

    load       gives (block, is_resident) from the file, checked and decompressed; may be called by several threads
    size_of    bytes of a block that was not loaded yet, may be an estimate; 0 for resident ones
    addresses  int64[n], address of each block, 0 when it is not in memory; kernels read it
    """

    def __init__(
        self, n: int, cache: BlockCache, *, load: Callable[[int], tuple[Block, bool]], size_of: Callable[[int], int]
    ) -> None:
        self.addresses = np.zeros(n, np.int64)
        self._blocks: list[Block | None] = [None] * n
        self._resident = np.zeros(n, np.bool_)
        self._all_resident = n == 0
        self._cache = cache
        self._load = load
        self._size_of = size_of

    def block(self, number: int) -> Block:
        """One block, loaded when it is not in memory."""
        block = self._blocks[number]
        if block is not None:
            if not self._resident[number]:
                self._count_use(number)
            return block
        block, resident = self._load(number)
        if resident:
            self._keep_resident(number, block)
        else:
            self._cache.admit(self, number, block)
        return block

    def in_memory(self, number: int) -> Block | None:
        """One block if it is in memory; does not count as a use."""
        return self._blocks[number]

    def parts(self, wanted: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
        """Cut block numbers into runs that fit the cache's bound together (a run has at least one block)."""
        if self._all_resident or not len(wanted):
            return [wanted]
        sizes = [self._known_size(int(number)) for number in wanted]
        out, start, used = [], 0, 0
        for i, size in enumerate(sizes):
            if i > start and used + size > self._cache.max_bytes:
                out.append(wanted[start:i])
                start, used = i, 0
            used += size
        return [*out, wanted[start:]]

    def pin(self, wanted: npt.NDArray[np.int64]) -> Pinned:
        """Have blocks in memory and keep them, and all others that are there now, while the result is held."""
        if self._all_resident:
            return Pinned(self.addresses, [])
        numbers = wanted.tolist()
        with self._cache.lock:
            # Nothing is dropped while the lock is held, so the copied addresses are those of the copied blocks.
            addresses = self.addresses.copy()
            held = self._blocks.copy()
            self._cache.touch(self, [i for i in numbers if held[i] is not None and not self._resident[i]])
        for number in numbers:
            if held[number] is None:
                block = self.block(number)
                addresses[number] = block.ctypes.data
                held[number] = block
        return Pinned(addresses, held)

    def touch(self, numbers: npt.NDArray[np.int64]) -> None:
        """Count uses of blocks that are in memory."""
        with self._cache.lock:
            self._cache.touch(
                self, [i for i in numbers.tolist() if self._blocks[i] is not None and not self._resident[i]]
            )

    def all_in_memory(self) -> bool:
        """True when every block is there at this moment."""
        return self._all_resident or bool(self.addresses.all())

    @property
    def all_resident(self) -> bool:
        """True when every block is a view of the file and was checked: it will stay so."""
        return self._all_resident

    @property
    def cache_bytes(self) -> int:
        """The bound of the cache."""
        return self._cache.max_bytes

    def close(self) -> None:
        """Give the cache's room back."""
        self._cache.forget(self)

    def keep(self, number: int, block: Block) -> None:
        """For the cache: the block is kept from now on."""
        self._blocks[number] = block
        self.addresses[number] = block.ctypes.data

    def drop(self, number: int) -> None:
        """For the cache: the block is not kept any more."""
        self.addresses[number] = 0
        self._blocks[number] = None

    def _keep_resident(self, number: int, block: Block) -> None:
        self.keep(number, block)
        self._resident[number] = True
        self._all_resident = bool(self._resident.all())

    def _count_use(self, number: int) -> None:
        with self._cache.lock:
            if self._blocks[number] is not None:
                self._cache.touch(self, [number])

    def _known_size(self, number: int) -> int:
        block = self._blocks[number]
        if block is None:
            return self._size_of(number)
        return 0 if self._resident[number] else len(block)


@dataclass(frozen=True, slots=True)
class Pinned:
    """Blocks that stay in memory while this object lives.

    addresses  int64[n], by block number; 0 for blocks that are not in memory
    blocks     what keeps them there
    """

    addresses: npt.NDArray[np.int64]
    blocks: list[Block | None]
