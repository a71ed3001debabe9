"""The index type that assigns a table's rows, the check of its options, and its key index.

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
from contextlib import contextmanager
from dataclasses import replace

from lakeidx.batch.artifacts import staging_root
from lakeidx.errors import InvalidInputError
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.key_index.options import INDEX_OPTIONS, UNUSED, IndexOptions
from lakeidx.key_index.port import IndexContext, KeyIndex
from lakeidx.key_index.registry import find_type, index_types, make_key_index
from lakeidx.key_index.table_view import make_tag_context
from lakeidx.options.names import nearest, unknown_message
from lakeidx.storage.base import join
from lakeidx.table.metadata import TableMetadata

_INDEX_FOLDER = "_index"
_MS_PER_DAY = 86_400_000
_MEMORY_TABLES = 8
_HASH, _BUCKET, _STATE = "hash", "bucket", "state"
_KNOWN = frozenset({option.key for option in INDEX_OPTIONS} | UNUSED.keys())

# Indexes kept in this process: they live from batch to batch, those of the tables used last.
_in_memory: OrderedDict[str, KeyIndex] = OrderedDict()
_in_memory_lock = threading.RLock()


def index_folder(paths: TablePaths) -> str:
    """Return the directory for files of an index: beside the staged batches, outside the table's directory."""
    return join(staging_root(paths), _INDEX_FOLDER)


def index_options(schema: TableSchema) -> IndexOptions:
    """Parse the options of a table's index; in a cross-partition table ``cross-partition-upsert.index-ttl`` is the state's TTL."""
    return schema.once("index_options", lambda: IndexOptions(_index_texts(schema)))


def _index_texts(schema: TableSchema) -> dict[str, str]:
    raw = dict(schema.options)
    if schema.bucket_mode is BucketMode.KEY_DYNAMIC:
        raw.setdefault("index.type", _STATE)
        ttl = schema.table_options.cross_partition_upsert_index_ttl
        if ttl is not None:
            raw.setdefault("index.state.ttl", repr(ttl / _MS_PER_DAY))
        if raw["index.type"] == _HASH:
            raw["index.type"] = _STATE
    return raw


def index_type(schema: TableSchema) -> str:
    """Return the index type that assigns a table's rows; "bucket" for tables whose buckets are computed."""
    if schema.bucket_mode in (BucketMode.HASH_FIXED, BucketMode.BUCKET_UNAWARE):
        return _BUCKET
    return str(index_options(schema).index_type)


def uses_key_index(schema: TableSchema) -> bool:
    """Return True when an index type finds keys, False when the bucket function computes their buckets."""
    return schema.bucket_mode in (BucketMode.HASH_DYNAMIC, BucketMode.KEY_DYNAMIC)


def finds_by_keys(schema: TableSchema) -> bool:
    """Return True when the index type reads key columns, not only their hashes."""
    return uses_key_index(schema) and make_key_index(index_options(schema)).needs_keys


def is_global(schema: TableSchema) -> bool:
    """Return True when a key lives in one partition at a time."""
    return uses_key_index(schema) and make_key_index(index_options(schema)).is_global


def check_index_type(schema: TableSchema) -> None:
    """Raise InvalidInputError or UnsupportedError for index options that cannot be used with the table."""
    _check_names(schema)
    options, mode = index_options(schema), schema.bucket_mode
    kind = str(options.index_type)
    if not schema.primary_keys:
        if kind != _HASH:
            raise InvalidInputError(f"option 'index.type' = {kind} needs a primary key")
        return
    needed = find_type(options).requires
    if needed and not options.raw.get(needed):
        raise InvalidInputError(f"option 'index.type' = {kind} needs option {needed!r}")
    if mode is BucketMode.HASH_FIXED:
        _check_fixed(schema, options, kind)
    elif mode is BucketMode.KEY_DYNAMIC:
        _check_cross_partition(schema, options, kind)
    if uses_key_index(schema) and is_global(schema):
        _check_moves(schema, options)


def _check_names(schema: TableSchema) -> None:
    """Refuse misspelt options of the index family; Hudi's others are taken as they are."""
    for key in schema.options:
        if key in _KNOWN or not key.startswith(("index.", "hoodie.")):
            continue
        near = nearest(key, _KNOWN, slip=key.startswith("hoodie."))
        if near is not None or not key.startswith("hoodie."):
            raise InvalidInputError(unknown_message(key, near))


def limits_of(schema: TableSchema) -> str:
    """Describe what the table's index type cannot promise, "" when it promises everything."""
    if not schema.primary_keys or not uses_key_index(schema):
        return ""
    return find_type(index_options(schema)).limits


def follows_commits(schema: TableSchema) -> bool:
    """Return True when the index is notified of commits although it keeps no state outside the table."""
    options = index_options(schema)
    return uses_key_index(schema) and make_key_index(options).follows_commits(options)


def index_context(metadata: TableMetadata, schema: TableSchema, snapshot: Snapshot | None) -> IndexContext:
    """Return what the table's key index works with on a snapshot, with the options of `schema` (the newest ones)."""
    made = make_tag_context(metadata, snapshot, index_dir=index_folder(metadata.paths))
    return replace(made, options=index_options(schema))


@contextmanager
def open_key_index(schema: TableSchema, paths: TablePaths) -> Iterator[KeyIndex]:
    """Open the table's key index for one stage, and close it at the end.

    One that stays in the process is the same object for every stage and batch of it that works on the table.
    """
    options = index_options(schema)
    if find_type(options).stays_in_process:
        with _in_memory_lock:
            yield _remembered(options, paths)
        return
    key_index = make_key_index(options)
    try:
        yield key_index
    finally:
        key_index.close()


def forget_key_index(schema: TableSchema, paths: TablePaths) -> None:
    """Drop the key index of a table that this process has cached from earlier batches, if its type is cached."""
    with _in_memory_lock:
        _in_memory.pop(_name_of(index_options(schema), paths), None)


def _name_of(options: IndexOptions, paths: TablePaths) -> str:
    of_index = (options.index_type, options.index_global_enabled, options.index_partition_regex)
    return "\n".join([paths.branch_root, *map(str, of_index)])


def _remembered(options: IndexOptions, paths: TablePaths) -> KeyIndex:
    name = _name_of(options, paths)
    found = _in_memory.pop(name, None) or make_key_index(options)
    _in_memory[name] = found
    while len(_in_memory) > _MEMORY_TABLES:
        _in_memory.popitem(last=False)
    return found


def _check_fixed(schema: TableSchema, options: IndexOptions, kind: str) -> None:
    if not find_type(options).fixed_buckets:
        raise InvalidInputError(
            f"option 'index.type' = {kind} needs 'bucket' = '-1': in a table of {schema.bucket} "
            "buckets they are computed from keys, without an index"
        )
    if kind == _HASH:
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


def _check_moves(schema: TableSchema, options: IndexOptions) -> None:
    """Check that deletes in the old partition win there."""
    if schema.table_options.merge_engine != "deduplicate" or not make_key_index(options).moves_keys:
        return
    if options.sequence_field:
        raise InvalidInputError(
            "option 'sequence.field' cannot be combined with an index over partitions that moves keys: an older row would be "
            "deleted in one partition and stay in another"
        )
    if options.ignore_delete:
        raise InvalidInputError(
            "option 'ignore-delete' cannot be combined with an index over partitions that moves keys by deletes"
        )
