"""``lakeidx upsert``: landing files through all stages up to commit."""

from __future__ import annotations

import json
from typing import Annotated

import pyarrow.parquet as pq
import typer

from lakeidx.cli.context import (
    EXIT_FINDINGS,
    MasterOption,
    NoProgress,
    RemoteOption,
    TableArgument,
    one_clear_line,
    open_table,
    stages,
)
from lakeidx.errors import InvalidInputError
from lakeidx.pipeline.ingest import RejectedRowsError
from lakeidx.pipeline.landing import LandingOptions
from lakeidx.pipeline.runner import LocalRunner, Runner
from lakeidx.pipeline.upsert import BatchResult, make_context, new_batch_id, upsert_files
from lakeidx.storage.base import ObjectStore


def spark_runner(master: str | None, remote: str | None) -> Runner:
    """A runner on Spark; InvalidInputError when pyspark is not installed."""
    try:
        from lakeidx.spark.runner import SparkRunner
        from lakeidx.spark.session import get_session
    except ImportError as error:
        raise InvalidInputError(f"--spark needs the package pyspark: {error}") from error
    return SparkRunner(get_session(master=master, remote=remote))


def upsert(
    table: TableArgument,
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="landing files: .parquet .csv .jsonl")],
    batch_id: Annotated[str | None, typer.Option("--batch-id", help="the same id is committed once")] = None,
    spark: Annotated[bool, typer.Option("--spark", help="run the stages on Spark")] = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    strict: Annotated[bool, typer.Option("--strict", help="refuse the batch when a row is rejected")] = False,
    overwrite: Annotated[str | None, typer.Option("--overwrite", help="replace instead: partitions | table")] = None,
    file_format: Annotated[
        str | None, typer.Option("--format", help="parquet, csv or jsonl; default by ending")
    ] = None,
    delimiter: Annotated[str, typer.Option("--delimiter", help="of CSV files")] = ",",
    ignore_extra: Annotated[bool, typer.Option("--ignore-extra-columns", help="leave unknown columns out")] = False,
    threads: Annotated[int, typer.Option("--threads", min=1, help="tasks at a time without --spark")] = 2,
    no_progress: NoProgress = False,
) -> None:
    """Upsert landing files as one batch; row kinds (+I -U +U -D) in column _kind when present."""
    opened = open_table(table)
    runner: Runner = spark_runner(master, remote) if spark else LocalRunner(threads)
    context = make_context(opened.metadata, batch_id or new_batch_id(), runner=runner, overwrite=overwrite)
    options = LandingOptions(file_format, delimiter, ignore_extra=ignore_extra)
    try:
        with stages(no_progress) as tell:
            result = upsert_files(context, files, options, strict=strict, on_stage=tell)
    except RejectedRowsError as error:
        typer.echo(f"lakeidx: {error}", err=True)
        raise typer.Exit(EXIT_FINDINGS) from None
    typer.echo(json.dumps(summary(result)))
    if result.ingest.rows_rejected:
        show_rejects(opened.store, result)


def summary(result: BatchResult) -> dict[str, object]:
    """What a batch did, for scripts."""
    return {
        "batch": result.ingest.batch_id,
        "rows": result.ingest.rows_in,
        "inserts": result.assign.inserts,
        "updates": result.assign.updates,
        "deletes": result.assign.deletes,
        "moved": result.assign.moved,
        "dropped": result.assign.dropped,
        "rejected": result.ingest.rows_rejected,
        "buckets": len(result.assign.targets),
        "newBuckets": result.assign.new_buckets,
        "dataFiles": result.write.data_files,
        "snapshots": list(result.commit.snapshot_ids),
        "replans": result.commit.replans,
    }


def show_rejects(store: ObjectStore, result: BatchResult) -> None:
    """The first rejected rows, on stderr."""
    path = result.ingest.rejected_path
    assert path is not None
    with store.open_input(path) as source:
        rows = pq.read_table(source).slice(0, 5).to_pylist()
    typer.echo(f"{result.ingest.rows_rejected} rows rejected, all in {path}; the first:", err=True)
    for row in rows:
        typer.echo(f"  {row['source']} line {row['line']}: {row['reason']}", err=True)


command = one_clear_line(upsert)
