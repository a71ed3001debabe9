"""Stage `ingest`: landing files to staged rows of the table's schema, bad rows split off with their reasons.

A landing Parquet file that already has the table's types and no nulls where none may be is staged *by reference*: later
stages read the file itself, checked to be the one that was ingested. Everything else is cast and staged as Parquet.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeidx.errors import InvalidInputError
from lakeidx.format.schema import TableSchema
from lakeidx.pipeline.artifacts import BatchFiles, IngestReport, SourceFile, StagedPart
from lakeidx.pipeline.cast import cast_column
from lakeidx.pipeline.kinds import KIND_COLUMN, VALUE_KIND, kind_codes
from lakeidx.pipeline.landing import (
    BadLine,
    LandingOptions,
    Piece,
    check_columns,
    landing_format,
    open_parquet,
    read_landing,
)
from lakeidx.pipeline.parts import PART_ROWS, describe_source, landing_store, write_part
from lakeidx.pipeline.runner import Runner
from lakeidx.storage.base import ObjectStore
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, Field, to_arrow

_REJECT_SAMPLE_BYTES = 2000
_FOOTER_THREADS = 8
REJECT_SCHEMA = pa.schema(
    [("source", pa.string()), ("line", pa.int64()), ("reason", pa.string()), ("row", pa.string())]
)


class RejectedRowsError(InvalidInputError):
    """A strict batch has rows that cannot be kept; nothing of it was published."""


@dataclass(frozen=True, slots=True)
class IngestTask:
    """One landing file for one task."""

    store: ObjectStore
    schema: TableSchema
    options: LandingOptions
    source: int
    file: SourceFile
    out_dir: str


@dataclass(frozen=True, slots=True)
class IngestedFile:
    """What a task made of its landing file."""

    parts: tuple[StagedPart, ...]
    rows_in: int
    rejected: pa.Table


def run_ingest(
    files: BatchFiles,
    schema: TableSchema,
    landing: Sequence[str],
    options: LandingOptions,
    runner: Runner,
    *,
    strict: bool = False,
) -> IngestReport:
    """Ingest the landing files of a batch, in order; a batch that was ingested gives its report again.

    strict   refuse the batch when a row is rejected (nothing is published)
    errors   RejectedRowsError, InvalidInputError, NotFoundError, CorruptFileError naming the landing file
    """
    done = files.read(IngestReport)
    if done is not None:
        return done
    started = time.monotonic()
    if not landing:
        raise InvalidInputError("a batch needs at least one landing file")
    store = files.store
    sources = tuple(describe_source(store, path) for path in landing)
    out_dir = files.new_dir("ingest")
    tasks = [IngestTask(store, schema, options, i, s, out_dir) for i, s in enumerate(sources)]
    results = _ingest_all(tasks, runner)
    rejected = pa.concat_tables([r.rejected for r in results])
    reasons = Counter(reason.split(":")[0] for reason in rejected.column("reason").to_pylist())
    if strict and rejected.num_rows:
        first = rejected.slice(0, 1).to_pylist()[0]
        raise RejectedRowsError(
            f"{rejected.num_rows} rows rejected and the batch is strict; first: line {first['line']}: {first['reason']}",
            path=first["source"],
        )
    rejected_path = None
    if rejected.num_rows:
        rejected_path = f"{out_dir}/rejected.parquet"
        with store.open_output(rejected_path) as sink:
            pq.write_table(rejected, sink)
    report = IngestReport(
        batch_id=files.batch_id,
        schema_id=schema.id,
        sources=sources,
        parts=tuple(p for r in results for p in r.parts),
        rows_in=sum(r.rows_in for r in results),
        rows_rejected=rejected.num_rows,
        rejected_path=rejected_path,
        reject_reasons=dict(reasons.most_common(50)),
        seconds=time.monotonic() - started,
    )
    return files.close(report)


def _ingest_all(tasks: Sequence[IngestTask], runner: Runner) -> list[IngestedFile]:
    """Files that can be taken by reference need a look at their footers only, here; the others are read in tasks."""
    with ThreadPoolExecutor(min(_FOOTER_THREADS, len(tasks))) as pool:
        done = list(pool.map(_by_reference, tasks))
    rest = [t for t, found in zip(tasks, done, strict=True) if found is None]
    read = iter(runner.map(ingest_file, rest, label="ingest") if rest else ())
    return [next(read) if found is None else found for found in done]


def ingest_file(task: IngestTask) -> IngestedFile:
    """Read, cast and stage one landing file (runs in a task)."""
    writer = _PartWriter(task)
    rejected: list[pa.Table] = []
    rows_in = 0
    for piece in read_landing(
        landing_store(task.store, task.file.path), task.file.path, task.schema.fields, task.options
    ):
        kept, bad = cast_piece(piece, task.schema.fields, task.file.path)
        rows_in += piece.rows.num_rows + len(piece.bad_lines)
        rejected.append(bad)
        writer.add(kept)
    return IngestedFile(
        writer.finish(), rows_in, pa.concat_tables(rejected) if rejected else REJECT_SCHEMA.empty_table()
    )


def cast_piece(piece: Piece, fields: Sequence[Field], source: str) -> tuple[pa.Table, pa.Table]:
    """Cast a piece to the table's columns.

    returns  kept rows (table columns, and _VALUE_KIND when the landing file has kinds) and rejected rows
    """
    rows = piece.rows
    n = rows.num_rows
    reasons = np.full(n, "", dtype=object)
    bad = np.zeros(n, dtype=bool)

    def mark(mask: np.ndarray, reason: str) -> None:
        fresh = mask & ~bad
        reasons[fresh] = reason
        bad[:] |= mask

    columns: list[pa.Array] = []
    names: list[str] = []
    for f in fields:
        try:
            cast = cast_column(rows.column(f.name) if f.name in rows.column_names else pa.nulls(n), f.type)
        except InvalidInputError as error:
            raise InvalidInputError(f"column {f.name}: {error.message}", path=source) from error
        if cast.failed is not None:
            mark(cast.failed, f"cast: column {f.name} is not {f.type.with_nullable(True)}")
        if not f.type.nullable and cast.values.null_count:
            mark(np.asarray(pc.is_null(cast.values)), f"null: column {f.name} must not be null")
        columns.append(cast.values)
        names.append(f.name)
    if KIND_COLUMN in rows.column_names:
        codes, unknown = kind_codes(rows.column(KIND_COLUMN))
        if unknown is not None:
            mark(unknown, "kind: the row kind is none of +I -U +U -D")
        if pc.any(pc.not_equal(codes, 0), min_count=0).as_py():
            columns.append(codes)
            names.append(VALUE_KIND)
    kept = pa.table(columns, names=names)
    lines = _broken_lines(piece.bad_lines, source)
    if not bad.any():
        return kept, lines
    picked = np.flatnonzero(bad)
    line_of = np.asarray(piece.lines) if piece.lines is not None else piece.first_line + np.arange(n, dtype=np.int64)
    rejected = pa.table(
        {
            "source": pa.array([source] * len(picked), pa.string()),
            "line": pa.array(line_of[picked], pa.int64()),
            "reason": pa.array(list(reasons[picked]), pa.string()),
            "row": pa.array([_as_text(r) for r in rows.take(picked).to_pylist()], pa.string()),
        },
        schema=REJECT_SCHEMA,
    )
    return kept.filter(pa.array(~bad)), pa.concat_tables([lines, rejected])


def _broken_lines(bad: Sequence[BadLine], source: str) -> pa.Table:
    return pa.table(
        {
            "source": pa.array([source] * len(bad), pa.string()),
            "line": pa.array([b.line for b in bad], pa.int64()),
            "reason": pa.array([f"format: {b.reason}" for b in bad], pa.string()),
            "row": pa.array([b.text[:_REJECT_SAMPLE_BYTES] for b in bad], pa.string()),
        },
        schema=REJECT_SCHEMA,
    )


def _as_text(row: dict[str, Any]) -> str:
    return json.dumps(row, default=str, ensure_ascii=False)[:_REJECT_SAMPLE_BYTES]


def _same_type(found: pa.DataType, wanted: Field) -> bool:
    """True when later stages may read the column as it is: the same values in the same Arrow type up to its layout."""
    target = to_arrow(wanted.type)
    if found == target:
        return True
    if wanted.type.root in STRING_ROOTS:
        return bool(pa.types.is_large_string(found) or pa.types.is_string_view(found))
    if wanted.type.root in BYTES_ROOTS:
        return bool(pa.types.is_large_binary(found) or pa.types.is_binary_view(found))
    return False


def _by_reference(task: IngestTask) -> IngestedFile | None:
    """Parts that point into the landing file, None when its rows must be cast or looked at."""
    path = task.file.path
    if landing_format(path, task.options) != "parquet":
        return None
    file = open_parquet(landing_store(task.store, path), path)
    found = {f.name: f.type for f in file.schema_arrow}
    check_columns(list(found), task.schema.fields, task.options, path)
    if KIND_COLUMN in found or VALUE_KIND in found or any(f.name not in found for f in task.schema.fields):
        return None
    if not all(_same_type(found[f.name], f) for f in task.schema.fields):
        return None
    metadata = file.metadata
    position = {file.schema.column(i).path: i for i in range(len(file.schema))}
    for f in task.schema.fields:
        if f.type.nullable:
            continue
        for group in range(metadata.num_row_groups):
            column = metadata.row_group(group).column(position[f.name]) if f.name in position else None
            statistics = column.statistics if column is not None else None
            if statistics is None or not statistics.has_null_count or statistics.null_count:
                return None
    parts: list[StagedPart] = []
    groups: list[int] = []
    rows = size = 0
    for group in range(metadata.num_row_groups):
        groups.append(group)
        rows += metadata.row_group(group).num_rows
        size += metadata.row_group(group).total_byte_size
        if rows >= PART_ROWS or group == metadata.num_row_groups - 1:
            parts.append(StagedPart(path=path, rows=rows, bytes=size, source=task.source, by_reference=True,
                                    row_groups=tuple(groups)))  # fmt: skip
            groups, rows, size = [], 0, 0
    return IngestedFile(tuple(p for p in parts if p.rows), metadata.num_rows, REJECT_SCHEMA.empty_table())


class _PartWriter:
    """Writes staged rows as Parquet parts of bounded size."""

    def __init__(self, task: IngestTask) -> None:
        self.task = task
        self.parts: list[StagedPart] = []
        self._pending: list[pa.Table] = []
        self._rows = 0

    def add(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._pending.append(rows)
            self._rows += rows.num_rows
        if self._rows >= PART_ROWS:
            self._flush()

    def finish(self) -> tuple[StagedPart, ...]:
        self._flush()
        return tuple(self.parts)

    def _flush(self) -> None:
        if not self._rows:
            return
        has_kinds = any(VALUE_KIND in t.column_names for t in self._pending)
        tables = [_with_kinds(t) if has_kinds else t for t in self._pending]
        part = write_part(
            self.task.store, self.task.out_dir, self.task.source, len(self.parts), pa.concat_tables(tables)
        )
        self.parts.append(part)
        self._pending, self._rows = [], 0


def _with_kinds(table: pa.Table) -> pa.Table:
    if VALUE_KIND in table.column_names:
        return table
    return table.append_column(VALUE_KIND, pa.array(np.zeros(table.num_rows, dtype=np.int8)))


def stage_table(files: BatchFiles, schema: TableSchema, rows: pa.Table) -> IngestReport:
    """Stage rows that are in memory, in order; bad rows are an error here, for nobody would look at them later.

    errors   InvalidInputError naming the row (counted from 1) and the reason
    """
    done = files.read(IngestReport)
    if done is not None:
        return done
    started = time.monotonic()
    check_columns(rows.column_names, schema.fields, LandingOptions(), "the given table")
    out_dir = files.new_dir("ingest")
    parts = []
    for number, start in enumerate(range(0, rows.num_rows, PART_ROWS)):
        piece = Piece(rows.slice(start, PART_ROWS), start + 1)
        kept, rejected = cast_piece(piece, schema.fields, "the given table")
        if rejected.num_rows:
            first = rejected.slice(0, 1).to_pylist()[0]
            raise InvalidInputError(
                f"row {first['line']}: {first['reason']} ({rejected.num_rows} bad rows in this piece)"
            )
        parts.append(write_part(files.store, out_dir, 0, number, kept))
    report = IngestReport(
        batch_id=files.batch_id,
        schema_id=schema.id,
        sources=(),
        parts=tuple(parts),
        rows_in=rows.num_rows,
        rows_rejected=0,
        rejected_path=None,
        reject_reasons={},
        seconds=time.monotonic() - started,
    )
    return files.close(report)
