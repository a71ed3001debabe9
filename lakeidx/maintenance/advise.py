"""Advice on the index of a table: measures its last batch, batches given as rows, or files of a table that does not exist yet.

The sample's true locations are looked for by reading keys (`simple`, over all partitions where keys may move), so they
are right whatever index the table has now.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeidx.batch.assignment.row_keys import partition_codes
from lakeidx.batch.index_types import index_folder
from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_vec import encode_rows, hash_columns
from lakeidx.data.read_data_file import read_data_file
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.format.data_file import EMPTY_STATS, DataFileMeta
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.format.snapshot import CommitKind, Snapshot
from lakeidx.key_index.advice.advice import Advice
from lakeidx.key_index.advice.advise import measure_workload, recommend
from lakeidx.key_index.advice.measures import Measures, Needs
from lakeidx.key_index.advice.model import Machine
from lakeidx.key_index.joined import given_keys, locate_joined
from lakeidx.key_index.locations import KeyBatch, LiveFile
from lakeidx.key_index.port import IndexContext
from lakeidx.key_index.registry import data_file_footer
from lakeidx.key_index.simple import SimpleKeyIndex
from lakeidx.key_index.table_view import key_batch, make_tag_context
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import on_newest, says_expired
from lakeidx.table.view import data_file_path
from lakeidx.tasks.in_parallel import in_parallel, requests_of
from lakeidx.types import DataType

#: Keys that are looked for.
SAMPLE = 20_000
_FILE_ROWS = 1_000_000
_SEED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Workload to advise on.

    batches     key and partition columns of some batches
    batch_rows  rows of a whole batch; default: the mean of those given
    sample      at most so many keys are looked for
    """

    batches: Sequence[pa.Table]
    batch_rows: int | None = None
    sample: int = SAMPLE

    @property
    def rows_per_batch(self) -> int:
        """Rows of a whole batch."""
        return self.batch_rows or max(1, sum(b.num_rows for b in self.batches) // max(1, len(self.batches)))

    def drawn(self) -> pa.Table:
        """Sample rows of all batches, at random but always the same."""
        rows = pa.concat_tables(self.batches)
        if rows.num_rows <= self.sample:
            return rows
        chosen = np.sort(np.random.default_rng(_SEED).choice(rows.num_rows, self.sample, replace=False))
        return rows.take(pa.array(chosen))


def advise_table(
    metadata: TableMetadata,
    work: Workload | None = None,
    *,
    needs: Needs | None = None,
    machine: Machine | None = None,
    sample: int = SAMPLE,
) -> Advice:
    """Advise on a table.

    work     its batches; None = the last one that was appended, against the snapshot before it
    needs    default: keys move where the table's primary key leaves out partition columns
    sample   keys looked for, when the last batch is taken
    errors   InvalidInputError for a table whose keys say their bucket, without primary key, or without a batch to look at
    """
    _check_has_choice(metadata.latest_schema())

    def advised(newest: Snapshot | None) -> Advice:
        if work is not None:
            return _advise_at(metadata, newest, work, needs or Needs(), machine)
        rows, before = _last_batch(metadata, newest)
        with says_expired(metadata, before):
            return _advise_at(metadata, before, Workload(batches=[rows], sample=sample), needs or Needs(), machine)

    return on_newest(metadata, advised)


def _advise_at(
    metadata: TableMetadata, snapshot: Snapshot | None, work: Workload, wanted: Needs, machine: Machine | None
) -> Advice:
    """Advise on batches that come after a snapshot."""
    schema = metadata.latest_schema()
    everywhere = wanted.moves or schema.bucket_mode is BucketMode.KEY_DYNAMIC
    wanted = dataclasses.replace(wanted, moves=everywhere, cross_partition=schema.bucket_mode is BucketMode.KEY_DYNAMIC)
    context = make_tag_context(metadata, snapshot, index_dir=index_folder(metadata.paths))
    rows = work.drawn()
    codes = partition_codes(rows, schema.partition_keys, schema.partition_types)
    batch = key_batch(rows, schema, codes)
    options = context.options
    made_for = options.hoodie_index_bloom_fpp if data_file_footer(schema) is not None else None
    return _advise(batch, context, work, wanted, machine, everywhere=everywhere, fpp=made_for)


def _check_has_choice(schema: TableSchema) -> None:
    """Raise InvalidInputError for tables that need no index."""
    if not schema.primary_keys:
        raise InvalidInputError("the table has no primary key: writes need no key index")
    if schema.bucket_mode not in (BucketMode.HASH_DYNAMIC, BucketMode.KEY_DYNAMIC):
        raise InvalidInputError("the bucket follows from the key (option bucket is not -1): writes need no lookup")


def _last_batch(metadata: TableMetadata, newest: Snapshot | None) -> tuple[pa.Table, Snapshot]:
    """Return the key and partition columns of what the newest APPEND snapshot added, and the snapshot before it.

    errors   InvalidInputError when there are no two such snapshots
    """
    schema = metadata.latest_schema()
    at = 0 if newest is None else newest.id
    while at > 1:
        try:
            snapshot, before = metadata.load_snapshot(at), metadata.load_snapshot(at - 1)
        except NotFoundError:
            break
        if snapshot.commit_kind is CommitKind.APPEND:
            with says_expired(metadata, snapshot):
                return _added_rows(metadata, schema, snapshot), before
        at -= 1
    raise InvalidInputError(
        "no batch to measure: the table needs two unexpired snapshots, the newer one an append; else give a batch's keys",
        path=metadata.paths.root,
    )


def _added_rows(metadata: TableMetadata, schema: TableSchema, snapshot: Snapshot) -> pa.Table:
    entries = [
        e
        for m in metadata.load_manifest_list(snapshot.delta_manifest_list)
        for e in metadata.load_manifest(m.file_name)
    ]
    names = columns_of_key(schema)
    added = [e for e in entries if e.kind is FileKind.ADD]
    threads = requests_of(metadata.store, max((e.file.file_size for e in added), default=0))
    parts = in_parallel(lambda e: _read(metadata, schema, e, names), added, threads=threads)
    return pa.concat_tables([schema.arrow_schema.empty_table().select(names), *parts])


def _read(metadata: TableMetadata, schema: TableSchema, entry: ManifestEntry, names: Sequence[str]) -> pa.Table:
    path = data_file_path(metadata, entry)
    parts = read_data_file(metadata.store, path, entry.file, metadata.load_schema(entry.file.schema_id), schema, names)
    return pa.concat_tables([part.select(names) for part in parts])


def columns_of_key(schema: TableSchema) -> list[str]:
    """Return the columns of a batch that the advice reads: partition keys and primary key, in schema order."""
    wanted = {*schema.partition_keys, *schema.trimmed_primary_keys}
    return [n for n in schema.field_names if n in wanted]


def _advise(
    sample: KeyBatch,
    context: IndexContext,
    work: Workload,
    needs: Needs,
    machine: Machine | None,
    *,
    everywhere: bool,
    fpp: float | None = None,
) -> Advice:
    files = context.view.files(None)
    largest = max((f.meta.file_size for f in files), default=0)
    context = dataclasses.replace(context, pool=context.pool.with_threads(requests_of(context.store, largest)))
    located = SimpleKeyIndex(is_global=everywhere).tag(sample, context)
    measures: Measures = measure_workload(
        sample,
        located,
        files,
        batch_rows=work.rows_per_batch,
        key_column_bytes=_key_column_bytes(files, sample, context),
    )
    return recommend(measures, needs, machine, fpp=fpp)


def _key_column_bytes(files: Sequence[LiveFile], sample: KeyBatch, context: IndexContext) -> float | None:
    """Return the compressed bytes of a key in the largest Parquet file."""
    largest = max(files, key=lambda f: f.meta.row_count, default=None)
    if largest is None or not largest.path.endswith(".parquet") or not largest.meta.row_count:
        return None
    with context.store.open_input(largest.path, size=largest.meta.file_size) as source:
        footer = pq.ParquetFile(source).metadata
    names, total = set(sample.keys.column_names), 0
    for group in (footer.row_group(i) for i in range(footer.num_row_groups)):
        columns = (group.column(i) for i in range(group.num_columns))
        total += sum(c.total_compressed_size for c in columns if c.path_in_schema in names)
    return total / largest.meta.row_count if total else None


# -- files of a table that is not there yet ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class SourceRows:
    """Rows of one landing file: key and partition columns, and the file's bytes."""

    path: str
    rows: pa.Table
    bytes: int


def advise_files(
    held: Sequence[SourceRows],
    work: Workload,
    *,
    keys: Sequence[str],
    key_types: Sequence[DataType],
    partition_by: Sequence[str] = (),
    partition_types: Sequence[DataType] = (),
    needs: Needs | None = None,
    machine: Machine | None = None,
) -> Advice:
    """Advise on a table to be made of files: each million rows counts as a data file (one per partition in it).

    held   what the table has; their rows are in memory
    """
    files: list[LiveFile] = []
    tables: list[pa.Table] = []
    for source in held:
        for start in range(0, source.rows.num_rows, _FILE_ROWS):
            piece = source.rows.slice(start, _FILE_ROWS)
            partitions, codes = partition_codes(piece, partition_by, partition_types)
            for i, partition in enumerate(partitions):
                rows = piece.filter(pa.array(codes == i)).select(list(keys))
                size = source.bytes * rows.num_rows // source.rows.num_rows
                file = _pretended(f"{source.path}#{start}-{i}", partition, rows, key_types, size, len(files))
                files.append(file)
                tables.append(given_keys(file, rows))
    drawn = work.drawn()
    columns = [drawn.column(n) for n in keys]
    sample = KeyBatch(
        *partition_codes(drawn, partition_by, partition_types),
        drawn.select(list(keys)),
        tuple(key_types),
        hash_columns(columns, list(key_types)),
    )
    wanted = needs or Needs()
    located = locate_joined(sample, tables, is_global=wanted.moves)
    return recommend(measure_workload(sample, located, files, batch_rows=work.rows_per_batch), wanted, machine)


def _pretended(
    path: str, partition: bytes, rows: pa.Table, types: Sequence[DataType], size: int, number: int
) -> LiveFile:
    names = rows.column_names
    first = pc.sort_indices(rows, sort_keys=[(n, "ascending") for n in names])
    ends = rows.take(pa.array([first[0].as_py(), first[-1].as_py()]))
    encoded = encode_rows([ends.column(n) for n in names], list(types))
    meta = DataFileMeta(
        file_name=path,
        file_size=size,
        row_count=rows.num_rows,
        min_key=with_arity(encoded[0], len(names)),
        max_key=with_arity(encoded[1], len(names)),
        key_stats=EMPTY_STATS,
        value_stats=EMPTY_STATS,
        min_sequence_number=number,
        max_sequence_number=number,
        schema_id=0,
        level=0,
    )
    return LiveFile(partition, number, path, meta)
