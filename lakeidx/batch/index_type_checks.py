"""Checks of a table's index options: whether its index type can be used with its keys, buckets and merge engine."""

from __future__ import annotations

from lakeidx.batch.index_types import HASH_TYPE, TableIndex
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.registry import find_type, index_types
from lakeidx.options.names import nearest, unknown_message
from lakeidx.plugins import INDEX_TYPES as PLUGINS
from lakeidx.plugins import plugin_names


def is_usable(schema: TableSchema) -> bool:
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
        if key in known or not key.startswith(("index.", "hoodie.")):
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
