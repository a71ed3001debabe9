"""Carries out the compaction of one bucket: reads, merges, writes the new files, and says what to commit.

Nothing is deleted here: replaced files go when their snapshots expire. A crash leaves new files that nobody refers to.

source   org.apache.paimon.mergetree.compact.MergeTreeCompactTask, MergeTreeCompactRewriter, release 1.4.2
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.binary_row_vec import hash_columns
from lakeidx.codec.distinct import sorted_distinct
from lakeidx.compaction.plan import CompactionTask, Rewrite, Upgrade
from lakeidx.data.engines import make_engine
from lakeidx.data.level_column import with_level
from lakeidx.data.merge import merge_sorted_runs
from lakeidx.data.parquet_read import read_data_file
from lakeidx.data.parquet_write import write_data_files
from lakeidx.errors import UnsupportedError
from lakeidx.file_index import index_builder
from lakeidx.format.data_file import DataFileMeta, FileSource
from lakeidx.format.deletion_vector import Positions, decode_vector, vector_range
from lakeidx.format.hash_index import encode_hash_index
from lakeidx.format.index_manifest import DeletionVectorMeta, IndexEntry
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.paths import NewFileNames
from lakeidx.format.schema import TableSchema
from lakeidx.table.changes import TableChanges
from lakeidx.table.intervals import Section
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import DELETION_VECTORS, HASH_INDEX, decode_partition_dict
from lakeidx.tagging.bloom_footer import footer_builder
from lakeidx.types import STRING_ROOTS

_BATCH_ROWS = 131_072
_SAMPLE_ROWS = 4_096


@dataclass(frozen=True, slots=True)
class BucketCompaction:
    """One bucket's compaction; pickles.

    kept           live files of the bucket that the task leaves as they are
    vectors        data file -> (index file, range) of its deletion vector
    index          live index entries of the bucket (HASH, deletion vectors)
    shrink_index   rewrite the hash index with the hashes of live keys only; only for a full compaction
    """

    metadata: TableMetadata
    schema: TableSchema
    partition: bytes
    bucket: int
    total_buckets: int
    task: CompactionTask
    kept: tuple[DataFileMeta, ...] = ()
    vectors: Mapping[str, tuple[str, DeletionVectorMeta]] = field(default_factory=dict)
    index: tuple[IndexEntry, ...] = ()
    shrink_index: bool = False

    @property
    def place(self) -> tuple[bytes, int]:
        """(partition bytes, bucket)."""
        return self.partition, self.bucket

    @property
    def all_files(self) -> frozenset[str]:
        """Names of the files the bucket held when it was planned."""
        return frozenset(f.file_name for f in (*self.task.files, *self.kept))


@dataclass(frozen=True, slots=True)
class CompactedBucket:
    """What one bucket's compaction made.

    rows_in, rows_out     of rewritten files
    bytes_in, bytes_out   of rewritten files
    upgraded              files that only changed their level
    """

    partition: bytes
    bucket: int
    changes: TableChanges
    rows_in: int
    rows_out: int
    bytes_in: int
    bytes_out: int
    upgraded: int
    hashes_dropped: int = 0


def check_can_compact(schema: TableSchema) -> None:
    """UnsupportedError for tables whose compaction has to make changelog rows, which lakeidx does not."""
    producer = schema.table_options.changelog_producer
    if producer in ("lookup", "full-compaction"):
        raise UnsupportedError(
            f"changelog-producer={producer}: a compaction must write changelog rows, which lakeidx does not do; "
            "leave the compaction of this table to Java Paimon, or set changelog-producer to none or input"
        )


def compact_bucket(work: BucketCompaction) -> CompactedBucket:
    """Run the steps of a bucket's compaction.

    errors   CorruptFileError, NotFoundError naming the data file; InvalidInputError for what the engine cannot merge
    memory   a batch per sorted run, and a row group being written
    """
    schema, task = work.schema, work.task
    partition = decode_partition_dict(work.partition, schema)
    directory = work.metadata.paths.bucket_dir(partition, work.bucket)
    names = NewFileNames()
    removed: list[DataFileMeta] = []
    added: list[DataFileMeta] = []
    rows_in = rows_out = bytes_in = bytes_out = upgraded = 0
    seen = _LiveHashes(schema) if work.shrink_index else None
    if seen is not None:
        for rows in _read_run(work, directory, work.kept, schema.trimmed_primary_keys):
            seen.add(rows)
    for step in task.steps:
        removed.extend(step.files)
        if isinstance(step, Upgrade):
            if step.file.level != task.output_level:
                added.append(replace(step.file, level=task.output_level))
                upgraded += 1
            if seen is not None:
                for rows in _read_run(work, directory, [step.file], schema.trimmed_primary_keys):
                    seen.add(rows)
            continue
        made = write_data_files(
            _watched(_merged(work, directory, step), seen),
            schema,
            store=work.metadata.store,
            bucket_dir=directory,
            names=names,
            level=task.output_level,
            file_source=FileSource.COMPACT,
            index_builder=index_builder(schema),
            footer_metadata=footer_builder(schema),
            first_sequence=0 if schema.primary_keys else step.files[0].min_sequence_number,
        )
        added.extend(made)
        rows_in += sum(f.row_count for f in step.files)
        bytes_in += sum(f.file_size for f in step.files)
        rows_out += sum(f.row_count for f in made)
        bytes_out += sum(f.file_size for f in made)
    entries = [_entry(work, FileKind.DELETE, f) for f in removed] + [_entry(work, FileKind.ADD, f) for f in added]
    index, dropped = _index_changes(work, names, removed, seen)
    changes = TableChanges(compact=tuple(entries), compact_index=index)
    return CompactedBucket(
        work.partition, work.bucket, changes, rows_in, rows_out, bytes_in, bytes_out, upgraded, dropped
    )


def _entry(work: BucketCompaction, kind: FileKind, file: DataFileMeta) -> ManifestEntry:
    return ManifestEntry(
        kind=kind, partition=work.partition, bucket=work.bucket, total_buckets=work.total_buckets, file=file
    )


def _merged(work: BucketCompaction, directory: str, step: Rewrite) -> Iterator[pa.Table]:
    encoded = _repeating_texts(work, directory, step)
    for section in step.sections:
        yield from _merge_section(work, directory, section, step.drop_delete, encoded)


def _repeating_texts(work: BucketCompaction, directory: str, step: Rewrite) -> tuple[str, ...]:
    """Text columns with few different values: they stay dictionaries from reading to writing, where the engine only picks rows."""
    schema, options = work.schema, work.schema.table_options
    if options.merge_engine not in ("deduplicate", "first-row") or options.sequence_field:
        return ()
    texts = [f.name for f in schema.fields if f.type.root in STRING_ROOTS and f.name not in schema.primary_keys]
    if not texts:
        return ()
    biggest = max(step.files, key=lambda f: f.row_count)
    sample = next(_read_run(work, directory, [biggest], texts, batch_rows=_SAMPLE_ROWS), None)
    if sample is None:
        return ()
    return tuple(n for n in texts if pc.count_distinct(sample.column(n)).as_py() * 8 <= sample.num_rows)


def _merge_section(
    work: BucketCompaction, directory: str, section: Section, drop_delete: bool, encoded: Sequence[str]
) -> Iterator[pa.Table]:
    columns = work.schema.field_names
    runs = [_read_run(work, directory, run, columns, encoded=encoded) for run in section]
    if not work.schema.primary_keys:
        # Rows of an append table stay as they are, one file's after another's.
        return itertools.chain.from_iterable(runs)
    # One run has each key once: the merge then only drops deletes, and passes the batches through.
    return merge_sorted_runs(runs, work.schema, make_engine(work.schema), drop_deletes=drop_delete)


def _read_run(
    work: BucketCompaction,
    directory: str,
    run: Sequence[DataFileMeta],
    columns: Sequence[str],
    *,
    encoded: Sequence[str] = (),
    batch_rows: int = _BATCH_ROWS,
) -> Iterator[pa.Table]:
    for file in run:
        rows = read_data_file(
            work.metadata.store,
            file.external_path or f"{directory}/{file.file_name}",
            file,
            work.metadata.schema(file.schema_id),
            work.schema,
            columns,
            deletion_vector=_vector(work, file),
            batch_rows=batch_rows,
            dictionary_columns=encoded,
        )
        yield from with_level(rows, file.level, work.schema)


def _vector(work: BucketCompaction, file: DataFileMeta) -> Positions | None:
    found = work.vectors.get(file.file_name)
    if found is None:
        return None
    name, meta = found
    path = work.metadata.paths.index_file(decode_partition_dict(work.partition, work.schema), work.bucket, name)
    return decode_vector(work.metadata.store.get_range(path, *vector_range(meta)), meta, path)


def _watched(batches: Iterator[pa.Table], seen: _LiveHashes | None) -> Iterator[pa.Table]:
    for rows in batches:
        if seen is not None:
            seen.add(rows)
        yield rows


class _LiveHashes:
    """Collects the key hashes of the rows that stay."""

    def __init__(self, schema: TableSchema) -> None:
        self._names = schema.trimmed_primary_keys
        self._types = list(schema.key_types)
        self._parts: list[np.ndarray] = []

    def add(self, rows: pa.Table) -> None:
        self._parts.append(hash_columns([rows.column(n) for n in self._names], self._types))

    def sorted(self) -> np.ndarray:
        """int32[k], each hash once, ascending."""
        return sorted_distinct(np.concatenate(self._parts)) if self._parts else np.zeros(0, np.int32)


def _index_changes(
    work: BucketCompaction, names: NewFileNames, removed: Sequence[DataFileMeta], seen: _LiveHashes | None
) -> tuple[tuple[IndexEntry, ...], int]:
    """Index entries that change: a shrunk hash index, deletion vectors of files that are gone."""
    changes: list[IndexEntry] = []
    dropped = 0
    gone = {f.file_name for f in removed}
    for entry in work.index:
        if entry.index_type == HASH_INDEX and seen is not None:
            hashes = seen.sorted()
            dropped = entry.row_count - len(hashes)
            if dropped > 0:
                changes.append(_write_hash_index(work, names, hashes, entry))
        if entry.index_type == DELETION_VECTORS and any(r.data_file_name in gone for r in entry.dv_ranges or ()):
            left = tuple(r for r in entry.dv_ranges or () if r.data_file_name not in gone)
            # The file keeps its bytes; ranges of files that are gone are no longer named. With none left it goes.
            changes.append(replace(entry, kind=FileKind.DELETE))
            if left:
                changes.append(replace(entry, kind=FileKind.ADD, dv_ranges=left, row_count=len(left)))
    return tuple(changes), dropped


def _write_hash_index(work: BucketCompaction, names: NewFileNames, hashes: np.ndarray, old: IndexEntry) -> IndexEntry:
    name = names.index()
    data = encode_hash_index(hashes)
    partition = decode_partition_dict(work.partition, work.schema)
    work.metadata.store.put(work.metadata.paths.index_file(partition, work.bucket, name), data)
    return replace(old, kind=FileKind.ADD, file_name=name, file_size=len(data), row_count=len(hashes))
