"""Writing a Spark DataFrame into a table: tasks stage their rows, the driver runs the stages as one batch.

Planning and tasks load this module in processes of their own: what only the driver needs is imported where it is used, and Numba,
which takes a quarter of a second, with the first kernel.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lakeidx.batch.artifacts import BatchFiles, IngestReport, StagedPart
from lakeidx.batch.context import BatchContext, make_context, new_batch_id
from lakeidx.batch.landed_files import content_of, join_contents
from lakeidx.batch.parts import is_full, read_part, write_part
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.table_schema import VALUE_KIND, TableSchema
from lakeidx.landing.cast_rows import cast_piece
from lakeidx.landing.kind_rules import KIND_COLUMN, KindRules, has_upserts
from lakeidx.landing.missing_columns import GIVEN_MODES, check_missing_mode, refuse_missing
from lakeidx.landing.new_columns import new_columns
from lakeidx.landing.types import LandingOptions, Piece, check_columns
from lakeidx.spark.new_tables import made, opened
from lakeidx.spark.read_options import ReadOptions
from lakeidx.spark.task_errors import one_line
from lakeidx.spark.values import TIME_ZONE, in_zone
from lakeidx.storage import open_store
from lakeidx.storage.base import ObjectStore
from lakeidx.table.handle import TableHandle
from lakeidx.table.metadata import TableMetadata
from lakeidx.tasks.limits import available_cores
from lakeidx.tasks.process_runner import ProcessRunner, process_count
from lakeidx.tasks.runner import LocalRunner, Runner

if TYPE_CHECKING:
    from lakeidx.batch.committed_batch import BatchResult

#: How often rows are in memory in a process that writes them: as they were staged, by target, sorted, encoded.
_COPIES = 4


@dataclass
class _StagedRows(WriterCommitMessage):
    """Rows that one task staged; `size`: their bytes in memory; `upserts`: some of them do more than delete their key.

    kinds   how many rows there are of each, of a verb
    """

    parts: tuple[StagedPart, ...]
    rows: int
    content: int
    size: int = 0
    upserts: bool = False
    kinds: Counter[str] = field(default_factory=Counter)


class TableWriter(DataSourceArrowWriter):
    """One batch. Nothing of it is visible before `commit`; a task that Spark runs twice stages twice and counts once.

    columns     of the data frame
    overwrite   replace the partitions the rows touch (the table, when it has no partitions) instead of upserting; with option
                ``where`` all partitions it holds for
    whole       an overwrite replaces the table, whatever partitions it has
    time_zone   of the session; None: tasks know it when it was set there
    """

    def __init__(
        self,
        options: ReadOptions,
        columns: pa.Schema,
        *,
        overwrite: bool,
        whole: bool = False,
        time_zone: str | None = None,
    ) -> None:
        if options.where is not None and not overwrite:
            raise InvalidInputError('where: is for writes with .mode("overwrite"); filter the data frame')
        table, self.planned = opened(options, columns)
        self.paths = table.paths
        self.options = options
        self.overwrite = overwrite
        self.batch_id = new_batch_id() if options.batch_id is None else options.batch_id
        self.time_zone = time_zone
        self.base = table.schema
        unknown = [n for n in columns.names if n not in {*self.base.field_names, KIND_COLUMN}]
        some = (
            options.merge_schema == "refuse" and len(set(unknown)) == len(unknown) and all(n.strip() for n in unknown)
        )
        #: As the columns that only Spark's catalog has of a name: an INSERT without values for them brings them as null.
        self.empty = unknown if some else []
        self.columns = columns = pa.schema(c for c in columns if c.name not in self.empty)
        self.schema = self._merged(table, self.base)
        self.mode = None if not overwrite else "partitions" if self.base.partition_keys and not whole else "table"
        files = self._context(table).files
        #: Rows of a batch that was ingested are only compared, whatever columns the table has got since.
        self.known = options.batch_id is not None and _counts(table.metadata, files)
        if not self.known:
            check_missing_mode(options.missing, GIVEN_MODES)
            KindRules(self.schema, options.on_delete)
        if KIND_COLUMN not in columns.names and not self.known:
            self._refuse_missing()
        self._check_columns(columns.names)
        self.directory = files.new_dir("ingest")
        #: Of a verb: see `lakeidx.batch.context.BatchContext`.
        self.operation: str | None = None
        self.read_on: int | None = None

    def _context(self, table: TableHandle, runner: Runner | None = None) -> BatchContext:
        options = self.options
        return make_context(
            table.metadata,
            self.batch_id,
            runner=runner,
            overwrite=self.mode,
            limits=options.limits,
            where=options.where,
        )

    def _refuse_missing(self) -> None:
        """Refuse upserts without some of the columns, unless null is wanted; the rows of an overwrite replace all columns."""
        missing = "null" if self.overwrite else self.options.missing
        refuse_missing(self.schema, self.columns.names, missing, what="the data frame's rows")

    def _check_columns(self, names: Sequence[str]) -> None:
        landed = LandingOptions(merge_schema=self.options.merge_schema)
        check_columns(names, self.schema.fields, landed, "the data frame")

    def _merged(self, table: TableHandle, base: TableSchema) -> TableSchema:
        """Return the schema that rows are staged under: the table's, with the columns that the data frame brings."""
        keys = (*base.primary_keys, *base.partition_keys)
        found = new_columns(self.columns, base.fields, self.options.merge_schema, keys=keys)
        if not found:
            return base
        from lakeidx.maintenance.landed_columns import plan_new_columns

        return plan_new_columns(table, base, found)

    @one_line
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task, in order."""
        store, schema = self._store(), self.schema
        kinds = KindRules(schema, self.options.on_delete)
        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        attempt = context.taskAttemptId() if context is not None else 0
        zone = self.time_zone or (context.getLocalProperty(TIME_ZONE) if context is not None else None)
        parts: list[StagedPart] = []
        waiting: list[pa.RecordBatch] = []
        rows = staged = content = waiting_bytes = size = 0
        upserts = False
        counts = Counter[str]()

        def flush() -> None:
            nonlocal staged, content, waiting_bytes, upserts
            found = in_zone(pa.Table.from_batches(waiting), schema.fields, zone)
            piece = Piece(found, rows - found.num_rows + 1)
            upserts = upserts or has_upserts(piece.rows)
            if self.operation is not None and KIND_COLUMN in found.column_names:
                counts.update(
                    {k["values"]: k["counts"] for k in pc.value_counts(found.column(KIND_COLUMN)).to_pylist()}
                )
            if upserts and not self.known:
                self._refuse_missing()
            kept = _cast(piece, schema, number, kinds)
            if kept.num_rows:
                parts.append(write_part(store, f"{self.directory}-{attempt}", number, len(parts), kept))
            # Rows of a batch whose id was drawn here never come again.
            content += 0 if self.options.batch_id is None else content_of(kept, schema)
            staged += found.num_rows
            waiting.clear()
            waiting_bytes = 0

        for batch in iterator:
            if batch.num_rows == 0:
                continue
            if self.empty:
                filled = [n for n in self.empty if batch.column(n).null_count < batch.num_rows]
                self._check_columns([*self.columns.names, *filled])
            waiting.append(batch.drop_columns(self.empty) if self.empty else batch)
            waiting_bytes += batch.nbytes
            size += batch.nbytes
            rows += batch.num_rows
            if is_full(rows - staged, waiting_bytes):
                flush()
        if waiting:
            flush()
        return _StagedRows(tuple(parts), rows, content, size, upserts, counts)

    @one_line
    def commit(self, messages: list[Any]) -> None:
        """Run all staged rows through assignment, write and commit, on this machine: Spark offers no tasks here.

        More rows than it may hold are those of processes that it starts, and lie in local files between these.
        """
        from lakeidx.batch.index_types import TableIndex

        size = sum(m.size for m in messages if m is not None)
        if size * _COPIES <= TableIndex.of(self.schema).options.index_driver_memory:
            self.finish(messages, LocalRunner(available_cores()))
            return
        with ProcessRunner(process_count()) as runner:
            self.finish(messages, runner)

    def finish(self, messages: list[Any], runner: Runner) -> BatchResult:
        """Run all staged rows through assignment, write and commit.

        messages   what tasks returned; None for one that Spark lost
        """
        from lakeidx.batch.stages.rerun import begin_run, check_rows
        from lakeidx.batch.upsert import finish_batch
        from lakeidx.maintenance.after_commit import compact_after_commit
        from lakeidx.maintenance.landed_columns import put_columns

        started = time.monotonic()
        if self.planned:
            table = made(self.options, self.columns)
            self.base = self.schema = table.schema
        else:
            table = self.options.open()
        staged = [m for m in messages if m is not None]
        parts = sorted((p for m in staged for p in m.parts), key=lambda p: (p.source, p.path))
        context = self._context(table, runner=runner)
        begin_run(table.metadata, context.files)
        rows, content = sum(m.rows for m in staged), join_contents([m.content for m in staged])
        upserts = any(m.upserts for m in staged)
        done = context.files.read(IngestReport)
        if done is not None and self.options.replay == "refuse":
            # Rows that were cast to other columns than then cannot be compared, only their number.
            check_rows(done, None, rows, content=content if done.schema_id == self.schema.id else None)
        elif done is None:
            if upserts:
                # A batch that was known when the write began may have been rolled back since.
                self._refuse_missing()
            if self.schema.id != self.base.id and not put_columns(table, self.base, self.schema):
                parts, content = self._staged_again(table, context, parts, upserts=upserts)
        report = IngestReport(
            batch_id=self.batch_id,
            schema_id=self.schema.id,
            schema_digest=self.schema.digest,
            sources=(),
            parts=tuple(parts),
            rows_in=rows,
            rows_rejected=0,
            rejected_path=None,
            reject_reasons={},
            seconds=time.monotonic() - started,
            table_id=table.metadata.table_id,
            rows_ignored=rows - sum(p.rows for p in parts),
            content=None if self.options.batch_id is None else content,
            completed_on=self.read_on,
            operation=self.operation,
        )
        context.files.close(report)
        result = finish_batch(context, lambda stage: None)
        compact_after_commit(table.metadata, context.runner, result.assign)
        counts = sum((m.kinds for m in staged), Counter[str]())
        if result.upserts and counts:
            # The verb has read what the index did not look for.
            by_kind = {"inserts": counts["+I"], "updates": counts["+U"], "upserts": 0}
            return replace(result, assign=result.assign.model_copy(update=by_kind))
        return result

    def _staged_again(
        self, table: TableHandle, context: BatchContext, parts: list[StagedPart], *, upserts: bool
    ) -> tuple[list[StagedPart], str]:
        """Plan the new columns upon what another alteration has put, and stage the rows under that; this is rare.

        errors   InvalidInputError when the rows lack columns that it has added, before anything is put
        """
        from lakeidx.maintenance.landed_columns import MERGE_TRIES, others_were_faster, put_columns

        staged_under = self.schema
        for _ in range(MERGE_TRIES):
            self.base = table.schema
            self.schema = self._merged(table, self.base)
            if upserts:
                self._refuse_missing()
            if self.schema.id == self.base.id or put_columns(table, self.base, self.schema):
                break
        else:
            raise others_were_faster(table)
        directory, made, contents = context.files.new_dir("ingest"), [], []
        for number, part in enumerate(parts):
            rows = read_part(table.store, None, part, staged_under, staged_under.field_names)
            kept = _cast(Piece(rows.select(list(staged_under.field_names)), 1), self.schema, part.source)
            if part.has_kinds:
                kept = kept.append_column(VALUE_KIND, rows.column(VALUE_KIND))
            made.append(write_part(table.store, directory, part.source, number, kept))
            contents.append(content_of(kept, self.schema))
        return made, join_contents(contents)

    def abort(self, messages: list[Any]) -> None:
        """Remove what was staged, by failed tasks, too, but for files of a batch that has begun: it is held, or comes again."""
        store = self._store()
        report = BatchFiles(store, self.paths, self.batch_id).read(IngestReport)
        kept = set() if report is None else {p.path for p in report.parts}
        folder, _, own = self.directory.rpartition("/")
        found = [f.path for f in store.walk(folder) if f.path.startswith(f"{folder}/{own}-")]
        store.delete_many(set(found) - kept)

    def _store(self) -> ObjectStore:
        return open_store(self.paths.root, self.options.storage or None)


def _counts(metadata: TableMetadata, files: BatchFiles) -> bool:
    """Return True when the batch was ingested, and its rows are in the table or may still come."""
    from lakeidx.batch.stages.rerun import why_superseded

    ingest = files.read(IngestReport)
    return ingest is not None and why_superseded(metadata, files, ingest) is None


def _cast(piece: Piece, schema: TableSchema, task: int, kinds: KindRules | None = None) -> pa.Table:
    """Cast rows of a task to the table's columns; InvalidInputError for a row that cannot be."""
    kept, rejected = cast_piece(
        piece, schema.fields, "the data frame", keys=(*schema.primary_keys, *schema.partition_keys), kinds=kinds
    )
    if rejected.num_rows:
        first = rejected.slice(0, 1).to_pylist()[0]
        raise InvalidInputError(f"row {first['line']} of task {task}: {first['reason']}")
    return kept
