"""Which index type a table's rows are assigned by, whether its options fit together, and the tagger behind it.

============  =====================================  ==================================================================
bucket mode   ``index.type``                         bucket of a row
============  =====================================  ==================================================================
HASH_DYNAMIC  hash (default)                         HASH index; `lakeidx.pipeline.assign`, no tagger
HASH_DYNAMIC  bucket                                 HASH index for known keys, Hudi's bucket rule for new ones
HASH_DYNAMIC  all others                             where the tagger finds the key, else PartitionIndex rules
KEY_DYNAMIC   hash (not given), state, inmemory      where the key state has the key, else the bucket with room
HASH_FIXED    hash (default), bucket                 the bucket function
============  =====================================  ==================================================================
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from lakeidx.errors import InvalidInputError
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema import BucketMode, TableSchema
from lakeidx.pipeline.artifacts import staging_root
from lakeidx.storage.base import join
from lakeidx.tagging.base import Tagger
from lakeidx.tagging.options import IndexOptions
from lakeidx.tagging.state import StateTagger
from lakeidx.tagging.taggers import LIMITS, make_tagger

INDEX_FOLDER = "_index"
_MS_PER_DAY = 86_400_000
_MEMORY_TABLES = 8
_HASH, _BUCKET, _STATE = "hash", "bucket", "state"
_KEY_DYNAMIC_TYPES = (_STATE, "inmemory")

# Indexes kept in this process: they live from batch to batch, those of the tables used last.
_in_memory: OrderedDict[str, StateTagger] = OrderedDict()
_in_memory_lock = threading.RLock()


def index_folder(paths: TablePaths) -> str:
    """Where an index keeps files of its own: beside the staged batches, outside the table's directory."""
    return join(staging_root(paths), INDEX_FOLDER)


def index_options(schema: TableSchema) -> IndexOptions:
    """The options of a table's index; in a cross-partition table ``cross-partition-upsert.index-ttl`` is the state's TTL."""
    raw = dict(schema.options)
    if schema.bucket_mode is BucketMode.KEY_DYNAMIC:
        raw.setdefault("index.type", _STATE)
        ttl = schema.table_options.cross_partition_upsert_index_ttl
        if ttl is not None:
            raw.setdefault("index.state.ttl", repr(ttl / _MS_PER_DAY))
        if raw["index.type"] == _HASH:
            raw["index.type"] = _STATE
    return IndexOptions(raw)


def index_type(schema: TableSchema) -> str:
    """The index type that assigns a table's rows; "bucket" for tables whose buckets are computed."""
    if schema.bucket_mode in (BucketMode.HASH_FIXED, BucketMode.BUCKET_UNAWARE):
        return _BUCKET
    return str(index_options(schema).index_type)


def uses_tagger(schema: TableSchema) -> bool:
    """True when rows are assigned by a tagger, False when the HASH index alone or the bucket function tells."""
    mode = schema.bucket_mode
    return mode is BucketMode.KEY_DYNAMIC or (mode is BucketMode.HASH_DYNAMIC and index_type(schema) != _HASH)


def is_global(schema: TableSchema) -> bool:
    """True when a key lives in one partition at a time."""
    return uses_tagger(schema) and make_tagger(index_options(schema)).is_global


def check_index_type(schema: TableSchema) -> None:
    """InvalidInputError or UnsupportedError, one clear line, for index options that do not go with the table."""
    options, mode = index_options(schema), schema.bucket_mode
    kind = str(options.index_type)
    if not schema.primary_keys:
        if kind != _HASH:
            raise InvalidInputError(f"option 'index.type' = {kind} needs a primary key")
        return
    if kind == "hbase" and not options.hoodie_index_hbase_table:
        raise InvalidInputError("option 'index.type' = hbase needs option 'hoodie.index.hbase.table'")
    if mode is BucketMode.HASH_FIXED:
        _check_fixed(schema, options, kind)
    elif mode is BucketMode.KEY_DYNAMIC:
        _check_cross_partition(schema, options, kind)
    if uses_tagger(schema) and is_global(schema):
        _check_moves(schema, options)


def limits_of(schema: TableSchema) -> str:
    """What the table's index type cannot promise, "" when there is nothing to say."""
    if not schema.primary_keys or not uses_tagger(schema):
        return ""
    return LIMITS[index_type(schema)]


@contextmanager
def opened_tagger(schema: TableSchema, paths: TablePaths) -> Iterator[Tagger]:
    """The table's tagger, for one stage; what it holds open is released at the end.

    `inmemory` is the same object for every stage and batch of this process that works on the table.
    """
    options = index_options(schema)
    if options.index_type == "inmemory":
        with _in_memory_lock:
            yield _remembered(options, paths)
        return
    tagger = make_tagger(options)
    try:
        yield tagger
    finally:
        if isinstance(tagger, StateTagger):
            tagger.close()


def forget_in_memory() -> None:
    """Drop the indexes of type `inmemory` that this process keeps; they are built again when they are needed."""
    with _in_memory_lock:
        _in_memory.clear()


def _remembered(options: IndexOptions, paths: TablePaths) -> StateTagger:
    name = f"{paths.root}\n{options.index_global_enabled}\n{options.index_partition_regex}"
    found = _in_memory.pop(name, None)
    if found is None:
        made = make_tagger(options)
        assert isinstance(made, StateTagger)
        found = made
    _in_memory[name] = found
    while len(_in_memory) > _MEMORY_TABLES:
        _in_memory.popitem(last=False)
    return found


def _check_fixed(schema: TableSchema, options: IndexOptions, kind: str) -> None:
    if kind not in (_HASH, _BUCKET):
        raise InvalidInputError(
            f"option 'index.type' = {kind} needs 'bucket' = '-1': in a table of {schema.bucket} buckets the key says the "
            "bucket and nothing is looked up"
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
    if kind not in _KEY_DYNAMIC_TYPES:
        raise InvalidInputError(
            f"option 'index.type' = {kind} does not go with a primary key that leaves out partition columns; use state "
            "or inmemory"
        )
    if not options.index_global_enabled:
        raise InvalidInputError(
            "option 'index.global.enabled' = false does not go with a primary key that leaves out partition columns: each "
            "key lives in one partition"
        )
    if options.index_partition_regex != ".*":
        raise InvalidInputError(
            "option 'index.partition.regex' does not go with a primary key that leaves out partition columns: keys of the "
            "other partitions would be written a second time"
        )


def _check_moves(schema: TableSchema, options: IndexOptions) -> None:
    """Deletes in the old partition must win there."""
    if schema.table_options.merge_engine != "deduplicate" or not make_tagger(options).moves_keys:
        return
    if options.sequence_field:
        raise InvalidInputError(
            "option 'sequence.field' does not go with an index over partitions that moves keys: an older row would be "
            "deleted in one partition and stay in another"
        )
    if options.ignore_delete:
        raise InvalidInputError(
            "option 'ignore-delete' does not go with an index over partitions that moves keys by deletes"
        )
