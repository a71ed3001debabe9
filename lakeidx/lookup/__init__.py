"""Lookup stores: local files that answer "the value of this key" in about a microsecond, in Paimon's two formats.

Import the names below to build and read single files, and `point.table_lookup` for the rows of keys of a table; `build` makes
the lookup files of data files, `listing` says which there are.
The bytes of both formats live in `lakeidx.format.lookup`; keeping a table's lookup files up to date in `lakeidx.maintenance`.
"""

from lakeidx.lookup.block_cache import BlockCache
from lakeidx.lookup.factory import LookupStoreFactory
from lakeidx.lookup.file_cache import LookupFileCache
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.point.answers import LookupResult
from lakeidx.lookup.point.table_lookup import TableLookup
from lakeidx.lookup.scratch_file import is_disk_full
from lakeidx.lookup.store import (
    FoundValues,
    LookupFile,
    LookupStoreOptions,
    LookupStoreReader,
    LookupStoreWriter,
    StoreType,
    parse_store_type,
)

__all__ = [
    "BlockCache",
    "FoundValues",
    "KeyOrder",
    "LookupFile",
    "LookupFileCache",
    "LookupResult",
    "LookupStoreFactory",
    "LookupStoreOptions",
    "LookupStoreReader",
    "LookupStoreWriter",
    "StoreType",
    "TableLookup",
    "is_disk_full",
    "parse_store_type",
]  # fmt: skip
