"""Stage `index_write`: staged rows and their targets become level-0 data files and hash index files.

One shuffle of rows, as Arrow blocks: a map task cuts its part by target, a reduce task gets a target's blocks in batch order,
sorts them by key, merges rows of one key as the table's merge engine does, and writes. Rows beyond the budget of a task become
further level-0 files, so memory follows the budget.

source   org.apache.paimon.mergetree.MergeTreeWriter, org.apache.paimon.index.DynamicBucketIndexMaintainer, release 1.4.2
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.batch.artifacts import (
    BucketAssignmentReport,
    IndexWriteReport,
    IngestReport,
    SourceFile,
    StagedPart,
    Target,
)
from lakeidx.batch.context import BatchContext
from lakeidx.batch.parts import read_part, text_columns
from lakeidx.batch.schema_drift import staged_schema
from lakeidx.batch.target_files import read_part_targets
from lakeidx.bucket_assignment.hash_set import plan_index_update
from lakeidx.codec.gather import gather_rows
from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.data.engines import apply_write_options, make_engine
from lakeidx.data.merge.merge_runs import merge_rows
from lakeidx.data.merge.order import merge_order
from lakeidx.data.write_data_file import DataFileWriter
from lakeidx.errors import InternalError, InvalidInputError
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.format.schema.table_schema import VALUE_KIND
from lakeidx.key_index.registry import built_beside
from lakeidx.storage.base import ObjectStore
from lakeidx.table.commit.changes import TableChanges, encode_changes, merge_changes
from lakeidx.table.index_files import follow_hashes, known_hashes, write_hash_index
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import HASH_INDEX, decode_partition_dict
from lakeidx.tasks.in_parallel import runner_of_small_files
from lakeidx.tasks.logs import stage_logs
from lakeidx.tasks.routed_rows import Block, RoutedRows

if TYPE_CHECKING:
    from lakeidx.batch.moved_rows import TargetPartitions

_SEQUENCE = "_SEQUENCE_NUMBER"

#: Arrow bytes of one bucket that a reduce task gathers before it writes a file.
_DEFAULT_BUDGET_BYTES = 512 << 20

#: Rows that a bucket's files weigh as much as, whatever is in them, when buckets are shared out to tasks.
_FILE_ROWS = 10_000

#: Rows per bucket up to which writing one is mostly waiting for an object store.
_SMALL_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class WriteContext:
    """Input of all write tasks; pickles, and must not grow with parts or buckets: those are items and targets.

    staging      where the batch is staged
    moves_path   directory of the rows that move between partitions, None without any
    places       with moves: the partitions of all targets
    overwrites   the batch replaces rows: its commit takes no changelog, so none is written
    """

    metadata: TableMetadata
    staging: ObjectStore
    schema: TableSchema
    moves_path: str | None = None
    places: TargetPartitions | None = None
    budget_bytes: int = _DEFAULT_BUDGET_BYTES
    overwrites: bool = False

    @classmethod
    def of(
        cls, context: BatchContext, schema: TableSchema, assign: BucketAssignmentReport, budget: int
    ) -> WriteContext:
        """Make the context of a batch."""
        from lakeidx.batch.moved_rows import TargetPartitions

        places = None if assign.moves_path is None else TargetPartitions.of(assign.targets)
        overwrites = context.overwrite is not None
        return cls(context.metadata, context.files.store, schema, assign.moves_path, places, budget, overwrites)

    def split(self, work: PartWork) -> Iterator[RoutedRows]:
        """Map: read one staged part, texts that repeat much as dictionaries where the engine allows it, and the rows' targets."""
        from lakeidx.batch.moved_rows import move_rows, read_moves

        store, schema, columns = self.staging, self.schema, _dictionary_columns(self.schema)
        rows = read_part(store, work.source, work.part, schema, schema.field_names, dictionaries=columns)
        targets = read_part_targets(store, work.targets_path, work.tasks, work.part.rows)
        if self.moves_path is not None and self.places is not None:
            deletes = read_moves(store, self.moves_path, work.number, work.tasks)
            rows, targets = move_rows(rows, targets, deletes, self.places, schema)
        yield RoutedRows(work.number, rows, targets)

    def combine(self, target: Target, blocks: Iterator[Block]) -> WrittenBucket:
        """Reduce: write one bucket."""
        return _write_bucket(self, target, blocks)


def _dictionary_columns(schema: TableSchema) -> frozenset[str]:
    """Return the columns that may be sent as dictionaries: if the merge engine only picks rows and does not read these values."""
    options = schema.table_options
    if options.merge_engine != "deduplicate" or options.sequence_field:
        return frozenset()
    return text_columns(schema)


class PartWork(NamedTuple):
    """One staged part.

    source         the landing file it is taken from by reference
    targets_path   the targets of its rows
    tasks          that placed its rows
    """

    number: int
    part: StagedPart
    source: SourceFile | None
    targets_path: str
    tasks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WrittenBucket:
    """Files that one bucket's task wrote, as bytes that travel cheaply."""

    changes: TableChanges
    rows_in: int


@stage_logs("index_write")
def run_index_write(
    context: BatchContext, attempt: int, *, budget_bytes: int = _DEFAULT_BUDGET_BYTES
) -> IndexWriteReport:
    """Write the data and index files of a batch; return the report, of an earlier run if the stage has finished."""
    done = context.files.read(IndexWriteReport, attempt=attempt)
    if done is not None:
        return done
    started = time.monotonic()
    ingest = context.files.require(IngestReport)
    assign = context.files.require(BucketAssignmentReport, attempt=attempt)
    schema = staged_schema(context.metadata, context.files)
    tasks = WriteContext.of(context, schema, assign, budget_bytes)
    parts = [
        PartWork(n, part, ingest.source_of(part), path, tasks)
        for n, (part, path, tasks) in enumerate(zip(ingest.parts, assign.targets_paths, assign.placed_by, strict=True))
    ]
    small = assign.rows <= _SMALL_ROWS * len(assign.targets)
    runner = runner_of_small_files(context.runner, context.store) if small else context.runner
    written = runner.shuffle(
        tasks,
        parts,
        targets=assign.targets,
        weights=[t.rows + _FILE_ROWS for t in assign.targets],
        label=context.label("index_write", _counts_of(assign)),
    )
    rows_in = sum(w.rows_in for w in written)
    expected = sum(t.rows for t in assign.targets)
    if rows_in != expected:
        raise InternalError(
            f"{expected} rows were assigned, {rows_in} arrived at their buckets", path=context.files.root
        )
    changes = merge_changes(w.changes for w in written)
    out = f"{context.files.new_dir('index_write')}/changes.bin"
    context.files.store.put(out, encode_changes(changes))
    report = IndexWriteReport(
        batch_id=context.files.batch_id,
        attempt=attempt,
        changes_path=out,
        rows_in=rows_in,
        rows_written=sum(e.file.row_count for e in changes.append),
        data_files=len(changes.append),
        data_bytes=sum(e.file.file_size for e in changes.append),
        index_files=len(changes.append_index),
        index_bytes=sum(e.file_size for e in changes.append_index),
        buckets=len(assign.targets),
        seconds=time.monotonic() - started,
    )
    return context.files.close(report, attempt=attempt)


def _counts_of(assign: BucketAssignmentReport) -> str:
    changes = (
        f"{assign.upserts:,} upserts" if assign.upserts else f"{assign.inserts:,} inserts, {assign.updates:,} updates"
    )
    kinds = f"{changes}, {assign.deletes:,} deletes"
    return f"{assign.rows:,} rows to {len(assign.targets):,} buckets ({kinds})"


def _write_bucket(context: WriteContext, target: Target, blocks: Iterable[Block]) -> WrittenBucket:
    """Sort, merge and write one bucket's rows; write its hash index when it got new hashes."""
    schema = context.schema
    metadata = context.metadata
    partition = bytes.fromhex(target.partition)
    values = decode_partition_dict(partition, schema)
    names = NewFileNames()
    writer = _BucketWriter(context, target, metadata.paths.bucket_dir(values, target.bucket), names)
    for block in blocks:
        writer.add(block.rows)
    files = writer.finish()
    entries, changelog = (
        tuple(ManifestEntry(kind=FileKind.ADD, partition=partition, bucket=target.bucket,
                            total_buckets=schema.bucket, file=f) for f in made)
        for made in (files, writer.changelog)
    )  # fmt: skip
    index: tuple[IndexEntry, ...] = ()
    if schema.bucket_mode is BucketMode.HASH_DYNAMIC:
        index = _write_index(context, target, partition, writer.hashes(), names)
    changes = TableChanges(append=entries, append_index=index, append_changelog=changelog)
    return WrittenBucket(changes, writer.rows_in)


def _write_index(
    context: WriteContext, target: Target, partition: bytes, hashes: NDArray[np.int32], names: NewFileNames
) -> tuple[IndexEntry, ...]:
    metadata, schema = context.metadata, context.schema
    if not len(hashes):
        return ()
    present = _present_index(target, partition)
    old = None if present is None else known_hashes(metadata, schema, present)
    merged = plan_index_update(old, hashes)
    if merged is None:
        return ()
    entry = write_hash_index(metadata, schema, partition, target.bucket, merged, names)
    if present is not None:
        follow_hashes(metadata, schema, present, entry, merged)
    return (entry,)


def _present_index(target: Target, partition: bytes) -> IndexEntry | None:
    """Find the entry of the HASH index file that assignment has seen."""
    if target.index_file is None:
        return None
    if target.index_rows is None:
        raise InvalidInputError(
            "the batch was assigned by another release of lakeidx: run it again under a new batch id"
        )
    return IndexEntry(
        kind=FileKind.ADD,
        partition=partition,
        bucket=target.bucket,
        index_type=HASH_INDEX,
        file_name=target.index_file,
        file_size=4 * target.index_rows,
        row_count=target.index_rows,
        external_path=target.index_path,
    )


class _BucketWriter:
    """Gathers a bucket's rows up to the budget and writes each fill as sorted level-0 files."""

    def __init__(self, context: WriteContext, target: Target, directory: str, names: NewFileNames) -> None:
        self.context = context
        self.directory = directory
        self.names = names
        self.rows_in = 0
        self._sequence = target.first_sequence
        # Nothing is new to the bucket: its index file stays, and is not read.
        self._wants_hashes = context.schema.bucket_mode is BucketMode.HASH_DYNAMIC and target.new_hashes != 0
        schema = context.schema
        self._engine = schema.once("merge_engine", lambda: make_engine(schema)) if schema.primary_keys else None
        self._pending: list[pa.Table] = []
        self._pending_bytes = 0
        self._hashes: list[NDArray[np.int32]] = []
        self._files: list[DataFileMeta] = []
        self.changelog: list[DataFileMeta] = []

    def add(self, rows: pa.Table) -> None:
        self.rows_in += rows.num_rows
        self._pending.append(rows)
        self._pending_bytes += rows.nbytes
        if self._pending_bytes >= self.context.budget_bytes:
            self._flush()

    def finish(self) -> list[DataFileMeta]:
        self._flush()
        return self._files

    def hashes(self) -> NDArray[np.int32]:
        """Return the hashes of all rows that were added."""
        return np.concatenate(self._hashes) if self._hashes else np.zeros(0, dtype=np.int32)

    def _flush(self) -> None:
        if not self._pending:
            return
        schema = self.context.schema
        kinds = any(VALUE_KIND in t.schema.names for t in self._pending)
        rows = _concat([_plain(t, kinds) for t in self._pending])
        self._pending, self._pending_bytes = [], 0
        if self._engine is None:
            self._write(rows.select(list(schema.field_names)))
            self._sequence += rows.num_rows
            return
        key_names = schema.trimmed_primary_keys
        if self._wants_hashes:
            self._hashes.append(hash_columns([rows.column(n) for n in key_names], schema.key_types))
        n = rows.num_rows
        sequence = pa.array(np.arange(self._sequence, self._sequence + n, dtype=np.int64))
        self._sequence += n
        codes = rows.column(VALUE_KIND) if kinds else pa.array(np.zeros(n, dtype=np.int8))
        columns = [sequence, codes, *(rows.column(name) for name in schema.field_names)]
        kv = pa.table(columns, names=[_SEQUENCE, VALUE_KIND, *schema.field_names])
        if schema.table_options.ignore_delete or schema.table_options.ignore_update_before:
            kv = apply_write_options(kv, schema)
        wanted = schema.table_options.changelog_producer == "input" and not self.context.overwrites
        if wanted and kv.num_rows:
            self._write_changelog(kv)
        merged = merge_rows(kv, schema, self._engine)
        self._write(merged)

    def _write(self, rows: pa.Table) -> None:
        schema = self.context.schema
        if rows.num_rows:
            self._files.extend(
                DataFileWriter(
                    schema,
                    store=self.context.metadata.store,
                    bucket_dir=self.directory,
                    names=self.names,
                    first_sequence=self._sequence,
                    **schema.once("built_beside", lambda: built_beside(schema)),
                ).write_all([rows])
            )

    def _write_changelog(self, kv: pa.Table) -> None:
        """Write the changelog of changelog-producer=input: every record as ingested, before any merge, in the order of
        the sorted buffer.
        """
        schema = self.context.schema
        self.changelog.extend(
            DataFileWriter(
                schema,
                store=self.context.metadata.store,
                bucket_dir=self.directory,
                names=self.names,
                changelog=True,
            ).write_all([gather_rows([kv], merge_order(kv, schema))])
        )


def _concat(tables: list[pa.Table]) -> pa.Table:
    """Concatenate tables into one; a column that is a dictionary in some tables is one in all, with one dictionary."""
    if all(t.schema == tables[0].schema for t in tables[1:]):
        return pa.concat_tables(tables).unify_dictionaries()
    encoded = {f.name for t in tables for f in t.schema if pa.types.is_dictionary(f.type)}
    out = []
    for table in tables:
        for i, f in enumerate(table.schema):
            if f.name in encoded and not pa.types.is_dictionary(f.type):
                table = table.set_column(i, f.name, table.column(i).dictionary_encode())
        out.append(table)
    return pa.concat_tables(out).unify_dictionaries()


def _plain(rows: pa.Table, kinds: bool) -> pa.Table:
    if kinds and VALUE_KIND not in rows.schema.names:
        return rows.append_column(VALUE_KIND, pa.array(np.zeros(rows.num_rows, dtype=np.int8)))
    return rows
