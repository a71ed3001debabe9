"""The index type that assigns a table's rows, and whether it can be used with the table's keys, buckets and merge engine.

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
from lakeidx.errors import InternalError, InvalidInputError
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.port import ExternalState, IndexContext, Locator
from lakeidx.key_index.registry import IndexType, find_type, index_types, make_locator
from lakeidx.options.names import INDEX_PREFIXES, nearest, unknown_message
from lakeidx.plugins import INDEX_TYPES as PLUGINS
from lakeidx.plugins import plugin_names
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
    schema.once("index_type_checked", lambda: _is_usable(schema))


def _is_usable(schema: TableSchema) -> bool:
    """Return True; raise InvalidInputError or UnsupportedError for index options that cannot be used with the table."""
    index, mode = TableIndex.of(schema), schema.bucket_mode
    options, kind = index.options, str(index.options.index_type)
    _check_names(schema, find_type(options).options)
    if not schema.primary_keys:
        if kind != HASH_TYPE:
            raise InvalidInputError(f"option 'index.type' = {kind} needs a primary key")
        return True
    needed = find_type(options).requires
    if needed and not options.raw.get(needed):
        raise InvalidInputError(f"option 'index.type' = {kind} needs option {needed!r}")
    if mode is BucketMode.HASH_FIXED:
        _check_fixed(schema, options, kind)
    elif mode is BucketMode.KEY_DYNAMIC:
        _check_cross_partition(schema, options, kind)
    if index.is_global:
        _check_moves(index, schema.table_options.merge_engine)
    return True


def _check_names(schema: TableSchema, family: type[IndexOptions]) -> None:
    """Refuse misspelt options of the index family; Hudi's others, and those of plug-ins that the table does not use, are taken as
    they are.
    """
    known = {option.key for option in family.declared()} | family.unused.keys()
    for key in schema.options:
        if key in known or not key.startswith(INDEX_PREFIXES):
            continue
        near = nearest(key, known, slip=key.startswith("hoodie."))
        of_plugin = key.split(".")[1] in plugin_names(PLUGINS)
        if near is not None or not (of_plugin or key.startswith("hoodie.")):
            raise InvalidInputError(unknown_message(key, near))


def _check_fixed(schema: TableSchema, options: IndexOptions, kind: str) -> None:
    if not find_type(options).fixed_buckets:
        raise InvalidInputError(
            f"option 'index.type' = {kind} needs 'bucket' = '-1': in a table of {schema.bucket} "
            "buckets they are computed from keys, without an index"
        )
    if kind == HASH_TYPE:
        return
    if options.hoodie_index_bucket_engine != "SIMPLE":
        raise InvalidInputError(
            "option 'hoodie.index.bucket.engine' = CONSISTENT_HASHING needs 'bucket' = '-1': the number of buckets changes"
        )
    if options.raw.get("hoodie.bucket.index.num.buckets") not in (None, str(schema.bucket)):
        raise InvalidInputError(
            f"option 'hoodie.bucket.index.num.buckets' must be left out or be 'bucket', {schema.bucket}"
        )
    fields = tuple(options.hoodie_bucket_index_hash_field)
    if fields and fields != schema.bucket_keys:
        raise InvalidInputError(
            "option 'hoodie.bucket.index.hash.field' must be left out in a table with fixed buckets; use 'bucket-key'"
        )


def _check_cross_partition(schema: TableSchema, options: IndexOptions, kind: str) -> None:
    if not find_type(options).cross_partition:
        able = sorted((t.name for t in index_types() if t.cross_partition), reverse=True)
        raise InvalidInputError(
            f"option 'index.type' = {kind} cannot be combined with a primary key that leaves out partition columns; use "
            f"{' or '.join(able)}"
        )
    if not options.index_global_enabled:
        raise InvalidInputError(
            "option 'index.global.enabled' = false cannot be combined with a primary key that leaves out partition columns: each "
            "key lives in one partition"
        )
    if options.index_partition_regex != ".*":
        raise InvalidInputError(
            "option 'index.partition.regex' cannot be combined with a primary key that leaves out partition columns: keys of the "
            "other partitions would be written a second time"
        )


def _check_moves(index: TableIndex, merge_engine: str) -> None:
    """Check that deletes in the old partition win there."""
    moves = index.locator is not None and index.locator.moves_keys
    if not moves or merge_engine != "deduplicate":
        return
    if index.options.sequence_field:
        raise InvalidInputError(
            "option 'sequence.field' cannot be combined with an index over partitions that moves keys: an older row would be "
            "deleted in one partition and stay in another"
        )
    if index.options.ignore_delete:
        raise InvalidInputError(
            "option 'ignore-delete' cannot be combined with an index over partitions that moves keys by deletes"
        )
