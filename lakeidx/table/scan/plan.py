"""Plans a scan: from a predicate down to the files to read, layer by layer, each layer accounted for.

Layers, in order: manifests and partitions (partition predicate), key ranges, buckets (bucket keys, hash index), value
statistics, embedded file indexes; reading continues with file indexes beside the files, row groups and row positions. Every
layer only ever drops what surely holds no selected row, and never one version of a key while another version stays.

source   org.apache.paimon.operation.KeyValueFileStoreScan, org.apache.paimon.table.source.MergeTreeSplitGenerator, release 1.4.2
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from lakeidx.codec.rows.binary_row import split_arity
from lakeidx.codec.rows.binary_row_read import decode_row
from lakeidx.codec.values import internal_to_arrow
from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.format.data_file import DataFileMeta, SimpleStats
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.manifest_list import ManifestFileMeta
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.format.schema.table_schema import check_use
from lakeidx.format.snapshot import Snapshot
from lakeidx.options.arguments import texts, whole_number
from lakeidx.options.features import Use
from lakeidx.predicate import (
    TRUE,
    BoundPredicate,
    ColumnStats,
    Predicate,
    columns,
    equality_values,
    may_match_stats,
    project,
    split_and,
)
from lakeidx.table.deletion_vectors import StoredVector, deletion_vectors
from lakeidx.table.entries import Entries, live_files, where_partition
from lakeidx.table.intervals import Section, sections_of
from lakeidx.table.key_buckets import buckets_by_function, find_hits, key_hashes
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan.metrics import LayerTrace
from lakeidx.table.view import HASH_INDEX, SnapshotView, load_live
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


def _manifest_may_match(meta: ManifestFileMeta, partition_predicate: Predicate, schema: TableSchema) -> bool:
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


def _values_may_match(file: DataFileMeta, predicate: BoundPredicate, schema: TableSchema) -> bool:
    """Return False when by its value statistics surely no row of a file is selected.

    schema   the one the file was written with
    """
    of_file, wanted = predicate.of_files(schema.id, schema.fields)
    stats = value_stats(file, schema, wanted)
    for name in wanted - stats.keys():
        stats[name] = ColumnStats(None, None, None, file.row_count)
    return may_match_stats(of_file, stats)


def _prune_bucket_by_values(
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


@dataclass(frozen=True, slots=True)
class BucketFiles:
    """Files of one bucket that a scan reads.

    sections   key ranges that do not overlap, in key order; the runs of a section must be merged (see `merge`)
    merge      False when every file may be read by itself: no two files hold the same key, and none holds deletes
    deletion_vectors   data file name -> where its deletion vector lies, for files with deleted rows
    """

    partition: bytes
    bucket: int
    total_buckets: int
    sections: tuple[Section, ...]
    merge: bool
    deletion_vectors: dict[str, StoredVector] = field(default_factory=dict)
    fallback: bool = False

    def files(self) -> list[DataFileMeta]:
        """Return all files, section by section."""
        return [f for section in self.sections for run in section for f in run]


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """A planned scan.

    snapshot    None for a table without snapshots
    schema      the schema rows are read as
    predicate   bound to that schema; TRUE = all rows
    buckets     what to read
    trace       one entry per layer, in order
    first       of a range of commits that is read: the oldest, which is the first to expire
    outlives    what is read of the commits outlives their snapshots as changelogs
    fallback    the branch that partitions are read from which the table lacks, and how: `BucketFiles.fallback` (no buckets)
    """

    snapshot: Snapshot | None
    schema: TableSchema
    predicate: Predicate
    buckets: tuple[BucketFiles, ...]
    trace: tuple[LayerTrace, ...]
    first: Snapshot | None = None
    outlives: bool = False
    fallback: tuple[TableMetadata, ScanPlan] | None = None


#: Tests an embedded file index: False when surely no row is selected.
EmbeddedTest = Callable[[DataFileMeta, TableSchema], bool]
KeepFile = Callable[[ManifestEntry], bool]


def plan_scan(
    metadata: TableMetadata,
    snapshot: Snapshot | None,
    schema: TableSchema,
    predicate: Predicate = TRUE,
    *,
    embedded_test: EmbeddedTest | None = None,
    least_level: int | None = None,
    view: SnapshotView | None = None,
    without: Collection[bytes] = (),
) -> ScanPlan:
    """Plan the scan of one snapshot.

    predicate     bound to `schema`
    embedded_test   tests embedded file indexes; None: neither these nor buckets are asked
    least_level   files of lower levels are left out; None: what batch readers see; 0: all that is committed
    view          what was read of the snapshot already: the scan is of these files; only for a predicate of all rows
    without       partitions that are left out
    errors      UnsupportedError when an option of the table makes reading go wrong
    """
    check_use(schema, Use.READ, metadata.paths.root)
    trace: list[LayerTrace] = []
    if snapshot is None:
        return ScanPlan(None, schema, predicate, (), ())
    partition_predicate = project(predicate, schema.partition_keys)
    found = view.entries if view else _read_manifests(metadata, snapshot, schema, partition_predicate, trace)
    if without:
        found = found.of_partitions(where_partition(lambda p: p not in without))
    if view is None:
        _trace_partitions(found, trace)
    left = None if partition_predicate == TRUE else set(found.partition_counts())
    index = metadata.load_index_manifest(snapshot.index_manifest, partitions=left) if view is None else view.index
    options = schema.table_options
    least = int(skips_level_0(schema)) if least_level is None else least_level
    found = _seen(found, schema, least, trace)
    entries = list(found)
    bound = BoundPredicate(predicate, schema.fields)
    of_keys = bound.projected(schema.trimmed_primary_keys)
    if schema.primary_keys and of_keys.predicate != TRUE:
        entries = _layer(trace, "key range", entries, lambda e: keys_may_match(e.file, of_keys, schema))
    if embedded_test is not None and predicate != TRUE:
        started = time.monotonic()
        wanted = _bucket_test(metadata, schema, predicate, index, entries)
        if wanted is not None:
            entries = _layer(trace, "bucket", entries, wanted, started)
    grouped = _group(entries)
    if predicate != TRUE:
        _prune_values(metadata, schema, bound, grouped, trace, with_level_0=least == 0)
    vectors = deletion_vectors(index)
    buckets = tuple(
        _bucket_files(schema, partition, bucket, total, files, vectors)
        for (partition, bucket, total), files in grouped.items()
        if files
    )
    if embedded_test is not None and predicate != TRUE and options.file_index_read_enabled:
        buckets = _prune_embedded(metadata, buckets, embedded_test, trace)
    return ScanPlan(snapshot, schema, predicate, buckets, tuple(trace))


def _seen(found: Entries, schema: TableSchema, least: int, trace: list[LayerTrace]) -> Entries:
    """Return the files that readers see: of buckets, and of the least level on."""
    if schema.bucket_mode is BucketMode.POSTPONE:
        # Rows that wait for a bucket are not part of the table yet.
        found = _column_layer(trace, "postponed", found, lambda e: e.select(e.column("bucket") >= 0))
    if least:
        name = "level 0" if least == 1 else f"levels below {least}"
        found = _column_layer(trace, name, found, lambda e: e.select(e.column("level") >= least))
    return found


def partitions_seen(
    metadata: TableMetadata, snapshot: Snapshot, schema: TableSchema, predicate: Predicate
) -> set[bytes]:
    """Return the partitions of a snapshot that readers see files of, those that a predicate rules out left out."""
    wanted = project(predicate, schema.partition_keys)
    found = _read_manifests(metadata, snapshot, schema, wanted, [])
    return set(_seen(found, schema, int(skips_level_0(schema)), []).partition_counts())


def skips_level_0(schema: TableSchema) -> bool:
    """Return True for tables whose batch readers see only compacted rows: deletion vectors without merge-on-read, first-row."""
    options = schema.table_options
    if not schema.primary_keys:
        return False
    if options.deletion_vectors_enabled:
        return not options.deletion_vectors_merge_on_read
    return options.merge_engine == "first-row"


def _needs_merge(files: Sequence[DataFileMeta], schema: TableSchema) -> bool:
    """Return False when the files of a bucket may be read one by one: no deletes, no key in two files."""
    if not schema.primary_keys:
        return False
    if any(f.may_hold_deletes for f in files):
        return True
    return not (skips_level_0(schema) or len({f.level for f in files}) == 1)


def _read_manifests(
    metadata: TableMetadata,
    snapshot: Snapshot,
    schema: TableSchema,
    predicate: Predicate,
    trace: list[LayerTrace],
) -> Entries:
    """Read the manifests that may hold a wanted partition, and of them the entries of such partitions."""
    started = time.monotonic()
    metas = metadata.data_manifests(snapshot)
    kept = [m for m in metas if _manifest_may_match(m, predicate, schema)]
    if predicate == TRUE:
        entries = load_live(metadata, snapshot)
    else:
        wanted = where_partition(partition_matcher(predicate, schema))
        where = metadata.paths.manifest_path(snapshot.base_manifest_list)
        entries = live_files(metadata.load_manifests(kept, keep=wanted), where=where)
    before, after = ([m.file_size for m in some] for some in (metas, kept))
    trace.append(_traced("manifest", before, after, started, "manifests"))
    return entries


def _trace_partitions(found: Entries, trace: list[LayerTrace]) -> None:
    """Count what was pruned while the manifests were read; the time is part of theirs."""
    size, (files, left_out) = int(found.column("file_size").sum()), found.left_out
    trace.append(LayerTrace("partition", "files", len(found) + files, len(found), size + left_out, size))


def _column_layer(trace: list[LayerTrace], name: str, entries: Entries, prune: Callable[[Entries], Entries]) -> Entries:
    started = time.monotonic()
    kept = prune(entries)
    before, after = (e.column("file_size").tolist() for e in (entries, kept))
    trace.append(_traced(name, before, after, started))
    return kept


def _layer(
    trace: list[LayerTrace],
    name: str,
    entries: list[ManifestEntry],
    keep: Callable[[ManifestEntry], bool],
    started: float | None = None,
) -> list[ManifestEntry]:
    started = time.monotonic() if started is None else started
    kept = [e for e in entries if keep(e)]
    before, after = ([e.file.file_size for e in some] for some in (entries, kept))
    trace.append(_traced(name, before, after, started))
    return kept


def _traced(name: str, before: Sequence[int], after: Sequence[int], started: float, unit: str = "files") -> LayerTrace:
    """Return the trace of a layer that left some files, or other units, of those before: bytes of each."""
    seconds = time.monotonic() - started
    return LayerTrace(name, unit, len(before), len(after), sum(before), sum(after), seconds)


_Grouped = dict[tuple[bytes, int, int], list[DataFileMeta]]


def _group(entries: Sequence[ManifestEntry]) -> _Grouped:
    out: _Grouped = {}
    for entry in entries:
        out.setdefault((entry.partition, entry.bucket, entry.total_buckets), []).append(entry.file)
    return out


def _prune_values(
    metadata: TableMetadata,
    schema: TableSchema,
    bound: BoundPredicate,
    grouped: _Grouped,
    trace: list[LayerTrace],
    *,
    with_level_0: bool,
) -> None:
    started = time.monotonic()
    # Partition columns have been dealt with exactly; what is left refers to other columns.
    rest = [c for c in split_and(bound.predicate) if not set(columns(c)) <= set(schema.partition_keys)]
    if not rest:
        return

    def may_match(file: DataFileMeta) -> bool:
        return _values_may_match(file, bound, metadata.load_schema(file.schema_id))

    before = [f.file_size for files in grouped.values() for f in files]
    # Above level 0, deletion vectors leave one version of a key; elsewhere a merge chooses among versions.
    alone = not schema.primary_keys or (skips_level_0(schema) and not with_level_0)
    engine_keeps_values = schema.table_options.merge_engine in ("deduplicate", "first-row")
    for place, files in grouped.items():
        if alone:
            grouped[place] = [f for f in files if may_match(f)]
        else:
            grouped[place] = _prune_bucket_by_values(files, may_match, whole_bucket_rule=engine_keeps_values)
    after = [f.file_size for files in grouped.values() for f in files]
    trace.append(_traced("value statistics", before, after, started))


def _prune_embedded(
    metadata: TableMetadata, buckets: tuple[BucketFiles, ...], test: EmbeddedTest, trace: list[LayerTrace]
) -> tuple[BucketFiles, ...]:
    """Drop files by their embedded indexes, where no other file has an older or newer version of their rows."""
    if not any(f.embedded_index for b in buckets for f in b.files()):
        return buckets
    started = time.monotonic()
    out = []
    for bucket in buckets:
        sections = []
        for section in bucket.sections:
            if len(section) > 1:
                sections.append(section)
                continue
            run = tuple(f for f in section[0] if not f.embedded_index or test(f, metadata.load_schema(f.schema_id)))
            if run:
                sections.append((run,))
        if sections:
            out.append(replace(bucket, sections=tuple(sections)))
    before, after = ([f.file_size for b in some for f in b.files()] for some in (buckets, out))
    trace.append(_traced("embedded file index", before, after, started))
    return tuple(out)


def _bucket_files(
    schema: TableSchema,
    partition: bytes,
    bucket: int,
    total: int,
    files: list[DataFileMeta],
    vectors: dict[tuple[bytes, int, str], StoredVector],
) -> BucketFiles:
    mine = {f.file_name: vectors[key] for f in files if (key := (partition, bucket, f.file_name)) in vectors}
    merge = _needs_merge(files, schema)
    if schema.primary_keys and merge:
        sections = sections_of(files, schema.key_types)
    else:
        sections = tuple(((f,),) for f in files)
    return BucketFiles(partition, bucket, total, sections, merge, mine)


def selected_columns(schema: TableSchema, columns: Sequence[str] | None, limit: int | None) -> tuple[str, ...]:
    """Return the columns of a scan's result; None = all.

    errors   InvalidInputError for a column that is not there, one text in place of several, a negative number of rows
    """
    if limit is not None and whole_number(limit, name="limit") < 0:
        raise InvalidInputError(f"limit must be 0 or more rows, not {limit}")
    names = schema.field_names if columns is None else texts(columns, name="columns")
    for name in names:
        schema.field(name)
    return names


def _bucket_test(
    metadata: TableMetadata,
    schema: TableSchema,
    predicate: Predicate,
    index: Sequence[IndexEntry],
    entries: Sequence[ManifestEntry],
) -> KeepFile | None:
    """Make a test of files by their bucket; None where the predicate excludes none.

    index     live index files
    entries   files in question
    """
    if schema.bucket_mode is BucketMode.HASH_FIXED and schema.bucket_keys:
        return _fixed(predicate, schema)
    if schema.bucket_mode is BucketMode.HASH_DYNAMIC:
        return _dynamic(predicate, index, {(e.partition, e.bucket) for e in entries}, metadata, schema)
    return None


def _fixed(predicate: Predicate, schema: TableSchema) -> KeepFile | None:
    """Compute buckets by the bucket function, with the number of buckets that each file was written for."""
    values = equality_values(predicate, schema.bucket_keys)
    if values is None:
        return None
    keys = _key_table(schema, schema.bucket_keys, values)
    known: dict[int, set[int]] = {}

    def keep(entry: ManifestEntry) -> bool:
        total = entry.total_buckets
        if not values:
            return False
        if total <= 0:
            return True
        if total not in known:
            known[total] = set(buckets_by_function(schema, keys, total).tolist())
        return entry.bucket in known[total]

    return keep


def _dynamic(
    predicate: Predicate,
    index: Sequence[IndexEntry],
    places: Collection[tuple[bytes, int]],
    metadata: TableMetadata,
    schema: TableSchema,
) -> KeepFile | None:
    """Return the buckets whose hash index has one of the keys' hashes: the index file of each bucket in question is read.

    A bucket without a hash index, or with a damaged one, is kept.
    """
    values = equality_values(predicate, schema.trimmed_primary_keys)
    if values is None:
        return None
    if not values:
        return lambda entry: False
    hashes = key_hashes(schema, _key_table(schema, schema.trimmed_primary_keys, values))
    entries = [e for e in index if e.index_type == HASH_INDEX and (e.partition, e.bucket) in places]
    found = find_hits(metadata, schema, entries, [hashes], skip_damaged=True)
    without = {
        (hits.entry.partition, hits.entry.bucket)
        for hits in found
        if hits.hashes is not None and not np.isin(hits.hashes, hashes).any()
    }
    return lambda entry: (entry.partition, entry.bucket) not in without


def _key_table(schema: TableSchema, names: Sequence[str], values: Sequence[Sequence[Any]]) -> pa.Table:
    """Return the key values, internal ones, as rows of some columns."""
    types = schema.types_of(list(names))
    return pa.table(
        {n: internal_to_arrow([v[i] for v in values], t) for i, (n, t) in enumerate(zip(names, types, strict=True))}
    )
