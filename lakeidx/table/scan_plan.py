"""Plans a scan: from a predicate down to the files to read, layer by layer, each layer accounted for.

Layers, in order: manifests and partitions (partition predicate), key ranges, buckets (bucket keys, hash index), value
statistics, embedded file indexes; reading goes on with file indexes beside the files, row groups and row positions. Every
layer only ever drops what surely holds no selected row, and never one version of a key while another version stays.

source   org.apache.paimon.operation.KeyValueFileStoreScan, org.apache.paimon.table.source.MergeTreeSplitGenerator, release 1.4.2
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.index_manifest import DeletionVectorMeta, IndexEntry
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.schema import BucketMode, TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.predicate import TRUE, Predicate, columns, project, split_and
from lakeidx.table.intervals import Section, sections_of
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.prune import (
    ValuePruner,
    keys_may_match,
    manifest_may_match,
    partition_matcher,
    prune_bucket_by_values,
)
from lakeidx.table.scan_figures import LayerTrace
from lakeidx.table.view import DELETION_VECTORS, fold_entries


@dataclass(frozen=True, slots=True)
class BucketFiles:
    """Files of one bucket that a scan reads.

    sections   key ranges that do not overlap, in key order; the runs of a section must be merged (see `merge`)
    merge      False when every file may be read by itself: no two files hold the same key, and none holds deletes
    deletion_vectors   data file name -> (index file name, range) for files with deleted rows
    """

    partition: bytes
    bucket: int
    total_buckets: int
    sections: tuple[Section, ...]
    merge: bool
    deletion_vectors: dict[str, tuple[str, DeletionVectorMeta]] = field(default_factory=dict)

    def files(self) -> list[DataFileMeta]:
        """All files, section by section."""
        return [f for section in self.sections for run in section for f in run]


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """A planned scan.

    snapshot    None for a table without snapshots
    schema      the schema rows are read as
    predicate   bound to that schema; TRUE = all rows
    buckets     what to read
    trace       one entry per layer, in order
    layers      layers that take part, those of reading included
    """

    snapshot: Snapshot | None
    schema: TableSchema
    predicate: Predicate
    buckets: tuple[BucketFiles, ...]
    trace: tuple[LayerTrace, ...]
    layers: PlanOptions = field(default_factory=lambda: PlanOptions())

    @property
    def file_count(self) -> int:
        """Data files to open."""
        return sum(len(b.files()) for b in self.buckets)


#: Makes a test of files by their bucket from (predicate, live index entries, buckets in question); None: it cannot tell.
BucketFinder = Callable[
    [Predicate, Sequence[IndexEntry], "set[tuple[bytes, int]]"], "Callable[[ManifestEntry], bool] | None"
]
#: Tests an embedded file index: False when surely no row is selected.
EmbeddedTest = Callable[[DataFileMeta, TableSchema], bool]


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Which layers take part; all by default. Switching one off never changes a result (tests compare)."""

    partitions: bool = True
    buckets: bool = True
    keys: bool = True
    values: bool = True
    file_index: bool = True
    row_groups: bool = True
    filter_columns_first: bool = True


def plan_scan(
    metadata: TableMetadata,
    snapshot: Snapshot | None,
    schema: TableSchema,
    predicate: Predicate = TRUE,
    *,
    bucket_finder: BucketFinder | None = None,
    embedded_test: EmbeddedTest | None = None,
    layers: PlanOptions | None = None,
) -> ScanPlan:
    """Plan the scan of one snapshot.

    predicate   bound to `schema`
    """
    layers = layers or PlanOptions()
    trace: list[LayerTrace] = []
    if snapshot is None:
        return ScanPlan(None, schema, predicate, (), (), layers)
    partition_predicate = project(predicate, schema.partition_keys) if layers.partitions else TRUE
    entries = _read_manifests(metadata, snapshot, schema, partition_predicate, trace)
    index = metadata.index_manifest(snapshot.index_manifest)
    if layers.partitions:
        matches = partition_matcher(partition_predicate, schema)
        entries = _layer(trace, "partition", entries, lambda e: matches(e.partition))
    options = schema.table_options
    if schema.bucket_mode is BucketMode.POSTPONE:
        # Rows that wait for a bucket are not part of the table yet.
        entries = _layer(trace, "postponed", entries, lambda e: e.bucket >= 0)
    if skips_level_0(schema):
        entries = _layer(trace, "level 0", entries, lambda e: e.file.level > 0)
    key_predicate = project(predicate, schema.trimmed_primary_keys) if layers.keys and schema.primary_keys else TRUE
    if key_predicate != TRUE:
        entries = _layer(trace, "key range", entries, lambda e: keys_may_match(e.file, key_predicate, schema))
    if layers.buckets and bucket_finder is not None and predicate != TRUE:
        started = time.monotonic()
        wanted = bucket_finder(predicate, index, {(e.partition, e.bucket) for e in entries})
        if wanted is not None:
            entries = _layer(trace, "bucket", entries, wanted, started)
    grouped = _group(entries)
    if layers.values and predicate != TRUE:
        _prune_values(metadata, schema, predicate, grouped, trace)
    ranges = deletion_vector_ranges(index)
    buckets = tuple(
        _bucket_files(schema, partition, bucket, total, files, ranges)
        for (partition, bucket, total), files in grouped.items()
        if files
    )
    if layers.file_index and embedded_test is not None and predicate != TRUE and options.file_index_read_enabled:
        buckets = _prune_embedded(metadata, buckets, embedded_test, trace)
    return ScanPlan(snapshot, schema, predicate, buckets, tuple(trace), layers)


def skips_level_0(schema: TableSchema) -> bool:
    """True for tables whose batch readers see only compacted rows: deletion vectors without merge-on-read, first-row."""
    options = schema.table_options
    if not schema.primary_keys:
        return False
    if options.deletion_vectors_enabled:
        return not options.deletion_vectors_merge_on_read
    return options.merge_engine == "first-row"


def needs_merge(files: Sequence[DataFileMeta], schema: TableSchema) -> bool:
    """False when the files of a bucket may be read one by one: no deletes, no key in two files."""
    if not schema.primary_keys:
        return False
    if any(f.delete_row_count is None or f.delete_row_count > 0 for f in files):
        return True
    if any(f.level == 0 for f in files):
        return True
    return not (skips_level_0(schema) or len({f.level for f in files}) == 1)


def deletion_vector_ranges(index: Iterable[IndexEntry]) -> dict[tuple[bytes, int, str], tuple[str, DeletionVectorMeta]]:
    """Where the deletion vector of each data file lies: (partition, bucket, data file) -> (index file, range)."""
    out = {}
    for entry in index:
        if entry.index_type == DELETION_VECTORS:
            for meta in entry.dv_ranges or ():
                out[(entry.partition, entry.bucket, meta.data_file_name)] = (entry.file_name, meta)
    return out


def _read_manifests(
    metadata: TableMetadata, snapshot: Snapshot, schema: TableSchema, predicate: Predicate, trace: list[LayerTrace]
) -> list[ManifestEntry]:
    started = time.monotonic()
    metas = metadata.data_manifests(snapshot)
    kept = [m for m in metas if manifest_may_match(m, predicate, schema)]
    entries = fold_entries(
        (e for m in kept for e in metadata.manifest(m.file_name)),
        where=metadata.paths.manifest(snapshot.base_manifest_list),
    )
    trace.append(
        LayerTrace(
            "manifest",
            "manifests",
            len(metas),
            len(kept),
            sum(m.file_size for m in metas),
            sum(m.file_size for m in kept),
            time.monotonic() - started,
        )
    )
    return entries


def _layer(
    trace: list[LayerTrace],
    name: str,
    entries: list[ManifestEntry],
    keep: Callable[[ManifestEntry], bool],
    started: float | None = None,
) -> list[ManifestEntry]:
    started = time.monotonic() if started is None else started
    kept = [e for e in entries if keep(e)]
    trace.append(_files_trace(name, [e.file for e in entries], [e.file for e in kept], started))
    return kept


def _files_trace(
    name: str, before: Sequence[DataFileMeta], after: Sequence[DataFileMeta], started: float
) -> LayerTrace:
    return LayerTrace(
        name,
        "files",
        len(before),
        len(after),
        sum(f.file_size for f in before),
        sum(f.file_size for f in after),
        time.monotonic() - started,
    )


_Grouped = dict[tuple[bytes, int, int], list[DataFileMeta]]


def _group(entries: Sequence[ManifestEntry]) -> _Grouped:
    out: _Grouped = {}
    for entry in entries:
        out.setdefault((entry.partition, entry.bucket, entry.total_buckets), []).append(entry.file)
    return out


def _prune_values(
    metadata: TableMetadata, schema: TableSchema, predicate: Predicate, grouped: _Grouped, trace: list[LayerTrace]
) -> None:
    started = time.monotonic()
    # Partition columns have been dealt with exactly; what is left speaks of other columns.
    rest = [c for c in split_and(predicate) if not set(columns(c)) <= set(schema.partition_keys)]
    if not rest:
        return
    pruner = ValuePruner(predicate, schema.fields, metadata.schema)
    before = [f for files in grouped.values() for f in files]
    alone = not schema.primary_keys or skips_level_0(schema)
    engine_keeps_values = schema.table_options.merge_engine in ("deduplicate", "first-row")
    for place, files in grouped.items():
        if alone:
            grouped[place] = [f for f in files if pruner.may_match(f)]
        else:
            grouped[place] = prune_bucket_by_values(files, pruner.may_match, whole_bucket_rule=engine_keeps_values)
    trace.append(_files_trace("value statistics", before, [f for files in grouped.values() for f in files], started))


def _prune_embedded(
    metadata: TableMetadata, buckets: tuple[BucketFiles, ...], test: EmbeddedTest, trace: list[LayerTrace]
) -> tuple[BucketFiles, ...]:
    """Drop files by their embedded indexes, where no other file has an older or newer version of their rows."""
    before = [f for b in buckets for f in b.files()]
    if not any(f.embedded_index for f in before):
        return buckets
    started = time.monotonic()
    out = []
    for bucket in buckets:
        sections = []
        for section in bucket.sections:
            if len(section) > 1:
                sections.append(section)
                continue
            run = tuple(f for f in section[0] if not f.embedded_index or test(f, metadata.schema(f.schema_id)))
            if run:
                sections.append((run,))
        if sections:
            out.append(replace(bucket, sections=tuple(sections)))
    trace.append(_files_trace("embedded file index", before, [f for b in out for f in b.files()], started))
    return tuple(out)


def _bucket_files(
    schema: TableSchema,
    partition: bytes,
    bucket: int,
    total: int,
    files: list[DataFileMeta],
    ranges: dict[tuple[bytes, int, str], tuple[str, DeletionVectorMeta]],
) -> BucketFiles:
    vectors = {}
    for file in files:
        found = ranges.get((partition, bucket, file.file_name))
        if found is not None:
            vectors[file.file_name] = found
    merge = needs_merge(files, schema)
    if schema.primary_keys and merge:
        sections = sections_of(files, schema.key_types)
    else:
        sections = tuple(((f,),) for f in files)
    return BucketFiles(partition, bucket, total, sections, merge, vectors)
