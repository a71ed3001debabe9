"""The index type that assigns a table's rows, and the check of its options.

============  =====================================  ==================================================================
bucket mode   ``index.type``                         bucket of a row
============  =====================================  ==================================================================
HASH_DYNAMIC  hash (default)                         HASH index, else PartitionIndex rules
HASH_DYNAMIC  bucket                                 HASH index for known keys, Hudi's bucket rule for new ones
HASH_DYNAMIC  all others                             where the key index finds the key, else PartitionIndex rules
KEY_DYNAMIC   hash (not given), state, inmemory      where the key state has the key, else the bucket with room
HASH_FIXED    hash (default), bucket                 the bucket function
============  =====================================  ==================================================================
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from lakeidx.batch.artifacts import staging_root
from lakeidx.errors import InternalError
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.port import ExternalState, IndexContext, Locator
from lakeidx.key_index.registry import IndexType, find_type, make_locator
from lakeidx.storage.files import join
from lakeidx.table.metadata import TableMetadata

_INDEX_FOLDER = "_index"
_MS_PER_DAY = 86_400_000
_MEMORY_TABLES = 8
HASH_TYPE, STATE_TYPE = "hash", "state"
#: Of tables whose buckets are computed from the key, or that have one.
COMPUTED_BUCKETS = "bucket"

# Indexes kept in this process: they live from batch to batch, those of the tables used last.
_in_memory: OrderedDict[str, Locator] = OrderedDict()
_in_memory_lock = threading.RLock()


def index_folder(paths: TablePaths) -> str:
    """Return the directory for files of an index: beside the staged batches, outside the table's directory."""
    return join(staging_root(paths), _INDEX_FOLDER)


@dataclass(frozen=True, slots=True, eq=False)
class TableIndex:
    """The index type that assigns a table's rows, found once for a schema; pickles.

    keyed     the table has a primary key
    type      None where the bucket function places rows
    options   of the table; in a cross-partition table ``cross-partition-upsert.index-ttl`` is the state's TTL
    locator   what finds keys, to see which ports it implements; `open` gives one to work with. None: the HASH index, or the
              bucket function
    """

    keyed: bool
    type: IndexType | None
    options: IndexOptions
    locator: Locator | None

    @classmethod
    def of(cls, schema: TableSchema) -> TableIndex:
        """Find the index type of a table by its options."""
        computed = schema.bucket_mode not in (BucketMode.HASH_DYNAMIC, BucketMode.KEY_DYNAMIC)
        return schema.once("table_index", lambda: cls._found(bool(schema.primary_keys), computed, _index_texts(schema)))

    @classmethod
    def _found(cls, keyed: bool, computed: bool, raw: dict[str, str]) -> TableIndex:
        options = IndexOptions(raw)
        if computed:
            return cls(keyed, None, options, None)
        found = find_type(options)
        options = options if found.options is IndexOptions else found.options(raw)
        return cls(keyed, found, options, make_locator(options))

    def __reduce__(self) -> tuple[Any, ...]:
        return TableIndex._found, (self.keyed, self.type is None, self.options.raw)

    @property
    def name(self) -> str:
        """The index type; "bucket" for tables whose buckets are computed."""
        return COMPUTED_BUCKETS if self.type is None else self.type.name

    @property
    def is_global(self) -> bool:
        """True when a key lives in one partition at a time."""
        return self.locator is not None and self.locator.is_global

    @property
    def by_hash_index(self) -> bool:
        """True when the table's own files are enough to find its keys in their partition: it may go to another such type."""
        return not self.is_global and not isinstance(self.locator, ExternalState)

    @property
    def limits(self) -> str:
        """What the index type cannot promise, "" when it promises everything."""
        return self.type.limits if self.type is not None and self.keyed else ""

    def context(self, metadata: TableMetadata, snapshot: Snapshot | None) -> IndexContext:
        """Return what a locator works with on a snapshot, with the options of the newest schema."""
        from lakeidx.key_index.table_view import make_tag_context

        made = make_tag_context(metadata, snapshot, index_dir=index_folder(metadata.paths))
        return replace(made, options=self.options)

    @contextmanager
    def open(self, paths: TablePaths) -> Iterator[Locator]:
        """Open the locator for one stage, and close it at the end.

        One that stays in the process is the same object for every stage and batch of it that works on the table.

        errors   InternalError when there is none
        """
        if self.type is not None and self.type.stays_in_process:
            with _in_memory_lock:
                yield self._remembered(paths)
            return
        with closing(self.made()) as locator:
            yield locator

    def made(self) -> Locator:
        """Return a new locator, which is not kept in the process."""
        found = None if self.type is None else make_locator(self.options)
        if found is None:
            raise InternalError(f"index type {self.name} has no locator")
        return found

    def forget(self, paths: TablePaths) -> None:
        """Drop what this process has kept from earlier batches of a table, if its type is kept."""
        with _in_memory_lock:
            _in_memory.pop(self._kept_name(paths), None)

    def _kept_name(self, paths: TablePaths) -> str:
        options = self.options
        of_index = (options.index_type, options.index_global_enabled, options.index_partition_regex)
        return "\n".join([paths.branch_root, *map(str, of_index)])

    def _remembered(self, paths: TablePaths) -> Locator:
        name = self._kept_name(paths)
        found = _in_memory.pop(name, None) or self.made()
        _in_memory[name] = found
        while len(_in_memory) > _MEMORY_TABLES:
            _in_memory.popitem(last=False)
        return found


def _index_texts(schema: TableSchema) -> dict[str, str]:
    raw = dict(schema.options)
    if schema.bucket_mode is BucketMode.KEY_DYNAMIC:
        raw.setdefault("index.type", STATE_TYPE)
        ttl = schema.table_options.cross_partition_upsert_index_ttl
        if ttl is not None:
            raw.setdefault("index.state.ttl", repr(ttl / _MS_PER_DAY))
        if raw["index.type"] == HASH_TYPE:
            raw["index.type"] = STATE_TYPE
    return raw


def check_index_type(schema: TableSchema) -> None:
    """Raise InvalidInputError or UnsupportedError for index options that cannot be used with the table."""
    from lakeidx.batch.index_type_checks import is_usable

    schema.once("index_type_checked", lambda: is_usable(schema))
