"""Makes writers and readers of one store type."""

from __future__ import annotations

import os

from lakeidx.lookup.block_cache import BlockCache
from lakeidx.lookup.hash_store.reader import HashLookupStoreReader
from lakeidx.lookup.hash_store.writer import HashLookupStoreWriter
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.sort_store.reader import SortLookupStoreReader
from lakeidx.lookup.sort_store.writer import SortLookupStoreWriter
from lakeidx.lookup.store import LookupStoreOptions, LookupStoreReader, LookupStoreWriter, StoreType


class LookupStoreFactory:
    """Writers and readers of one table's lookup files.

    store_type  ``lookup.store.type``
    order       form and order of the keys; a hash store only checks their form
    options     how files are written
    cache       shared by all readers made here; give the same cache to other factories to share it with them
    """

    def __init__(
        self,
        store_type: StoreType,
        *,
        order: KeyOrder,
        options: LookupStoreOptions | None = None,
        cache: BlockCache | None = None,
    ) -> None:
        self.store_type = store_type
        self.order = order
        self.options = options or LookupStoreOptions()
        self.cache = cache or BlockCache()

    def create_writer(self, path: str | os.PathLike[str], *, expected_entries: int) -> LookupStoreWriter:
        """Make a writer of one file.

        expected_entries  sizes the filter: the rows of the data file, as Paimon does
        """
        made = SortLookupStoreWriter if self.store_type is StoreType.SORT else HashLookupStoreWriter
        return made(path, options=self.options, order=self.order, expected_entries=expected_entries)

    def open_reader(self, path: str | os.PathLike[str], *, checksum: int | None = None) -> LookupStoreReader:
        """Open a reader of a finished file.

        checksum  `LookupFile.checksum`, when it is known
        errors    NotFoundError; CorruptFileError
        """
        made = SortLookupStoreReader if self.store_type is StoreType.SORT else HashLookupStoreReader
        return made(str(path), order=self.order, cache=self.cache, checksum=checksum)
