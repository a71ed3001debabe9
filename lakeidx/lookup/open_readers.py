"""Open readers of a table's lookup files."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import cached_property

from lakeidx.errors import NotFoundError
from lakeidx.lookup.block_cache import BlockCache
from lakeidx.lookup.factory import LookupStoreFactory
from lakeidx.lookup.file_cache import LookupFileCache
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.listing import LookupPlaces, StoredLookup
from lakeidx.lookup.store import LookupStoreReader, StoreType
from lakeidx.table.metadata import TableMetadata

OPEN_READERS = 512


class LookupReaders:
    """Open readers of a table's lookup files; the least recently used is released when there are too many.

    files    local copies; None: a directory of this user, bounded by ``lookup.cache-max-disk-size``
    blocks   decompressed blocks; None: bounded by ``lookup.cache-max-memory-size``
    """

    def __init__(
        self, metadata: TableMetadata, *, files: LookupFileCache | None = None, blocks: BlockCache | None = None
    ) -> None:
        self._metadata = metadata
        self.places = LookupPlaces(metadata.paths)
        self._given = files, blocks
        self._readers: OrderedDict[str, LookupStoreReader] = OrderedDict()
        self._factories: dict[tuple[StoreType, int], LookupStoreFactory] = {}
        # Threads that look keys up in several buckets share the readers.
        self._lock = threading.Lock()

    @cached_property
    def _caches(self) -> tuple[LookupFileCache, BlockCache]:
        """Local copies and blocks, made with the first lookup file: most tables have none."""
        options = self._metadata.latest_schema().table_options
        files, blocks = self._given
        return (
            files or LookupFileCache(max_bytes=options.lookup_cache_max_disk_size),
            blocks or BlockCache(options.lookup_cache_max_memory_size),
        )

    def open(self, stored: StoredLookup) -> LookupStoreReader | None:
        """Open a lookup file; None when there is no room for a local copy.

        errors   NotFoundError when the store does not have it; CorruptFileError
        """
        with self._lock:
            reader = self._readers.get(stored.path)
            if reader is not None:
                self._readers.move_to_end(stored.path)
                return reader
            reader = self._opened(stored)
            if reader is None:
                return None
            self._readers[stored.path] = reader
            while len(self._readers) > OPEN_READERS:
                # Another thread may be at work with it: its file is released with the last reference.
                self._readers.popitem(last=False)
            return reader

    def close(self) -> None:
        """Release all readers."""
        self._readers.clear()

    def _opened(self, stored: StoredLookup) -> LookupStoreReader | None:
        for attempt in range(2):
            path = self._caches[0].local(self._metadata.store, self.places, stored)
            if path is None:
                return None
            try:
                return self._factory(stored).open_reader(path, checksum=stored.checksum)
            except NotFoundError:
                # Another process may have removed the copy to make room; what the store does not have `local` says itself.
                if attempt:
                    raise
        return None

    def _factory(self, stored: StoredLookup) -> LookupStoreFactory:
        key = (stored.store_type, stored.schema_id)
        if key not in self._factories:
            order = KeyOrder.row_compacted(self._metadata.load_schema(stored.schema_id).key_types)
            self._factories[key] = LookupStoreFactory(stored.store_type, order=order, cache=self._caches[1])
        return self._factories[key]
