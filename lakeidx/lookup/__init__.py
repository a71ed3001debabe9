"""Lookup stores: local files that answer "the value of this key" in about a microsecond, in Paimon's two formats."""

from lakeidx.lookup.answers import LookupResult
from lakeidx.lookup.block_cache import BlockCache, CacheStats
from lakeidx.lookup.factory import LookupStoreFactory
from lakeidx.lookup.file_cache import LookupFileCache
from lakeidx.lookup.inspect import inspect_lookup_file
from lakeidx.lookup.key_order import KeyOrder
from lakeidx.lookup.point import TableLookup
from lakeidx.lookup.scratch_file import is_disk_full
from lakeidx.lookup.store import (
    Entries,
    Found,
    LookupFile,
    LookupStoreOptions,
    LookupStoreReader,
    LookupStoreWriter,
    StoreType,
    parse_store_type,
)
from lakeidx.lookup.warm_up import warm_up

__all__ = [
    "BlockCache", "CacheStats", "Entries", "Found", "KeyOrder", "LookupFile", "LookupFileCache", "LookupResult",
    "LookupStoreFactory", "LookupStoreOptions", "LookupStoreReader", "LookupStoreWriter", "StoreType", "TableLookup",
    "inspect_lookup_file", "is_disk_full", "parse_store_type", "warm_up",
]  # fmt: skip
