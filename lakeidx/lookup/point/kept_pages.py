"""Pages of data files that lookups keep: decompressed, within the bound of the blocks of lookup files.

Keys that are asked together lie all over a data file, and so does the next call's share: of a file that is not much larger than
the memory allowed nearly all pages are asked for by every call.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lakeidx.data.parquet.picked import Chunk
from lakeidx.lookup.block_cache import Block, BlockCache


class KeptPages:
    """Implements `lakeidx.data.parquet.picked.PageKeeper` for one data file, which never changes.

    cache   decides which pages stay, by their offsets; shared with lookup files and other data files
    """

    def __init__(self, cache: BlockCache) -> None:
        self.chunks: dict[tuple[int, str], Chunk | None] = {}
        self._cache = cache
        self._headers: dict[int, npt.NDArray[np.int64]] = {}
        self._bodies: dict[int, Block] = {}
        self._number = cache.attach(self)

    def find(self, offsets: Sequence[int]) -> list[tuple[npt.NDArray[np.int64], Block] | None]:
        """Return the pages at some offsets; they become the last to be dropped."""
        with self._cache.lock:
            self._cache.touch(self._number, [at for at in offsets if at in self._bodies])
            return [(self._headers[at], self._bodies[at]) if at in self._bodies else None for at in offsets]

    def offer(self, offset: int, header: npt.NDArray[np.int64], body: bytes) -> None:
        """Keep a page, and drop what was used longest ago for it."""
        with self._cache.lock:
            if len(body) <= self._cache.max_bytes and offset not in self._bodies:
                self._headers[offset] = header
                self._cache.admit(self._number, {offset: np.frombuffer(body, np.uint8)}, [0])

    def keep(self, number: int, block: Block, address: int) -> None:
        """Record that the cache holds the page."""
        self._bodies[number] = block

    def drop(self, number: int) -> None:
        """Record that the cache evicted the page."""
        del self._bodies[number], self._headers[number]
