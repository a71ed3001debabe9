"""Executes a planned scan: streams merged rows, bucket by bucket, section by section.

source   org.apache.paimon.operation.MergeFileSplitRead, RawFileSplitRead, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.data.engines import make_engine
from lakeidx.data.merge import merge_sorted_runs
from lakeidx.data.parquet_read import ReadCounters, read_data_file
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.deletion_vector import Positions, decode_vector, vector_range
from lakeidx.predicate import TRUE, Predicate, columns, filter_table, project
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan_plan import BucketFiles, ScanPlan, Section
from lakeidx.table.view import decode_partition_dict

VALUE_KIND = "_VALUE_KIND"
SEQUENCE = "_SEQUENCE_NUMBER"
_INSERT, _UPDATE_AFTER = 0, 2


class TableScan:
    """A planned scan that can be read any number of times.

    columns          columns to give back, in order; None = all
    keep_deletes     give rows of kind -D, too, and the column _VALUE_KIND (for changelogs and checks)
    """

    def __init__(
        self,
        metadata: TableMetadata,
        plan: ScanPlan,
        *,
        columns: Sequence[str] | None = None,
        keep_deletes: bool = False,
        limit: int | None = None,
    ) -> None:
        self.metadata = metadata
        self.plan = plan
        self.columns = tuple(columns) if columns is not None else plan.schema.field_names
        for name in self.columns:
            plan.schema.field(name)
        self.keep_deletes = keep_deletes
        self.limit = limit
        self.counters = ReadCounters()
        self.rows_returned = 0

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the rows."""
        fields = [self.plan.schema.arrow_schema.field(n) for n in self.columns]
        if self.keep_deletes:
            fields.append(pa.field(VALUE_KIND, pa.int8()))
        return pa.schema(fields)

    def batches(self) -> Iterator[pa.Table]:
        """Rows in tables of bounded size; order within a bucket is key order."""
        left = self.limit
        for bucket in self.plan.buckets:
            for rows in self.read_bucket(bucket):
                if left is not None:
                    rows = rows.slice(0, left)
                    left -= rows.num_rows
                if rows.num_rows:
                    self.rows_returned += rows.num_rows
                    yield rows
                if left is not None and left <= 0:
                    return

    def to_arrow(self) -> pa.Table:
        """All rows."""
        tables = list(self.batches())
        return pa.concat_tables(tables) if tables else self.arrow_schema.empty_table()

    def to_reader(self) -> pa.RecordBatchReader:
        """All rows as a stream."""
        batches = (b for t in self.batches() for b in t.to_batches())
        return pa.RecordBatchReader.from_batches(self.arrow_schema, batches)

    def read_bucket(self, bucket: BucketFiles) -> Iterator[pa.Table]:
        """Merged and filtered rows of one bucket."""
        for section in bucket.sections:
            yield from self.read_section(bucket, section)

    def read_section(self, bucket: BucketFiles, section: Section) -> Iterator[pa.Table]:
        """Merged and filtered rows of one section."""
        schema, predicate = self.plan.schema, self.plan.predicate
        merging = len(section) > 1
        needed = self._needed(merging)
        # A filter on a non-key column before the merge would bring back an older version of the key.
        pushed = project(predicate, schema.trimmed_primary_keys) if merging else predicate
        if merging:
            runs = [self._run(bucket, run, needed, pushed) for run in section]
            rows: Iterable[pa.Table] = merge_sorted_runs(runs, schema, make_engine(schema))
        else:
            rows = self._run(bucket, section[0], needed, pushed)
        for table in rows:
            yield from self._finish(table)

    def _needed(self, merging: bool) -> tuple[str, ...]:
        """Columns to read: what is asked for, what the filter needs, and what a merge needs."""
        schema = self.plan.schema
        names = {*self.columns, *columns(self.plan.predicate)}
        if merging:
            names |= set(schema.trimmed_primary_keys)
            ordered = [n for n in schema.field_names if n in names]
            names = {*make_engine(schema).required_columns(ordered), *schema.table_options.sequence_field}
        return tuple(n for n in schema.field_names if n in names)

    def _run(
        self, bucket: BucketFiles, run: Sequence[DataFileMeta], needed: Sequence[str], predicate: Predicate
    ) -> Iterator[pa.Table]:
        schema = self.plan.schema
        partition = decode_partition_dict(bucket.partition, schema)
        directory = self.metadata.paths.bucket_dir(partition, bucket.bucket)
        for file in run:
            path = file.external_path or f"{directory}/{file.file_name}"
            yield from read_data_file(
                self.metadata.store,
                path,
                file,
                self.metadata.schema(file.schema_id),
                schema,
                needed,
                predicate=None if predicate == TRUE else predicate,
                deletion_vector=self._deletion_vector(bucket, file),
                counters=self.counters,
            )

    def _deletion_vector(self, bucket: BucketFiles, file: DataFileMeta) -> Positions | None:
        found = bucket.deletion_vectors.get(file.file_name)
        if found is None:
            return None
        name, meta = found
        path = self.metadata.paths.index_file(
            decode_partition_dict(bucket.partition, self.plan.schema), bucket.bucket, name
        )
        return decode_vector(self.metadata.store.get_range(path, *vector_range(meta)), meta, path)

    def _finish(self, rows: pa.Table) -> Iterator[pa.Table]:
        if VALUE_KIND in rows.column_names and not self.keep_deletes:
            kinds = rows.column(VALUE_KIND)
            live = pc.or_(pc.equal(kinds, _INSERT), pc.equal(kinds, _UPDATE_AFTER))
            if not pc.all(live, min_count=0).as_py():
                rows = rows.filter(live)
        if self.plan.predicate != TRUE:
            rows = filter_table(self.plan.predicate, rows)
        names = [*self.columns, *([VALUE_KIND] if self.keep_deletes else [])]
        yield rows.select(names)
