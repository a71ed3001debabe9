"""Makes writers and readers of one store type, and lets readers of the same file share what is open."""

from __future__ import annotations

import os
import threading
import weakref
from pathlib import Path

from lakeidx.errors import InvalidInputError
from lakeidx.lookup.block_cache import BlockCache
from lakeidx.lookup.hash_store.reader import HashFile, HashLookupStoreReader
from lakeidx.lookup.hash_store.writer import HashLookupStoreWriter
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.scratch_file import os_errors
from lakeidx.lookup.sort_store.reader import SortFile, SortLookupStoreReader
from lakeidx.lookup.sort_store.writer import SortLookupStoreWriter
from lakeidx.lookup.store import LookupFile, LookupStoreOptions, LookupStoreReader, LookupStoreWriter, StoreType

_FileKey = tuple[str, StoreType, str, int, int, int, int, int | None, bool]


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
        self._open: weakref.WeakValueDictionary[_FileKey, SortFile | HashFile] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def create_writer(self, path: str | os.PathLike[str], *, expected_entries: int | None = None) -> LookupStoreWriter:
        """Make a writer of one file.

        expected_entries  sizes the filter: the rows of the data file, as Paimon does; None: the entries really put
        """
        if self.store_type is StoreType.SORT:
            return SortLookupStoreWriter(
                path, options=self.options, order=self.order, expected_entries=expected_entries
            )
        return HashLookupStoreWriter(path, options=self.options, order=self.order, expected_entries=expected_entries)

    def open_reader(
        self,
        file: LookupFile | str | os.PathLike[str],
        *,
        checksum: int | None = None,
        trust_filter: bool = False,
    ) -> LookupStoreReader:
        """Open a reader of a finished file. Readers of the same unchanged file share its mapping and its blocks.

        file          what the writer gave, or a path. With a `LookupFile`, size and checksum are compared
        checksum      `LookupFile.checksum`, when only the path is at hand
        trust_filter  sort files without a checksum: do not compute the filter again (see `lookup.sort_store.file`)
        errors        NotFoundError; CorruptFileError
        """
        size = None
        if isinstance(file, LookupFile):
            if file.store_type is not self.store_type:
                raise InvalidInputError(
                    f"a {file.store_type.value} store file, not {self.store_type.value}", path=file.path
                )
            size, checksum = file.size, file.checksum
        path = Path(file.path if isinstance(file, LookupFile) else file)
        with os_errors(path):
            now = path.stat()
        key = (
            str(path.resolve()), self.store_type, str(self.order), now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns,
            checksum, trust_filter,
        )  # fmt: skip
        with self._lock:
            shared = self._open.get(key)
            if shared is None:
                shared = self._new_file(str(path), checksum, size, trust_filter)
                self._open[key] = shared
        if isinstance(shared, SortFile):
            return SortLookupStoreReader(shared)
        return HashLookupStoreReader(shared)

    def _new_file(self, path: str, checksum: int | None, size: int | None, trust_filter: bool) -> SortFile | HashFile:
        if self.store_type is StoreType.SORT:
            return SortFile(
                path, order=self.order, cache=self.cache, checksum=checksum, size=size, trust_filter=trust_filter
            )
        return HashFile(path, order=self.order, cache=self.cache, checksum=checksum, size=size)
