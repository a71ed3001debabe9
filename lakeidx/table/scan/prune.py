"""Pure pruning rules: which manifests, files and buckets can contain a row that a predicate selects.

source   org.apache.paimon.operation.KeyValueFileStoreScan, org.apache.paimon.manifest.BucketEntry, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from lakeidx.codec.rows.binary_row import decode_row, split_arity
from lakeidx.errors import CorruptFileError
from lakeidx.format.data_file import DataFileMeta, SimpleStats
from lakeidx.format.manifest_list import ManifestFileMeta
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.predicate import TRUE, BoundPredicate, ColumnStats, Predicate, may_match_stats
from lakeidx.types import DataType


def stats_of(
    stats: SimpleStats,
    names: Sequence[str],
    types: Sequence[DataType],
    row_count: int | None,
    wanted: Collection[str] | None = None,
) -> dict[str, ColumnStats]:
    """Return the SimpleStats as statistics by column name; nothing is known of columns that a writer left out.

    row_count   0 as None: what holds nothing is in no list, and other writers may not count
    wanted   only these columns, those of them that there are; None = all
    """
    nulls: Sequence[int | None] = stats.null_counts if stats.null_counts else [None] * len(names)
    if len(nulls) != len(names):
        raise CorruptFileError(f"statistics of {len(names)} columns have {len(nulls)} null counts")
    row_count = row_count or None
    arity, lowest = split_arity(stats.min_values)
    if arity == 0 and names:
        return {name: ColumnStats(row_count=row_count) for name in names if wanted is None or name in wanted}
    at = [i for i, name in enumerate(names) if wanted is None or name in wanted]
    low = decode_row(lowest, types, at)
    high = decode_row(split_arity(stats.max_values)[1], types, at)
    return {names[i]: ColumnStats(lo, hi, nulls[i], row_count) for i, lo, hi in zip(at, low, high, strict=True)}


def manifest_may_match(meta: ManifestFileMeta, partition_predicate: Predicate, schema: TableSchema) -> bool:
    """Test a manifest by its partition statistics."""
    if partition_predicate == TRUE or not schema.partition_keys:
        return True
    entries = meta.num_added_files + meta.num_deleted_files
    return may_match_stats(
        partition_predicate, stats_of(meta.partition_stats, schema.partition_keys, schema.partition_types, entries)
    )


def partition_matcher(partition_predicate: Predicate, schema: TableSchema) -> Callable[[bytes], bool]:
    """Make a test for partition bytes; each distinct partition is decoded once."""
    known: dict[bytes, bool] = {}

    def matches(partition: bytes) -> bool:
        found = known.get(partition)
        if found is None:
            values = decode_row(split_arity(partition)[1], schema.partition_types)
            stats = {
                name: ColumnStats(v, v, int(v is None), 1)
                for name, v in zip(schema.partition_keys, values, strict=True)
            }
            found = known[partition] = may_match_stats(partition_predicate, stats)
        return found

    return matches


def keys_may_match(file: DataFileMeta, key_predicate: BoundPredicate, schema: TableSchema) -> bool:
    """Test a file by its key range. Safe for merging: all versions of a key are in that range."""
    names, types = schema.trimmed_primary_keys, schema.key_types
    low = decode_row(split_arity(file.min_key)[1], types)
    high = decode_row(split_arity(file.max_key)[1], types)
    stats = stats_of(file.key_stats, names, types, file.row_count, {names[0], *key_predicate.columns})
    # Bounds of the first key column come exactly from the smallest and largest key.
    first = names[0]
    if low[0] is not None and high[0] is not None:
        stats[first] = ColumnStats(low[0], high[0], stats[first].null_count, file.row_count)
    return may_match_stats(key_predicate.predicate, stats)


def value_stats(file: DataFileMeta, file_schema: TableSchema, wanted: Collection[str]) -> dict[str, ColumnStats]:
    """Return the value statistics of a file by the names its own schema has, of those of some columns that it has."""
    names = file.value_stats_cols if file.value_stats_cols is not None else file_schema.field_names
    return stats_of(file.value_stats, names, file_schema.types_of(names), file.row_count, wanted)


def values_may_match(file: DataFileMeta, predicate: BoundPredicate, schema: TableSchema) -> bool:
    """Return False when by its value statistics surely no row of a file is selected.

    schema   the one the file was written with
    """
    of_file, wanted = predicate.of_files(schema.id, schema.fields)
    stats = value_stats(file, schema, wanted)
    for name in wanted - stats.keys():
        stats[name] = ColumnStats(None, None, None, file.row_count)
    return may_match_stats(of_file, stats)


def prune_bucket_by_values(
    files: Sequence[DataFileMeta], may_match: Callable[[DataFileMeta], bool], *, whole_bucket_rule: bool
) -> list[DataFileMeta]:
    """Prune by value statistics the files of one bucket, which may overlap.

    All on one level above 0: file by file. Otherwise dropping one version of a key would bring an older one back, so the
    bucket goes as a whole or not at all; not even that when a merge may make values that no file holds
    (`whole_bucket_rule` False: partial-update and aggregation).
    """
    levels = {f.level for f in files}
    if len(levels) == 1 and 0 not in levels:
        return [f for f in files if may_match(f)]
    if whole_bucket_rule and not any(may_match(f) for f in files):
        return []
    return list(files)
