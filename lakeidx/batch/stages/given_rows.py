"""Stage `ingest` of rows in memory, or of a stream: cast to the table's schema and staged in order; a bad row is an error."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.batch.artifacts import BatchFiles, IngestReport
from lakeidx.batch.parts import cut, is_full, key_names, part_checksum, write_part
from lakeidx.batch.stages.rerun import check_rows
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.landing.cast_rows import AS_STORED, cast_piece
from lakeidx.landing.kind_rules import ON_DELETE_DEFAULT, KindRules, OnDelete, has_upserts
from lakeidx.landing.missing_columns import GIVEN_MODES, LackingRows, check_missing_mode, refuse_missing
from lakeidx.landing.new_columns import NewColumnsError, new_columns, says_nothing
from lakeidx.landing.types import MISSING_DEFAULT, LandingOptions, Piece, check_columns
from lakeidx.tasks.logs import stage_logs

#: Called when a batch is staged under a schema that the table does not have yet, before its report makes it count.
Publish = Callable[[], None]
#: Rows that do not have a column, by its name: bool[n].
Absent: TypeAlias = Mapping[str, NDArray[np.bool_]]
_NONE_ABSENT: Absent = {}
#: Rows in memory are of no file.
_OF_NO_FILE = LandingOptions()


@stage_logs("ingest")
def stage_table(
    files: BatchFiles,
    schema: TableSchema,
    rows: pa.Table | pa.RecordBatchReader,
    *,
    table_id: str = "",
    missing: str = MISSING_DEFAULT,
    absent: Absent | None = None,
    merge_schema: str = "refuse",
    new: Collection[str] = (),
    on_delete: OnDelete = ON_DELETE_DEFAULT,
    publish: Publish | None = None,
    read_on: int | None = None,
    operation: str | None = None,
) -> IngestReport:
    """Stage rows that are in memory, in order; bad rows are an error, because nobody would read a file of rejected rows.

    rows       a stream has no kinds, brings no columns, and is of a batch that was not staged before
    schema     the newest; of a batch that was staged before the one it was staged under, else only numbers of rows are compared
    table_id   identity of the table
    missing    columns that the rows do not have: see `lakeidx.landing.missing_columns`
    absent     rows that do not have a column, by its name
    new        columns that the table gets with the batch
    on_delete  what becomes of rows of kind -D and -U: see `lakeidx.landing.kind_rules`
    publish    as for `run_ingest`; read_on, operation: see `lakeidx.batch.context.BatchContext`
    errors     NewColumnsError when `merge_schema` has the table get columns first; InvalidInputError naming the row (counted
               from 1) and the reason, and when the batch was staged with other rows
    """
    done = files.read(IngestReport)
    if isinstance(rows, pa.Table) and merge_schema != "refuse":
        rows = rows.drop_columns(says_nothing(rows.schema, schema.fields))
    if done is not None:
        _check_same_rows(done, schema, pa.table(rows), KindRules(schema, on_delete))
        return done
    check_missing_mode(missing, GIVEN_MODES)
    started, kinds = time.monotonic(), KindRules(schema, on_delete)
    extra = new_columns(rows.schema, schema.fields, merge_schema, keys=key_names(schema))
    if extra:
        raise NewColumnsError(extra)
    if not isinstance(rows, pa.Table) or has_upserts(rows):
        refuse_missing(schema, rows.schema.names, missing, what="the given rows")
    out_dir, count = files.new_dir("ingest"), [0]
    pieces = _pieces(schema, rows, kinds, LackingRows(schema, missing, new), absent or {}, count)
    parts = [write_part(files.store, out_dir, 0, n, kept, checksum=True) for n, kept in enumerate(pieces)]
    report = ingest_report(
        files,
        schema,
        table_id,
        started,
        sources=(),
        parts=tuple(parts),
        rows_in=count[0],
        rows_ignored=count[0] - sum(p.rows for p in parts),
        completed_on=read_on,
        operation=operation,
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
    rows: pa.Table | pa.RecordBatchReader,
    kinds: KindRules,
    lacking: LackingRows | None = None,
    absent: Absent = _NONE_ABSENT,
    count: list[int] | None = None,
) -> Iterator[pa.Table]:
    """Cast rows in pieces of one staged part; InvalidInputError for a bad row.

    count   its one number becomes that of the rows
    """
    check_columns(rows.schema.names, schema.fields, _OF_NO_FILE, "the given table")
    position, as_stored = 1, rows.schema.metadata == AS_STORED
    for part in cut(rows) if isinstance(rows, pa.Table) else _parts_of(rows):
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
        if count is not None:
            count[0] += part.num_rows
        # In one chunk: the staged bytes, and so their checksum, do not depend on how the rows came.
        if kept.num_rows or not part.num_rows:
            yield kept.combine_chunks()


def _parts_of(stream: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Gather the batches of a stream in tables of about one part."""
    waiting = list[pa.RecordBatch]()
    for batch in stream:
        waiting.append(batch)
        if is_full(sum(b.num_rows for b in waiting), sum(b.nbytes for b in waiting)):
            yield from cut(pa.Table.from_batches(waiting))
            waiting = []
    if waiting:
        yield from cut(pa.Table.from_batches(waiting))


def ingest_report(files: BatchFiles, schema: TableSchema, table_id: str, started: float, **found: Any) -> IngestReport:
    """Make the report of rows that are staged: `found` are its fields that others do not have alike."""
    return IngestReport(
        batch_id=files.batch_id,
        schema_id=schema.id,
        schema_digest=schema.digest,
        table_id=table_id,
        seconds=time.monotonic() - started,
        **{"rows_rejected": 0, "rejected_path": None, "reject_reasons": {}, **found},
    )
