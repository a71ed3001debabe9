"""Pages of data files that lookups keep: decompressed, within the bound of the blocks of lookup files.

Keys that are asked together lie all over a data file, and so does the next call's share: of a file that is not much larger than
the memory allowed nearly all pages are asked for by every call.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lakeidx.data.parquet.page_reader import Chunk, Page
from lakeidx.lookup.block_cache import Block, BlockCache


class KeptPages:
    """Implements `lakeidx.data.parquet.page_reader.PageKeeper` for one data file, which never changes.

    cache   decides which pages stay, by their offsets; shared with lookup files and other data files
    """

    def __init__(self, cache: BlockCache) -> None:
        self.chunks: dict[tuple[int, str], Chunk | None] = {}
        self._cache = cache
        self._pages: dict[int, Page] = {}
        # Pages that the cache is asked to take.
        self._offered: dict[int, Page] = {}
        self._number = cache.attach(self)

    def find(self, offsets: Sequence[int]) -> list[Page | None]:
        """Return the pages at some offsets; they become the last to be dropped."""
        with self._cache.lock:
            self._cache.touch(self._number, [at for at in offsets if at in self._pages])
            return [self._pages.get(at) for at in offsets]

    def offer(self, pages: dict[int, Page]) -> None:
        """Keep pages, and drop what was used longest ago for them."""
        with self._cache.lock:
            self._offered = {at: page for at, page in pages.items() if at not in self._pages}
            blocks = {at: np.frombuffer(page.body, np.uint8) for at, page in self._offered.items()}
            self._cache.admit(self._number, blocks, [page.address for page in self._offered.values()])
            self._offered = {}

    def keep(self, number: int, block: Block, address: int) -> None:
        """Record that the cache holds the page."""
        self._pages[number] = self._offered[number]

    def drop(self, number: int) -> None:
        """Record that the cache evicted the page."""
        del self._pages[number]
