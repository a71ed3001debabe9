"""All stages of a batch, one after another, in one call: what the command line and `Table.upsert` use."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakeidx.errors import InvalidInputError
from lakeidx.format.paths import TablePaths
from lakeidx.pipeline.artifacts import AssignReport, BatchFiles, CommitReport, IngestReport, WriteReport
from lakeidx.pipeline.assign import run_assignment
from lakeidx.pipeline.context import PARALLEL_ROWS, BatchContext
from lakeidx.pipeline.ingest import run_ingest, stage_table
from lakeidx.pipeline.landing import LandingOptions
from lakeidx.pipeline.publish import run_commit
from lakeidx.pipeline.runner import LocalRunner, Runner
from lakeidx.pipeline.write import run_index_write
from lakeidx.table.metadata import TableMetadata

#: Called with the name of the stage that starts.
OnStage = Callable[[str], None]

OVERWRITE_MODES = (None, "partitions", "table")


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The reports of all stages of a batch."""

    ingest: IngestReport
    assign: AssignReport
    write: WriteReport
    commit: CommitReport


def new_batch_id() -> str:
    """An id for a batch that nobody wants to name."""
    return f"batch-{uuid.uuid4().hex}"


def make_context(
    metadata: TableMetadata,
    batch_id: str,
    *,
    runner: Runner | None = None,
    overwrite: str | None = None,
    parallel_rows: int = PARALLEL_ROWS,
) -> BatchContext:
    """The context of a batch.

    overwrite, parallel_rows   see `BatchContext`
    """
    if overwrite not in OVERWRITE_MODES:
        raise InvalidInputError(f"unknown overwrite mode {overwrite!r}; use partitions or table")
    paths: TablePaths = metadata.paths
    return BatchContext(
        metadata, BatchFiles(metadata.store, paths, batch_id), runner or LocalRunner(2), overwrite, parallel_rows
    )


def upsert_files(
    context: BatchContext,
    landing: Sequence[str],
    options: LandingOptions | None = None,
    *,
    strict: bool = False,
    on_stage: OnStage | None = None,
) -> BatchResult:
    """Take landing files through all stages up to commit; a batch that was committed changes nothing."""
    tell = on_stage or (lambda stage: None)
    schema = context.metadata.latest_schema()
    tell("ingest")
    run_ingest(context.files, schema, landing, options or LandingOptions(), context.runner, strict=strict)
    return finish_batch(context, tell)


def upsert_table(context: BatchContext, rows: pa.Table, *, on_stage: OnStage | None = None) -> BatchResult:
    """Take rows in memory through all stages; row kinds in column ``_kind`` when present."""
    tell = on_stage or (lambda stage: None)
    tell("ingest")
    stage_table(context.files, context.metadata.latest_schema(), rows)
    return finish_batch(context, tell)


def finish_batch(context: BatchContext, tell: OnStage) -> BatchResult:
    """The stages after ingest."""
    tell("bucket_assignment")
    attempt = context.files.latest_attempt()
    run_assignment(context, attempt)
    tell("index_write")
    run_index_write(context, attempt)
    tell("commit")
    commit = run_commit(context)
    return BatchResult(
        context.files.require(IngestReport),
        context.files.require(AssignReport, attempt=commit.attempt),
        context.files.require(WriteReport, attempt=commit.attempt),
        commit,
    )
