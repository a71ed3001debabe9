"""Read one section of one bucket: its files merged when they overlap, else one after another by all their indexes.

source   org.apache.paimon.operation.MergeFileSplitRead, RawFileSplitRead, release 1.4.2

Query the file indexes of data files, embedded or beside them: whether and where they may contain selected rows.

A damaged or unknown index never fails a read and never hides a row: it is reported, and its file is read whole.

source   org.apache.paimon.io.FileIndexEvaluator, release 1.4.2
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from lakeidx.data.engines import make_engine
from lakeidx.data.merge.levels import with_level
from lakeidx.data.merge.merge_runs import merge_sorted_runs
from lakeidx.data.parquet.schema import SYSTEM_COLUMNS
from lakeidx.data.positions import Positions, RowFilter
from lakeidx.data.read_data_file import BATCH_ROWS, RowChoice, read_data_file
from lakeidx.errors import CorruptFileError, LakeIdxError, NotFoundError, UnsupportedError
from lakeidx.file_index.container import FileIndexContainer, IndexAt
from lakeidx.file_index.evaluate import evaluate_container
from lakeidx.file_index.kinds.types import FileIndexResult, Verdict
from lakeidx.file_index.write import INDEX_SUFFIX
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.schema.table_schema import SEQUENCE_NUMBER, TableSchema
from lakeidx.predicate import TRUE, BoundPredicate, Leaf, Predicate, filter_table
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.files import join
from lakeidx.table.deletion_vectors import read_deletion_vector
from lakeidx.table.intervals import Section
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan.key_subset import KeySubset
from lakeidx.table.scan.metrics import ScanMetrics
from lakeidx.table.scan.plan import BucketFiles, ScanPlan
from lakeidx.table.view import decode_partition_dict
from lakeidx.types import DataType, Field, Root

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IndexAnswer:
    """Result of a file's indexes.

    skip        no row is selected: do not open the file
    selection   positions that may be selected; None = nothing is known about positions
    asked       (index type, column) of the indexes that let the file through
    """

    skip: bool
    selection: BitMap | None = None
    asked: frozenset[tuple[str, str]] = frozenset()


class FileIndexTest:
    """Tests the data files of one scan, whose rows it selects by `predicate`."""

    def __init__(self, store: ObjectStore, predicate: BoundPredicate) -> None:
        self._store = store
        self._predicate = predicate

    def embedded_may_match(self, file: DataFileMeta, file_schema: TableSchema) -> bool:
        """Return False when the embedded index rules the file out. Reads nothing."""
        if not file.embedded_index:
            return True
        try:
            result = evaluate_container(
                file.embedded_index, self._of_file(file_schema), file_schema.fields,
                rows=file.row_count, path=file.file_name,
            )  # fmt: skip
        except (CorruptFileError, UnsupportedError) as error:
            _log.warning("reading data file %s without its embedded index: %s", file.file_name, error)
            return True
        return result is not Verdict.SKIP

    def ask(self, file: DataFileMeta, path: str, file_schema: TableSchema, metrics: ScanMetrics) -> IndexAnswer:
        """Evaluate all indexes of a file before it is read.

        path   of the data file; its index is beside it
        """
        side = next((n for n in file.extra_files if n.endswith(INDEX_SUFFIX)), None)
        if side is None and not file.embedded_index:
            return IndexAnswer(False)
        started = time.monotonic()
        said: list[tuple[IndexAt, bool]] = []

        def listen(entry: IndexAt, _: Leaf, result: FileIndexResult) -> None:
            said.append((entry, result is Verdict.SKIP or (isinstance(result, BitMap) and not result)))

        predicate = self._of_file(file_schema)
        where = path
        result: FileIndexResult = Verdict.REMAIN
        try:
            container: bytes | FileIndexContainer
            if file.embedded_index:
                container = file.embedded_index
            else:
                assert side is not None
                where = f"{path.rpartition('/')[0]}/{side}"
                container = self._open(where, metrics)
            result = evaluate_container(
                container, predicate, file_schema.fields, rows=file.row_count, path=where, listener=listen
            )
        except (CorruptFileError, UnsupportedError, NotFoundError) as error:
            metrics.index_failures += 1
            said = []
            _log.warning("reading data file %s without its index: %s", path, error)
        skip = result is Verdict.SKIP
        passed = self._count(said, skip, metrics)
        metrics.index_seconds += time.monotonic() - started
        return IndexAnswer(skip, result if isinstance(result, BitMap) else None, passed)

    def _open(self, path: str, metrics: ScanMetrics) -> FileIndexContainer:
        def read(offset: int, length: int) -> bytes:
            data = self._store.get_range(path, offset, length)
            metrics.index_bytes += len(data)
            return data

        return FileIndexContainer(read, self._store.size(path), path)

    def _count(self, said: list[tuple[IndexAt, bool]], skip: bool, metrics: ScanMetrics) -> frozenset[tuple[str, str]]:
        """Count each index once per file; return those that let the file through."""
        by_index: dict[tuple[str, str], tuple[bool, int]] = {}
        for entry, ruled_out in said:
            key = (entry.type, entry.column)
            before = by_index.get(key, (False, 0))[0]
            by_index[key] = (before or ruled_out, entry.length)
        for (index_type, column), (ruled_out, length) in by_index.items():
            tally = metrics.tally(index_type, column)
            tally.asked += 1
            tally.spared += skip and ruled_out
            tally.bytes += length
        return frozenset() if skip else frozenset(by_index)

    def _of_file(self, file_schema: TableSchema) -> Predicate:
        return self._predicate.of_files(file_schema.id, file_schema.fields)[0]


VALUE_KIND = "_VALUE_KIND"
_NUMBER = DataType(Root.BIGINT)
#: Columns of the system table row_tracking after those of the table, as files have them: null where they follow from the file.
ROW_TRACKING = (Field(2**31 - 6, "_ROW_ID", _NUMBER), Field(2**31 - 2, SEQUENCE_NUMBER, _NUMBER))
_EVERYTHING = IndexAnswer(False)
#: Rows per batch of a merge: few rounds, and key columns still fit the processor's cache.
_MERGE_ROWS = 2 * BATCH_ROWS


class ScanFilter:
    """A plan's predicate in the forms that reading takes, made once for all sections.

    rows      selects rows of files that are read one by one, row groups and pages included; None = all
    keys      what may be tested before a merge
    columns   those that rows are selected by
    indexes   asks file indexes; None when they take no part
    """

    def __init__(self, store: ObjectStore, plan: ScanPlan) -> None:
        found = BoundPredicate(plan.predicate, plan.schema.fields)
        self.columns = found.columns
        # A filter on a non-key column before a merge would bring back an older version of the key.
        keys = found.projected(plan.schema.trimmed_primary_keys)
        self.rows, self.keys = (f if f.predicate != TRUE else None for f in (found, keys))
        asks = plan.schema.table_options.file_index_read_enabled
        self.indexes = FileIndexTest(store, found) if asks and plan.predicate != TRUE else None


class SectionReader:
    """Reads a section; counts for itself, for sections are read side by side.

    columns        columns to give back
    selects        the plan's predicate
    keep_deletes   give rows of kind -D, too, and the column _VALUE_KIND
    keep_sequence  give the column _SEQUENCE_NUMBER, too
    only           read rows of these keys and no others
    choice         chooses rows of what is read of a file, before they are merged: all versions of a key, or none
    """

    def __init__(
        self,
        metadata: TableMetadata,
        plan: ScanPlan,
        bucket: BucketFiles,
        columns: Sequence[str],
        *,
        selects: ScanFilter,
        keep_deletes: bool,
        keep_sequence: bool = False,
        only: KeySubset | None = None,
        choice: RowChoice | None = None,
    ) -> None:
        self.metrics = ScanMetrics()
        self._metadata = metadata
        self._plan = plan
        self._bucket = bucket
        self._columns = [
            *columns, *([SEQUENCE_NUMBER] if keep_sequence else []), *([VALUE_KIND] if keep_deletes else [])
        ]  # fmt: skip
        self._wanted = columns
        self._selects = selects
        self._keep_deletes = keep_deletes
        self._keep_sequence = keep_sequence
        self._only = only
        self._choice = choice
        partition = decode_partition_dict(bucket.partition, plan.schema)
        self._partition = partition
        self._directory = metadata.paths.bucket_dir(partition, bucket.bucket)

    def read(self, section: Section) -> Iterator[pa.Table]:
        """Yield merged and filtered rows."""
        files = [f for run in section for f in run]
        self.metrics.planned_files += len(files)
        self.metrics.planned_bytes += sum(f.file_size for f in files)
        return self._timed(self._merged(section) if len(section) > 1 else self._plain(section[0]))

    def _timed(self, rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
        while True:
            started = time.monotonic()
            table = next(rows, None)
            self.metrics.read_seconds += time.monotonic() - started
            if table is None:
                return
            yield table

    def _merged(self, section: Section) -> Iterator[pa.Table]:
        needed, pushed = self._needed(merging=True), self._selects.keys
        selected = 0
        for table in self._placed(self._by_key(section, needed, pushed)):
            rows = self._finish(table)
            selected += rows.num_rows
            yield rows
        if not selected:
            self.metrics.false_positives += sum(len(run) for run in section)

    def _by_key(self, section: Section, needed: Sequence[str], pushed: BoundPredicate | None) -> Iterator[pa.Table]:
        schema = self._plan.schema
        # What only the merge needs is not gathered; some column stays, for a table without any has no number of rows.
        given = self._given or {VALUE_KIND}
        return merge_sorted_runs(
            [self._run(run, needed, pushed) for run in section], schema, make_engine(schema),
            drop_deletes=not self._keep_deletes, columns=[n for n in (*SYSTEM_COLUMNS, *needed) if n in given],
        )  # fmt: skip

    def _kinds(self, files: Sequence[DataFileMeta]) -> Sequence[str]:
        """Return the column of row kinds where rows of the files may be deletes."""
        return (VALUE_KIND,) if self._plan.schema.primary_keys and any(f.may_hold_deletes for f in files) else ()

    @property
    def _given(self) -> set[str]:
        """Columns that are wanted, or that rows are filtered by."""
        return {*self._columns, *self._selects.columns}

    def _placed(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield the tables of a merge; an error that names no file names the bucket's directory."""
        try:
            yield from tables
        except LakeIdxError as error:
            if error.path is None:
                error.path = self._directory
            raise

    def _run(
        self, run: Sequence[DataFileMeta], needed: Sequence[str], pushed: BoundPredicate | None
    ) -> Iterator[pa.Table]:
        # Conditions on keys select all versions of a key or none.
        filtered = pushed is not None and self._only is None
        for file in run:
            rows = self._file(file, needed, pushed, None, _MERGE_ROWS, filter_rows=filtered)
            by_level = self._plan.schema.table_options.merges_by_level
            yield from with_level(rows, file.level) if by_level else rows

    def _plain(self, run: Sequence[DataFileMeta]) -> Iterator[pa.Table]:
        """Read files that share no key with any other: their indexes may skip files, row groups and rows."""
        pushed = self._selects.rows
        for file in run:
            # A key is in one row, so that rows may be filtered before deletes among them are dropped.
            given = self._keep_deletes or self._keep_sequence
            system = SYSTEM_COLUMNS if given else self._kinds([file])
            # What is read of some keys is for two states, and the other one may merge it.
            early = not given and self._only is None and pushed is not None
            needed = self._wanted if early else self._needed(merging=False)
            answer = self._query_indexes(file)
            if answer.skip:
                continue
            selected = 0
            merged = self.metrics.rows_merged - self.metrics.read.rows_given
            for table in self._file(
                file, needed, pushed, answer.selection, BATCH_ROWS, system_columns=system, filter_rows=early
            ):
                if early:
                    rows = self._without_deletes(table).select(self._columns)
                    self.metrics.rows_selected += rows.num_rows
                    self.metrics.rows_merged = merged + self.metrics.read.rows_given
                else:
                    rows = self._finish(table)
                selected += rows.num_rows
                yield rows
            if early:
                self.metrics.rows_merged = merged + self.metrics.read.rows_given
            if not selected:
                self.metrics.false_positives += 1
                for index_type, column in answer.asked:
                    self.metrics.tally(index_type, column).false_positives += 1

    def _query_indexes(self, file: DataFileMeta) -> IndexAnswer:
        # Rows of given keys are chosen by position.
        if self._selects.indexes is None or self._only is not None:
            return _EVERYTHING
        return self._selects.indexes.ask(
            file, self._path(file), self._metadata.load_schema(file.schema_id), self.metrics
        )

    def _path(self, file: DataFileMeta) -> str:
        return file.external_path or join(self._directory, file.file_name)

    def _needed(self, *, merging: bool) -> tuple[str, ...]:
        """Return the columns to read: those requested, and those that the filter and a merge need."""
        schema = self._plan.schema
        names = {*self._wanted, *self._selects.columns}
        if merging:
            names |= set(schema.trimmed_primary_keys)
            ordered = [n for n in schema.field_names if n in names]
            names = {*make_engine(schema).required_columns(ordered), *schema.table_options.sequence_field}
        return tuple(n for n in schema.field_names if n in names)

    def _file(
        self,
        file: DataFileMeta,
        needed: Sequence[str],
        pushed: BoundPredicate | None,
        selection: Positions | None,
        batch_rows: int,
        *,
        system_columns: Sequence[str] = SYSTEM_COLUMNS,
        filter_rows: bool = False,
    ) -> Iterator[pa.Table]:
        self.metrics.opened_bytes += file.file_size

        def read(
            selection: Positions | None, needed: Sequence[str], system_columns: Sequence[str]
        ) -> Iterator[pa.Table]:
            return read_data_file(
                self._metadata.store,
                self._path(file),
                file,
                self._metadata.load_schema(file.schema_id),
                self._plan.schema,
                needed,
                predicate=pushed,
                deletion_vector=self.deletion_vector(file),
                selection=selection,
                batch_rows=batch_rows,
                system_columns=system_columns,
                filter_rows=filter_rows,
                choice=self._choice,
                counters=self.metrics.read,
            )

        if self._only is None:
            yield from read(selection, needed, system_columns)
            return
        only = self._only
        # One state may merge a file that the other one reads alone: both take their columns from what is read once.
        every = self._needed(merging=True)

        def selected() -> Iterator[pa.Table]:
            positions = only.positions_in(self.keys(file))
            return read(positions, every, SYSTEM_COLUMNS) if len(positions) else iter(())

        names = {*needed, *system_columns}
        for rows in only.rows_of((file.file_name, self._bucket.deletion_vectors.get(file.file_name)), selected):
            yield rows.select([n for n in rows.column_names if n in names])

    def keys(self, file: DataFileMeta, selection: Positions | None = None) -> Iterator[pa.Table]:
        """Read the key columns of a file, of all its rows or of some positions; deletion vectors play no part."""
        return read_data_file(
            self._metadata.store,
            self._path(file),
            file,
            self._metadata.load_schema(file.schema_id),
            self._plan.schema,
            self._plan.schema.trimmed_primary_keys,
            selection=selection,
            system_columns=(),
            counters=self.metrics.read,
        )

    def tracked(self, file: DataFileMeta) -> Iterator[pa.Table]:
        """Read a file of a table that tracks rows: all columns, then `ROW_TRACKING`, the id of each row and its last change.

        Rows are numbered from the file's first id on, and changed by the commit of its greatest sequence number; a file of rows
        that had these numbers before has them as columns, null of rows that are new or changed.

        source   org.apache.paimon.io.DataFileRecordReader, a build after release 2.0.0
        """
        written, read = self._metadata.load_schema(file.schema_id), self._plan.schema
        # Only the columns of the table must be there.
        described = file if file.write_cols is not None else replace(file, write_cols=tuple(written.field_names))
        written, read = (replace(s, fields=(*s.fields, *ROW_TRACKING)) for s in (written, read))
        found = read_data_file(
            self._metadata.store, self._path(file), described, written, read, counters=self.metrics.read
        )
        live, first = RowFilter(self.deletion_vector(file), None), 0
        for rows in found:
            ids = None if file.first_row_id is None else pa.array(np.arange(rows.num_rows) + first + file.first_row_id)
            for at, otherwise in ((-2, ids), (-1, pa.scalar(file.max_sequence_number))):
                at += rows.num_columns
                column = rows.column(at) if otherwise is None else pc.coalesce(rows.column(at), otherwise)
                if column.null_count:
                    raise CorruptFileError(
                        "the table tracks rows, and rows of the file have no id", path=self._path(file)
                    )
                rows = rows.set_column(at, rows.schema.field(at), column)
            mask = live.mask(first, rows.num_rows)
            first += rows.num_rows
            yield rows if mask is None else rows.filter(pa.array(mask))

    def deletion_vector(self, file: DataFileMeta) -> Positions | None:
        """Read the positions of a file's deleted rows."""
        found = self._bucket.deletion_vectors.get(file.file_name)
        if found is None:
            return None
        bucket = self._bucket
        return read_deletion_vector(self._metadata, self._plan.schema, bucket.partition, bucket.bucket, found)

    def _without_deletes(self, rows: pa.Table) -> pa.Table:
        if VALUE_KIND in rows.column_names and not self._keep_deletes:
            # Retracts (-U 1, -D 3) are the odd kinds.
            kinds = rows.column(VALUE_KIND)
            if pc.max(pc.bit_wise_and(kinds, 1)).as_py():
                rows = rows.filter(pc.equal(pc.bit_wise_and(kinds, 1), 0))
        return rows

    def _finish(self, rows: pa.Table) -> pa.Table:
        rows = self._without_deletes(rows)
        self.metrics.rows_merged += rows.num_rows
        if self._plan.predicate != TRUE:
            rows = filter_table(self._plan.predicate, rows)
        self.metrics.rows_selected += rows.num_rows
        return rows.select(self._columns)
