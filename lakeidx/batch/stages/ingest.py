"""Stage `ingest`: landing files to staged rows of the table's schema, bad rows split off with their reasons.

A landing Parquet file that already has the table's types and no nulls where none may be is staged *by reference*: later
stages read the file itself, checked to be the one that was ingested. Everything else is cast and staged as Parquet.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.batch.artifacts import BatchFiles, IngestReport, SourceFile
from lakeidx.batch.parts import cut, part_checksum, unchanged, write_part
from lakeidx.batch.stages.ingest_task import IngestedFile, IngestTask, by_reference, ingest_files, key_names
from lakeidx.batch.stages.rerun import check_landing, check_rows, describe_sources
from lakeidx.errors import InvalidInputError, RejectedRowsError
from lakeidx.format.schema.schema_file import TableSchema, schema_digest
from lakeidx.landing.cast_rows import AS_STORED, RefuseRows, cast_piece
from lakeidx.landing.kind_rules import ON_DELETE_DEFAULT, KindRules, OnDelete, check_on_delete
from lakeidx.landing.lacking_rows import LackingRows, completes_from_table
from lakeidx.landing.missing_columns import (
    GIVEN_MODES,
    MISSING_DEFAULT,
    check_missing_mode,
    needed_columns,
    refuse_missing,
)
from lakeidx.landing.new_columns import NewColumnsError, join_columns, merge_policy, new_columns, says_nothing
from lakeidx.landing.row_kinds import has_upserts
from lakeidx.landing.types import OTHER_TABLES, LandingOptions, Piece, check_columns, message_formats, refuse_tables
from lakeidx.table.metadata import TableMetadata
from lakeidx.tasks.in_parallel import in_parallel
from lakeidx.tasks.runner import Runner
from lakeidx.types import DataType

if TYPE_CHECKING:
    from lakeidx.batch.stages.rejected_rows import RejectedRows
    from lakeidx.landing.reject_limit import RejectLimit

_FOOTER_THREADS = 8
log = logging.getLogger(__name__)

#: Called when a batch is staged under a schema that the table does not have yet, before its report makes it count.
Publish = Callable[[], None]
#: Rows that do not have a column, by its name: bool[n].
Absent: TypeAlias = Mapping[str, NDArray[np.bool_]]
_NONE_ABSENT: Absent = {}


def run_ingest(
    files: BatchFiles,
    schema: TableSchema,
    landing: Sequence[str],
    options: LandingOptions,
    runner: Runner,
    *,
    table_id: str = "",
    strict: bool = False,
    limit: RejectLimit | None = None,
    overwrite: bool = False,
    new: Collection[str] = (),
    table: TableMetadata | None = None,
    judge: RefuseRows | None = None,
    publish: Publish | None = None,
) -> IngestReport:
    """Ingest the landing files of a batch, in order; return the report, of an earlier run if the stage has finished.

    table_id, table   its identity; the table, where rows are compared with the table's, or completed by them
    strict     refuse the batch when a row is rejected (nothing is published)
    limit      refuse it when more are; one whose rows are all rejected is always refused
    overwrite, new   the rows take the place of others; columns that the table gets with the batch
    judge      finds rows to reject; it is sent to the tasks
    publish    puts the schema, when it is one that the table does not have yet
    errors     NewColumnsError when files have columns to add to the table first; RejectedRowsError; InvalidInputError, also
               when the batch was ingested with other content; NotFoundError, CorruptFileError naming the landing file
    """
    done = files.read(IngestReport)
    if done is not None:
        check_landing(files.store, done, landing, options.storage_options)
        return done
    started = time.monotonic()
    options = _checked(schema, landing, options)
    sources = describe_sources(files.store, landing, options.storage_options)
    todo = _tasks(files, schema, options, sources, table, judge, overwrite=overwrite, new=new)
    place = options.storage_options
    with unchanged(files.store, sources, place, since="while it was read", then="run the batch again"):
        tasks, results = _ingest_all(todo, runner, label=_label(files, table, sources))
    _refuse_columns(tasks, results)
    rows_in = sum(r.rows_in for r in results)
    rejected = _rejected(results, rows_in, limit, strict=strict)
    report = _report(
        files,
        schema,
        table_id,
        started,
        sources=sources,
        parts=tuple(p for r in results for p in r.parts),
        rows_in=rows_in,
        rows_rejected=rejected.rows,
        rejected_path=rejected.path,
        reject_reasons=dict(rejected.reasons),
        skipped=_skipped(results, rows_in, options),
        newest_change_ms=max((r.newest_ms for r in results if r.newest_ms is not None), default=None),
        rows_ignored=sum(r.ignored for r in results),
        completed_on=next((r.asked for r in results if r.asked is not None), None),
    )
    if publish is not None:
        publish()
    return files.close(report)


def _skipped(results: Sequence[IngestedFile], rows_in: int, options: LandingOptions) -> dict[str, int]:
    """Add up what was skipped; warn where that is all there was, of tables that were not asked for."""
    skipped = dict(sum((Counter(r.skipped) for r in results), Counter()))
    if not rows_in and (others := skipped.get(OTHER_TABLES, 0)):
        log.warning("none of %d messages is of source %s", others, ", ".join(options.source))
    return skipped


def _tasks(
    files: BatchFiles,
    schema: TableSchema,
    options: LandingOptions,
    sources: Sequence[SourceFile],
    table: TableMetadata | None,
    judge: RefuseRows | None,
    *,
    overwrite: bool,
    new: Collection[str],
) -> list[IngestTask]:
    """Make the task of each landing file."""
    looks_up = options.check_before > 0 or completes_from_table(schema, options, overwrite=overwrite)
    one = IngestTask(
        files.store,
        schema,
        options,
        0,
        sources[0],
        files.new_dir("ingest"),
        table if looks_up else None,
        judge,
        new=new,
    )
    return [replace(one, source=i, file=s) for i, s in enumerate(sources)]


def _report(files: BatchFiles, schema: TableSchema, table_id: str, started: float, **found: Any) -> IngestReport:
    """Make the report of rows that are staged: `found` are its fields that others do not have alike."""
    return IngestReport(
        batch_id=files.batch_id,
        schema_id=schema.id,
        schema_digest=schema_digest(schema),
        table_id=table_id,
        seconds=time.monotonic() - started,
        **{"rows_rejected": 0, "rejected_path": None, "reject_reasons": {}, **found},
    )


def _label(files: BatchFiles, table: TableMetadata | None, sources: Sequence[SourceFile]) -> str:
    place = "" if table is None else f" of {table.paths.root}"
    return (
        f"ingest: batch {files.batch_id}{place}: {len(sources):,} landing files, {sum(s.size for s in sources):,} bytes"
    )


def _checked(schema: TableSchema, landing: Sequence[str], options: LandingOptions) -> LandingOptions:
    """Return the options as tasks read them; InvalidInputError for those that mean nothing here, and for no file at all."""
    check_missing_mode(options.missing)
    check_on_delete(schema, options.on_delete)
    if options.source and options.format not in message_formats():
        raise InvalidInputError(f"source is for messages, which name their table: {', '.join(message_formats())}")
    if options.check_before:
        from lakeidx.batch.before_images import refuse_uncheckable

        refuse_uncheckable(schema, options)
    if not landing:
        raise InvalidInputError("a batch needs at least one landing file")
    # Where nothing depends on it, readers do not look for columns that rows lack.
    tells = needed_columns(schema) or schema.table_options.merge_engine == "aggregation"
    missing = options.missing if tells else "null"
    return replace(options, merge_schema=merge_policy(options.merge_schema), missing=missing)


def _refuse_columns(tasks: Sequence[IngestTask], results: Sequence[IngestedFile]) -> None:
    """Raise NewColumnsError when files have columns that the table has to get first, and refuse files that lack some of its."""
    tables, source = (
        {name: t.file.path for t, r in zip(tasks, results, strict=True) for name in r.tables},
        tasks[0].options.source,
    )
    if len(tables) > 1:
        refuse_tables(tables, source, path=next(reversed(tables.values())))
    merged: dict[str, DataType] = {}
    for task, result in zip(tasks, results, strict=True):
        join_columns(merged, result.extra, path=task.file.path)
    if merged:
        raise NewColumnsError(merged)
    present: dict[int, frozenset[str]] = {}
    for task, result in zip(tasks, results, strict=True):
        present[task.source] = present.get(task.source, frozenset()) | result.present
    for task in (t for t, r in zip(tasks, results, strict=True) if r.upserts):
        what, names = "the landing file's rows", present[task.source]
        refuse_missing(task.schema, names, task.options.missing, what=what, path=task.file.path)
    brought = frozenset[str]()
    for task, result in zip(tasks, results, strict=True):
        late = sorted(result.passed & brought)
        if late:
            raise InvalidInputError(
                f"rows lack the columns {', '.join(late)}, which an earlier file of the batch brings into the table: give the "
                "files that bring them in an earlier batch, or say what that means with missing (null, before, table)",
                path=task.file.path,
            )
        brought |= result.brought


def _rejected(
    results: Sequence[IngestedFile], rows_in: int, limit: RejectLimit | None, *, strict: bool
) -> RejectedRows:
    """Join what was rejected; RejectedRowsError when that is too much."""
    from lakeidx.batch.stages.rejected_rows import join_rejected
    from lakeidx.landing.reject_limit import RejectLimit

    rejected = join_rejected([r.rejected for r in results])
    why = (RejectLimit(count=0) if strict else limit or RejectLimit()).exceeded(rejected.rows, rows_in)
    if not why:
        return rejected
    first = rejected.first[0]
    raise RejectedRowsError(
        f"{rejected.rows} rows rejected and {'the batch is strict' if strict else why}; first: line {first['line']}: "
        f"{first['reason']}",
        path=first["source"],
    )


def _ingest_all(
    tasks: Sequence[IngestTask], runner: Runner, *, label: str
) -> tuple[list[IngestTask], list[IngestedFile]]:
    """Ingest all files: those staged by reference here, from their footers; the others in tasks, large texts in several.

    returns   the tasks in the order of their rows, and what came of each
    """
    from lakeidx.batch.stages.ingest_task import share_files

    referred = in_parallel(by_reference, tasks, threads=_FOOTER_THREADS)
    rest = {t.source: t.file for t, found in zip(tasks, referred, strict=True) if found is None}
    # A row before a change may be one that an earlier file of the batch brings: then one task reads all, in order.
    one_task = tasks[0].table is not None
    shares = {} if one_task else share_files(tasks[0].store, rest, tasks[0].options, runner, label=label)
    cut_up = [replace(t, share=share) for t in tasks for share in shares.get(t.source, [None])]
    todo = [t for t in cut_up if t.source in rest]
    work = [todo] if one_task else [[t] for t in todo]
    mapped = runner.map(ingest_files, work, label=label) if todo else []
    read = iter([file for files in mapped for file in files])
    return cut_up, [referred[t.source] or next(read) for t in cut_up]


def stage_table(
    files: BatchFiles,
    schema: TableSchema,
    rows: pa.Table,
    *,
    table_id: str = "",
    missing: str = MISSING_DEFAULT,
    absent: Absent | None = None,
    merge_schema: str = "refuse",
    new: Collection[str] = (),
    on_delete: OnDelete = ON_DELETE_DEFAULT,
    publish: Publish | None = None,
) -> IngestReport:
    """Stage rows that are in memory, in order; bad rows are an error, because nobody would read a file of rejected rows.

    schema     the newest; of a batch that was staged before the one it was staged under, else only numbers of rows are compared
    table_id   identity of the table
    missing    columns that the rows do not have: see `lakeidx.landing.missing_columns`
    absent     rows that do not have a column, by its name
    new        columns that the table gets with the batch
    on_delete  what becomes of rows of kind -D and -U: see `lakeidx.landing.kind_rules`
    publish    as for `run_ingest`
    errors     NewColumnsError when `merge_schema` has the table get columns first; InvalidInputError naming the row (counted
               from 1) and the reason, and when the batch was staged with other rows
    """
    done = files.read(IngestReport)
    if merge_schema != "refuse":
        rows = rows.drop_columns(says_nothing(rows.schema, schema.fields))
    if done is not None:
        _check_same_rows(done, schema, rows, KindRules(schema, on_delete))
        return done
    check_missing_mode(missing, GIVEN_MODES)
    started, kinds = time.monotonic(), KindRules(schema, on_delete)
    extra = new_columns(rows.schema, schema.fields, merge_schema, keys=key_names(schema))
    if extra:
        raise NewColumnsError(extra)
    if has_upserts(rows):
        refuse_missing(schema, rows.column_names, missing, what="the given rows")
    out_dir = files.new_dir("ingest")
    parts = [
        write_part(files.store, out_dir, 0, number, kept, checksum=True)
        for number, kept in enumerate(_pieces(schema, rows, kinds, LackingRows(schema, missing, new), absent or {}))
    ]
    report = _report(
        files,
        schema,
        table_id,
        started,
        sources=(),
        parts=tuple(parts),
        rows_in=rows.num_rows,
        rows_ignored=rows.num_rows - sum(p.rows for p in parts),
    )
    if publish is not None:
        publish()
    return files.close(report)


def _check_same_rows(done: IngestReport, schema: TableSchema, rows: pa.Table, kinds: KindRules) -> None:
    """Refuse other rows than those that were staged; they are compared as cast to the schema they were staged under."""
    if done.rows_in != rows.num_rows or done.schema_id != schema.id:
        check_rows(done, None, rows.num_rows)
        return
    try:
        checksums = [part_checksum(p) for p in _pieces(schema, rows, kinds)]
    except InvalidInputError as error:
        raise InvalidInputError(
            f"batch {done.batch_id!r} was ingested with other content, under schema {schema.id}: {error.message}; "
            "use a new batch id for this content"
        ) from error
    check_rows(done, checksums, rows.num_rows)


def _pieces(
    schema: TableSchema,
    rows: pa.Table,
    kinds: KindRules,
    lacking: LackingRows | None = None,
    absent: Absent = _NONE_ABSENT,
) -> Iterator[pa.Table]:
    """Cast rows in pieces of one staged part; InvalidInputError for a bad row."""
    check_columns(rows.column_names, schema.fields, LandingOptions(), "the given table")
    position, as_stored = 1, rows.schema.metadata == AS_STORED
    for part in cut(rows):
        mine = {n: mask[position - 1 : position - 1 + part.num_rows] for n, mask in absent.items()}
        kept, rejected = cast_piece(
            Piece(part, position, absent=mine), schema.fields, "the given table", keys=key_names(schema),
            refuse=[] if lacking is None else [lacking], kinds=kinds, as_stored=as_stored,
        )  # fmt: skip
        if rejected.num_rows:
            first = rejected.slice(0, 1).to_pylist()[0]
            raise InvalidInputError(
                f"row {first['line']}: {first['reason']} ({rejected.num_rows} bad rows in this piece)"
            )
        position += part.num_rows
        # In one chunk: the staged bytes, and so their checksum, do not depend on how the rows came.
        if kept.num_rows or not part.num_rows:
            yield kept.combine_chunks()
