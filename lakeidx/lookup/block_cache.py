"""Decompressed blocks of lookup files: one least-recently-used cache with a bound in bytes, shared by all readers."""

from __future__ import annotations

import itertools
import threading
import weakref
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakeidx.errors import InvalidInputError

Block = npt.NDArray[np.uint8]
_DEFAULT_CACHE_BYTES = 256 * 1024 * 1024
_LEAST_WORKING_BYTES = 8 * 1024 * 1024
_file_numbers = itertools.count()


class BlockCache:
    """Least-recently-used blocks of any number of files; only their sizes and order: the files own the blocks.

    max_bytes      bound on the blocks kept between calls (``lookup.cache-max-memory-size``); a larger block is not kept
    working_bytes  bound on the blocks that one running batch lookup loads together and holds besides; at least one block is.
                   None: as many as max_bytes, or 8 MiB if that is more
    used_bytes     of the blocks that are kept; loads, evictions: of blocks so far
    """

    def __init__(self, max_bytes: int = _DEFAULT_CACHE_BYTES, *, working_bytes: int | None = None) -> None:
        if max_bytes < 0 or (working_bytes is not None and working_bytes < 0):
            raise InvalidInputError(f"cache bounds are not negative: {max_bytes}, {working_bytes}")
        self.max_bytes = max_bytes
        self.working_bytes = max(max_bytes, _LEAST_WORKING_BYTES) if working_bytes is None else working_bytes
        # Reentrant: a file may be collected, and forgotten, while this thread holds the lock.
        self.lock = threading.RLock()
        self._sizes: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._files: weakref.WeakValueDictionary[int, BlockFile] = weakref.WeakValueDictionary()
        self.used_bytes = self.loads = self.evictions = 0

    def attach(self, file: BlockFile) -> int:
        """Register a file with the cache; returns its number."""
        number = next(_file_numbers)
        self._files[number] = file
        weakref.finalize(file, self._forget, number)
        return number

    def touch(self, file: int, blocks: list[int]) -> None:
        """Count uses of cached blocks; the caller has the lock."""
        for block in blocks:
            self._sizes.move_to_end((file, block))

    def admit(self, file: int, blocks: Mapping[int, Block], addresses: Sequence[int]) -> None:
        """Add loaded blocks of a file and evict the least recently used ones that no longer fit.

        addresses  of the blocks, in their order
        """
        with self.lock:
            owner = self._files[file]
            self.loads += len(blocks)
            for (number, block), address in zip(blocks.items(), addresses, strict=True):
                size = len(block)
                if size > self.max_bytes or (file, number) in self._sizes:
                    continue
                self._sizes[file, number] = size
                self.used_bytes += size
                owner.keep(number, block, address)
            while self.used_bytes > self.max_bytes:
                (other, dropped), size = self._sizes.popitem(last=False)
                gone = owner if other == file else self._files.get(other)
                if gone is not None:
                    gone.drop(dropped)
                self.used_bytes -= size
                self.evictions += 1

    def _forget(self, file: int) -> None:
        with self.lock:
            for key in [key for key in self._sizes if key[0] == file]:
                self.used_bytes -= self._sizes.pop(key)


@dataclass(frozen=True, slots=True)
class LoadedBlocks:
    """Blocks fresh from the file, checked.

    copies     the decompressed ones, by block number
    addresses  int64[n], of the n blocks requested, copies or in the file
    """

    copies: dict[int, Block]
    addresses: npt.NDArray[np.int64]


class BlockFile(ABC):
    """A file made of blocks. Those in memory stay: ranges of the mapped file for ever, copies as the cache bids.

    addresses  int64[n], address of each block, 0 when it is not in memory; kernels read it
    """

    def __init__(self, n_blocks: int, cache: BlockCache) -> None:
        self.addresses = np.zeros(n_blocks, np.int64)
        self._copies: list[Block | None] = [None] * n_blocks
        self._resident = np.zeros(n_blocks, np.bool_)
        self._all_resident = n_blocks == 0
        self._cache = cache
        self._number = cache.attach(self)

    @abstractmethod
    def load_blocks(self, numbers: npt.NDArray[np.int64]) -> LoadedBlocks:
        """Load blocks from the file, checked and decompressed; numbers are unique."""

    @abstractmethod
    def file_range(self, number: int) -> Block:
        """Return the bytes that a block has in the file: its contents, when it is not compressed."""

    @abstractmethod
    def block_bytes(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the bytes of each block in memory, 0 for a range of the file; unchecked, for planning."""

    def block(self, number: int) -> Block:
        """Return one block, loaded when it is not in memory."""
        if self._resident[number]:
            return self.file_range(number)
        block = self._copies[number]
        if block is not None:
            self._count_use(number)
            return block
        block = self._load(np.array([number], np.int64)).copies.get(number)
        return self.file_range(number) if block is None else block

    def parts(self, wanted: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
        """Cut block numbers into runs that may be in memory together (a run has at least one block)."""
        if self._all_resident or not len(wanted):
            return [wanted]
        sizes = self.block_bytes(wanted)
        if sizes.sum() <= self._cache.working_bytes:
            return [wanted]
        out, start, used = [], 0, 0
        for i, size in enumerate(sizes.tolist()):
            if i > start and used + size > self._cache.working_bytes:
                out.append(wanted[start:i])
                start, used = i, 0
            used += size
        return [*out, wanted[start:]]

    def pin(self, wanted: npt.NDArray[np.int64]) -> Pinned:
        """Load blocks and pin them, and all others that are cached now, while the result is held."""
        if self._all_resident:
            return Pinned(self.addresses, [])
        with self._cache.lock:
            # Nothing is dropped while the lock is held, so the copied addresses are those of the copied blocks.
            addresses = self.addresses.copy()
            held: list[Block | None] = self._copies.copy()
            there = wanted[(addresses[wanted] != 0) & ~self._resident[wanted]]
            self._cache.touch(self._number, there.tolist())
        missing = wanted[addresses[wanted] == 0]
        if len(missing):
            loaded = self._load(missing)
            addresses[missing] = loaded.addresses
            held += loaded.copies.values()
        return Pinned(addresses, held)

    def all_in_memory(self) -> bool:
        """Return True when every block is there at this moment."""
        return self._all_resident or bool(self.addresses.all())

    @property
    def all_resident(self) -> bool:
        """True when every block is a view of the file and was checked: it will stay so."""
        return self._all_resident

    @property
    def working_bytes(self) -> int:
        """How many bytes of blocks a batch lookup may load together."""
        return self._cache.working_bytes

    def keep(self, number: int, block: Block, address: int) -> None:
        """Record that the cache holds the block."""
        self._copies[number] = block
        self.addresses[number] = address

    def drop(self, number: int) -> None:
        """Record that the cache evicted the block."""
        self.addresses[number] = 0
        self._copies[number] = None

    def _load(self, numbers: npt.NDArray[np.int64]) -> LoadedBlocks:
        """Load blocks; those that can stay do."""
        loaded = self.load_blocks(numbers)
        copies = loaded.copies
        copied = np.zeros(len(numbers), np.bool_)
        if copies:
            copied[:] = [number in copies for number in numbers.tolist()]
            in_order = {number: copies[number] for number in numbers[copied].tolist()}
            self._cache.admit(self._number, in_order, loaded.addresses[copied].tolist())
        if len(copies) < len(numbers):
            at = np.flatnonzero(~copied)
            self.addresses[numbers[at]] = loaded.addresses[at]
            self._resident[numbers[at]] = True
            self._all_resident = bool(self._resident.all())
        return loaded

    def _count_use(self, number: int) -> None:
        with self._cache.lock:
            if self._copies[number] is not None:
                self._cache.touch(self._number, [number])


@dataclass(frozen=True, slots=True)
class Pinned:
    """Blocks that stay in memory while this object lives.

    addresses  int64[n], by block number; 0 for blocks that are not in memory
    held       the copies among them
    """

    addresses: npt.NDArray[np.int64]
    held: list[Block | None]
