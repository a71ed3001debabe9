"""Reader of the sort store: batch and single lookups in an SST."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError, InternalError
from lakeidx.format.lookup.sst import describe_sst
from lakeidx.lookup.common import OpenReader
from lakeidx.lookup.packed import addresses_of, plain
from lakeidx.lookup.sort_store import read_kernels as kernels
from lakeidx.lookup.sort_store.file import SortFile
from lakeidx.lookup.store import Entries, Found, StoreType

_TOUCH_EVERY = 16


class SortLookupStoreReader(OpenReader[SortFile]):
    """Answers from one SST: the filter, then a binary search of the index, then one of the block.

    source  org.apache.paimon.lookup.sort.SortLookupStoreReader, release 1.4.2
    """

    _type = StoreType.SORT

    def __init__(self, file: SortFile) -> None:
        super().__init__(file)
        self._descriptor = file.descriptor
        self._uses = 0

    @property
    def is_compressed(self) -> bool:
        """True when the first block is compressed."""
        return self._file().is_compressed

    def missing_blocks(self, keys: RowBytes) -> npt.NDArray[np.int64]:
        """Return the numbers of blocks that the keys may be in and that are not in memory."""
        file = self._file()
        keys = plain(keys)
        file.order.check(keys)
        _, counts, _ = self._located(keys)
        return file.missing(np.flatnonzero(counts))

    def load(self, blocks: npt.NDArray[np.int64]) -> None:
        """Load blocks into the cache, which may drop them before they are used."""
        file = self._file()
        for part in file.parts(blocks):
            file.pin(part)

    def lookup(self, key: bytes) -> bytes | None:
        """Look up the value of a key, or None."""
        file = self._file()
        if type(key) is not bytes:
            file.order.check_one(key)
        block, start, size = kernels.lookup_one(self._descriptor, key)
        if block >= 0:
            body = file.in_memory(block)
            if size < 0 or body is None:
                return self._lookup_in_block(file, block, key)
            self._uses += 1
            if self._uses % _TOUCH_EVERY == 0:
                file.block(block)
            return body[start : start + size].tobytes()
        if block == kernels.BAD_KEY:
            file.order.check_one(key)
            raise InternalError("a key was refused without a reason", path=self._path)
        return None

    def lookup_many(self, keys: RowBytes) -> Found:
        """Look up the values of n keys, in one pass: hash and filter, index search, then all keys of a block together."""
        file = self._file()
        keys = plain(keys)
        file.order.check(keys)
        n = len(keys)
        blocks, counts, key_bytes = self._located(keys)
        # Keys are copied together by block and values taken block by block: the input's own order would miss the CPU's
        # cache several times for each key.
        first_places, first_bytes = np.cumsum(counts) - counts, np.cumsum(key_bytes) - key_bytes
        placed = int(counts.sum())
        places, starts = np.empty(n, np.int32), np.empty(placed + 1, np.int64)
        starts[placed] = key_bytes.sum()
        by_block = np.empty(int(starts[placed]), np.uint8)
        kernels.partition(
            *addresses_of(keys), blocks, first_places.copy(), first_bytes, places, by_block.ctypes.data, starts
        )
        found, sizes = np.empty(placed, np.int64), np.empty(placed, np.int32)
        held = []
        for part in file.parts(np.flatnonzero(counts)):
            pinned = file.pin(part)
            descriptor = file.pinned_descriptor(pinned.addresses)
            size = kernels.search_many(
                descriptor.ctypes.data, by_block.ctypes.data, starts, part, first_places, counts, found, sizes
            )
            held.append(np.empty(int(size), np.uint8))
            if len(part):
                last_place = first_places[part[-1]] + counts[part[-1]]
                kernels.copy_found(first_places[part[0]], last_place, found, sizes, held[-1].ctypes.data)
        hits, offsets = np.empty(n, np.bool_), np.empty(n + 1, np.int64)
        kernels.answer_offsets(places, sizes, hits, offsets)
        values = np.empty(int(offsets[n]), np.uint8)
        kernels.gather(places, found, values.ctypes.data, offsets)
        del held
        return Found(hits, RowBytes(values, offsets))

    def entry_numbers(self, keys: RowBytes) -> npt.NDArray[np.int64] | None:
        """Return the number of each key's entry in the file, -1 for none; None where blocks are compressed.

        Checksums speak for the blocks of the keys, not for the sizes of those before: the caller checks what is at a number.
        """
        file = self._file()
        keys = plain(keys)
        file.order.check(keys)
        firsts = file.first_entries
        if firsts is None:
            return None
        blocks, counts, _ = self._located(keys)
        pinned = file.pin(np.flatnonzero(counts))
        descriptor = file.pinned_descriptor(pinned.addresses)
        out = np.empty(len(keys), np.int64)
        kernels.number_many(descriptor.ctypes.data, *addresses_of(keys), blocks, firsts, out)
        return out

    def scan(self) -> Iterator[Entries]:
        """Read all entries in key order, block by block."""
        for _, keys, values in self._file().entries():
            yield Entries(keys, values)

    def verify(self) -> int:
        """Check every block, the order of all keys, and that the filter lets every key pass."""
        file = self._file()
        entries = 0
        for number, (_, keys, _) in enumerate(file.entries()):
            file.check_order(number)
            if file.filter is not None and not file.filter.might_contain_many(keys).all():
                raise CorruptFileError("the filter hides keys of the file", path=self._path, offset=file.data_end)
            entries += len(keys)
        return entries

    def describe(self) -> dict[str, Any]:
        """Describe the footer, index and number of entries as JSON values; reads every block."""
        file = self._file()
        return {"path": self._path, "key_order": str(file.order), **describe_sst(file.view, path=self._path)}

    def _located(self, keys: RowBytes) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the block of each key, and how many keys, of how many bytes, each block has."""
        n_blocks = len(self._file().starts)
        blocks = np.empty(len(keys), np.int32)
        counts, key_bytes = np.zeros(n_blocks, np.int64), np.zeros(n_blocks, np.int64)
        kernels.locate_many(self._descriptor, *addresses_of(keys), len(keys), blocks, counts, key_bytes)
        return blocks, counts, key_bytes

    def _lookup_in_block(self, file: SortFile, block: int, key: bytes) -> bytes | None:
        body = file.block(block)
        view = np.frombuffer(key, np.uint8)
        address, size = kernels.find_in_body(
            body.ctypes.data, file.counts[block], file.steps[block], file.entry_ends[block], file.skips[block],
            view.ctypes.data, len(view), *file.order.for_kernels,
        )  # fmt: skip
        if size < 0:
            return None
        start = address - body.ctypes.data
        return body[start : start + size].tobytes()
