"""``lakeidx upsert|load|delete``: run landing files through all stages up to the commit; delete rows."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from lakeidx.api.folder_load import SETTLE_SECONDS
from lakeidx.api.table import Table
from lakeidx.batch.stages.rejected_rows import read_rejected
from lakeidx.batch.upsert import BatchResult
from lakeidx.cli.context import (
    EXIT_FINDINGS,
    JsonOption,
    MasterOption,
    NoProgress,
    RemoteOption,
    SparkOption,
    TableArgument,
    ThreadsOption,
    chosen_runner,
    ended_by_signals,
    report_errors,
    stages,
)
from lakeidx.cli.inputs import key_file, stdin_as_file, takes_landing_options
from lakeidx.cli.output import for_programs, print_result
from lakeidx.errors import InvalidInputError, RejectedRowsError
from lakeidx.format.schema.edits import schema_differences
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.landing.key_rows import read_key_rows
from lakeidx.landing.read import ENDINGS, LandingOptions
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.local import absolute

MaxRejectedOption = Annotated[
    str | None,
    typer.Option("--max-rejected", help="refuse the batch when more rows are rejected: 100, 5% or 100,5%"),
]
StrictOption = Annotated[bool, typer.Option("--strict", help="refuse the batch when a row is rejected")]
BatchId = Annotated[str | None, typer.Option("--batch-id", help="name of the batch; committed at most once")]


@report_errors
@takes_landing_options
def upsert(
    options: LandingOptions,
    table: TableArgument,
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help=f"landing files: {ENDINGS}; - for stdin (with --format)"),
    ],
    batch_id: BatchId = None,
    spark: SparkOption = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    strict: StrictOption = False,
    max_rejected: MaxRejectedOption = None,
    overwrite: Annotated[
        str | None, typer.Option("--overwrite", help="replace instead of upsert: partitions | table")
    ] = None,
    threads: ThreadsOption = 2,
    no_progress: NoProgress = False,
    as_json: JsonOption = False,
) -> None:
    """Upsert landing files as one batch; row kinds (+I -U +U -D) in column _kind when present.

    Examples:
        lakeidx upsert lake/shop.db/orders monday.csv tuesday.csv
        lakeidx upsert lake/shop.db/orders export.csv --delimiter ';' --max-rejected 1%
        lakeidx upsert lake/shop.db/orders changes.json --format debezium --order source.lsn
        gunzip -c orders.csv.gz | lakeidx upsert lake/shop.db/orders - --format csv

    """
    opened = Table.open(table)
    before = opened.schema
    try:
        with stdin_as_file(files, options.format) as given, stages(no_progress) as on_stage:
            result = opened.upsert_files(
                [absolute(f) for f in given],
                options,
                batch_id=batch_id,
                strict=strict,
                max_rejected=max_rejected, overwrite=overwrite,
                runner=chosen_runner(spark, master, remote, threads, shown=on_stage), on_stage=on_stage,
            )  # fmt: skip
    except RejectedRowsError as error:
        typer.echo(f"lakeidx: {error}", err=True)
        raise typer.Exit(EXIT_FINDINGS) from None
    _print_batch(result, as_json)
    _show_new_columns(opened, before, result)
    _show_rejects(opened.store, result)


@report_errors
@takes_landing_options
def load(
    options: LandingOptions,
    table: TableArgument,
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="where files land: a folder, s3://..., or any URL that fsspec reads")
    ],
    pattern: Annotated[str, typer.Option("--pattern", help="only files of these names, e.g. 'orders-*.csv'")] = "*",
    watch: Annotated[bool, typer.Option("--watch", help="look again and again, until interrupted")] = False,
    every: Annotated[float, typer.Option("--every", min=0.1, help="seconds between two looks, with --watch")] = 15.0,
    settle: Annotated[
        float, typer.Option("--settle", min=0, help="wait for files on a disk that changed in the last seconds")
    ] = SETTLE_SECONDS,
    strict: StrictOption = False,
    max_rejected: MaxRejectedOption = None,
    spark: SparkOption = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    threads: ThreadsOption = 2,
    no_progress: NoProgress = False,
    as_json: JsonOption = False,
) -> None:
    """Load the files of a folder that the table does not have yet, each as one batch; safe beside itself, as from cron.

    A file is known by its name, size and time, and if it was only touched by its content. Files that are skipped are listed with
    the reason; one that cannot be loaded does not keep others from it, and makes the exit code 1. After a rollback files whose
    rows it took are loaded again: move bad ones out of the folder first.

    Examples:
        lakeidx load lake/shop.db/orders landing --pattern 'orders-*.csv'
        lakeidx load lake/shop.db/orders s3://bucket/landing --watch --every 60

    """
    opened = Table.open(table)
    common: dict[str, Any] = {
        "pattern": pattern, "settle_seconds": settle, "strict": strict, "max_rejected": max_rejected,
        "runner": chosen_runner(spark, master, remote, threads),
    }  # fmt: skip
    if watch:
        with ended_by_signals() as stop:
            for result in opened.watch(folder, options, every=every, stop=stop, **common):
                typer.echo(json.dumps(result.as_dict()) if for_programs(as_json) else str(result))
                sys.stdout.flush()
        return
    with stages(no_progress) as shown:
        shown("load", unit="files")
        result = opened.load(folder, options, progress=shown.progress, **common)
    print_result(result, as_json=as_json)
    if not result.complete:
        typer.echo(f"lakeidx: {result.note()}", err=True)
        raise typer.Exit(EXIT_FINDINGS)


@report_errors
def delete(
    table: TableArgument,
    where: Annotated[
        str | None,
        typer.Option("--where", help="SQL condition: delete all rows that match, e.g. \"day < '2026-01-01'\""),
    ] = None,
    keys: Annotated[
        str | None,
        typer.Option("--keys", help=f"file with the keys to delete: {ENDINGS}; - for JSON lines on stdin"),
    ] = None,
    batch_id: BatchId = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only count the rows")] = False,
    spark: SparkOption = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    threads: ThreadsOption = 2,
    no_progress: NoProgress = False,
    as_json: JsonOption = False,
) -> None:
    """Delete rows by condition or by key, as one batch.

    Examples:
        lakeidx delete lake/shop.db/orders --where "day < '2026-01-01'" --dry-run
        lakeidx delete lake/shop.db/orders --keys gone.csv

    """
    if (where is None) == (keys is None):
        raise InvalidInputError("give --where or --keys")
    opened = Table.open(table)
    rows = None
    if keys is not None:
        fields = [opened.schema.field(n) for n in opened.schema.primary_keys]
        with key_file(keys) as path:
            rows = read_key_rows(path, fields)
    if dry_run:
        plan = opened.delete(rows, where=where, dry_run=True)
        typer.echo(json.dumps(plan.as_dict()) if for_programs(as_json) else f"{plan.rows} rows would be deleted")
        return
    with stages(no_progress) as on_stage:
        runner = chosen_runner(spark, master, remote, threads, shown=on_stage)
        result = opened.delete(rows, where=where, batch_id=batch_id, runner=runner, on_stage=on_stage)
    if result is None:
        typer.echo("no row to delete", err=True)
        if for_programs(as_json):
            typer.echo(json.dumps({"rows": 0, "snapshots": []}))
        return
    _print_batch(result, as_json)


def _print_batch(result: BatchResult, as_json: bool) -> None:
    """Print one JSON line for scripts, words on a terminal."""
    if for_programs(as_json):
        typer.echo(json.dumps(result.as_dict()))
    else:
        typer.echo(str(result))


def _show_new_columns(opened: Table, before: TableSchema, result: BatchResult) -> None:
    """Print on stderr what the batch changed in the table's columns."""
    if result.ingest.schema_id > before.id:
        for difference in schema_differences(before, opened.metadata.load_schema(result.ingest.schema_id)):
            typer.echo(str(difference), err=True)


def _show_rejects(store: ObjectStore, result: BatchResult) -> None:
    """Print the first rejected rows on stderr."""
    path = result.ingest.rejected_path
    if path is None:
        return
    rows = read_rejected(store, path, most=10).to_pylist()
    typer.echo(f"{result.ingest.rows_rejected} rows rejected, all in {path}; the first:", err=True)
    # A message may have become two rows.
    for text in list(dict.fromkeys(f"  {r['source']} line {r['line']}: {r['reason']}" for r in rows))[:5]:
        typer.echo(text, err=True)
