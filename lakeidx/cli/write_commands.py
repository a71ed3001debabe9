"""``lakeidx upsert|load|sync-database|delete``: run landing files through all stages up to the commit; delete rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeidx.api.folder_load import SETTLE_SECONDS
from lakeidx.api.table import Table
from lakeidx.api.warehouse import Warehouse
from lakeidx.batch.committed_batch import BatchResult
from lakeidx.batch.stages.rejected_rows import read_rejected
from lakeidx.cli.batch.limits import LimitOption, YesOption, asking_for_yes, given_limits
from lakeidx.cli.context import (
    EXIT_FINDINGS,
    DryRun,
    JsonOption,
    TableArgument,
    Work,
    ended_by_signals,
    report_errors,
    stages,
    takes,
)
from lakeidx.cli.inputs import key_file, stdin_as_file, takes_landing_options
from lakeidx.cli.output import for_programs, print_result
from lakeidx.errors import InvalidInputError, RejectedRowsError
from lakeidx.format.schema.edits import schema_differences
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.landing.feed_options import ALL, FeedOptions
from lakeidx.landing.key_rows import read_key_rows
from lakeidx.landing.read import ENDINGS, LandingOptions
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.local import absolute

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeidx.api.feeds import FeedResult

MaxRejectedOption = Annotated[
    str | None,
    typer.Option("--max-rejected", help="refuse the batch when more rows are rejected: 100, 5% or 100,5%"),
]
StrictOption = Annotated[bool, typer.Option("--strict", help="refuse the batch when a row is rejected")]
BatchId = Annotated[str | None, typer.Option("--batch-id", help="name of the batch; committed at most once")]

_KEYS_HELP = "{} of new tables: customers=id, order_lines=order,line; without a name of all others: id"


WarehouseArgument = Annotated[str, typer.Argument(metavar="WAREHOUSE", help="/lake or s3://bucket/lake")]
DatabaseArgument = Annotated[str, typer.Argument(metavar="DATABASE", help="the database that gets the tables")]
FeedFiles = Annotated[
    list[str], typer.Argument(metavar="FILE...", help="feed files, in their order; of format dms also a folder of them")
]
IncludingTables = Annotated[
    str, typer.Option("--including-tables", help="tables of the source, a regular expression: orders|customers")
]
ExcludingTables = Annotated[
    str | None, typer.Option("--excluding-tables", help="tables to leave out, a regular expression")
]
TablePrefix = Annotated[str, typer.Option("--table-prefix", help="before the names of the tables: ods_")]
TableSuffix = Annotated[str, typer.Option("--table-suffix", help="behind the names of the tables")]
TableMapping = Annotated[
    list[str] | None,
    typer.Option("--table-mapping", help="a name of its own for a table: archive.orders=old_orders"),
]
PrimaryKeys = Annotated[list[str] | None, typer.Option("--primary-keys", help=_KEYS_HELP.format("primary key"))]
PartitionKeys = Annotated[
    list[str] | None, typer.Option("--partition-keys", help=_KEYS_HELP.format("partition columns"))
]
ColumnTypes = Annotated[
    list[str] | None,
    typer.Option("--type", help="type of a column: orders.price=DECIMAL(10,2), of all tables: *.price=DECIMAL(10,2)"),
]
TableConf = Annotated[
    list[str] | None, typer.Option("--table-conf", help="option of new tables: bucket=4, sequence.field=lsn")
]
SchemaChanges = Annotated[
    str,
    typer.Option("--schema-changes", help="columns that a table does not have: refuse | add | widen (types, too)"),
]


@dataclass(frozen=True)
class BatchOptions:
    """Options of the verbs that read rows before they write."""

    batch_id: BatchId = None
    dry_run: DryRun = False
    limits: LimitOption = None
    yes: YesOption = False
    as_json: JsonOption = False

    def run(self, table: Table, work: Work, verb: Callable[..., BatchResult | None], *, nothing: str) -> None:
        """Run a verb of a table, and print its batch; `nothing`: what is said where there is none."""
        with stages(work.no_progress) as on_stage, asking_for_yes(table):
            limits = given_limits(self.limits, yes=self.yes)
            result = verb(
                batch_id=self.batch_id,
                dry_run=self.dry_run,
                limits=limits,
                runner=work.runner(on_stage),
                on_stage=on_stage,
            )
        _print_batch(result, self.as_json, nothing=nothing)


@report_errors
@takes_landing_options
@takes(Work)
def upsert(
    work: Work,
    options: LandingOptions,
    table: TableArgument,
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help=f"landing files: {ENDINGS}; - for stdin (with --format)"),
    ],
    batch_id: BatchId = None,
    strict: StrictOption = False,
    max_rejected: MaxRejectedOption = None,
    dry_run: DryRun = False,
    limits: LimitOption = None,
    overwrite: Annotated[
        str | None, typer.Option("--overwrite", help="replace instead of upsert: partitions | table")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Upsert landing files as one batch; row kinds (+I -U +U -D) in column _kind when present.

    Examples:
        lakeidx upsert lake/shop.db/orders monday.csv tuesday.csv
        lakeidx upsert lake/shop.db/orders monday.csv --dry-run
        lakeidx upsert lake/shop.db/orders export.csv --delimiter ';' --max-rejected 1%
        lakeidx upsert lake/shop.db/orders changes.json --format debezium --order source.lsn
        lakeidx upsert lake/shop.db/orders monday.csv --limit deletes=5% --limit inserts=2x
        gunzip -c orders.csv.gz | lakeidx upsert lake/shop.db/orders - --format csv

    """
    opened = Table.open(table)
    before = opened.schema
    try:
        with stdin_as_file(files, options.format) as given, stages(work.no_progress) as on_stage:
            result = opened.upsert_files(
                [absolute(f) for f in given],
                options,
                batch_id=batch_id,
                strict=strict,
                max_rejected=max_rejected, overwrite=overwrite, dry_run=dry_run, limits=given_limits(limits),
                runner=work.runner(on_stage), on_stage=on_stage,
            )  # fmt: skip
    except RejectedRowsError as error:
        typer.echo(f"lakeidx: {error}", err=True)
        raise typer.Exit(EXIT_FINDINGS) from None
    _print_batch(result, as_json)
    if dry_run:
        # What the lines below name is in no file.
        return
    _show_new_columns(opened, before, result)
    show_rejects(opened.store, result)


@report_errors
@takes_landing_options
@takes(Work)
def load(
    work: Work,
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
    limits: LimitOption = None,
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
        "limits": given_limits(limits), "runner": work.runner(),
    }  # fmt: skip
    if watch:
        with ended_by_signals() as stop:
            for result in opened.watch(folder, options, every=every, stop=stop, **common):
                typer.echo(json.dumps(result.as_dict()) if for_programs(as_json) else str(result))
                sys.stdout.flush()
        return
    with stages(work.no_progress) as shown:
        shown("load", unit="files")
        result = opened.load(folder, options, progress=shown.progress, **common)
    print_result(result, as_json=as_json)
    if not result.complete:
        typer.echo(f"lakeidx: {result.note()}", err=True)
        raise typer.Exit(EXIT_FINDINGS)


@report_errors
@takes_landing_options
@takes(Work)
def sync_database(
    work: Work,
    landing: LandingOptions,
    warehouse: WarehouseArgument,
    database: DatabaseArgument,
    files: FeedFiles,
    including_tables: IncludingTables = ".*",
    excluding_tables: ExcludingTables = None,
    table_prefix: TablePrefix = "",
    table_suffix: TableSuffix = "",
    table_mapping: TableMapping = None,
    primary_keys: PrimaryKeys = None,
    partition_keys: PartitionKeys = None,
    types: ColumnTypes = None,
    table_conf: TableConf = None,
    schema_changes: SchemaChanges = "widen",
    strict: StrictOption = False,
    max_rejected: MaxRejectedOption = None,
    limits: LimitOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring feed files, each with messages of many tables, into the tables of a database; missing tables are made.

    Examples:
        lakeidx sync-database lake ods feed.json --format canal --excluding-tables 'audit_.*' --table-prefix shop_
        lakeidx sync-database lake ods feed.json --format debezium --primary-keys id --primary-keys lines=order_id,line

    """
    feed = FeedOptions(
        including_tables, excluding_tables, table_prefix, table_suffix,
        _pairs(table_mapping, "--table-mapping"), _keys(primary_keys), _keys(partition_keys),
        _pairs(types, "--type"), _pairs(table_conf, "--table-conf"), schema_changes,
    )  # fmt: skip
    given: dict[str, Any] = {
        "strict": strict,
        "max_rejected": max_rejected,
        "limits": given_limits(limits),
        "runner": work.runner(),
    }
    opened = Warehouse(warehouse)
    from lakeidx.api.feeds import FeedError

    try:
        with stages(work.no_progress) as on_stage:
            for file in files:
                _show_feed(
                    opened.sync_database(database, [file], landing, feed, on_stage=on_stage, **given)[0], as_json
                )
    except FeedError as error:
        if error.result is not None:
            _show_feed(error.result, as_json)
        raise
    except RejectedRowsError as error:
        typer.echo(f"lakeidx: {error}", err=True)
        raise typer.Exit(EXIT_FINDINGS) from None


@report_errors
@takes(BatchOptions, Work)
def delete(
    how: BatchOptions,
    work: Work,
    table: TableArgument,
    where: Annotated[
        str | None,
        typer.Option("--where", help="SQL condition: delete all rows that match, e.g. \"day < '2026-01-01'\""),
    ] = None,
    keys: Annotated[
        str | None,
        typer.Option("--keys", help=f"file with the keys to delete: {ENDINGS}; - for JSON lines on stdin"),
    ] = None,
) -> None:
    """Delete rows by condition or by key, as one batch.

    Examples:
        lakeidx delete lake/shop.db/orders --where "day < '2026-01-01'" --dry-run
        lakeidx delete lake/shop.db/orders --keys gone.csv

    """
    if (where is None) == (keys is None):
        raise InvalidInputError("give --where or --keys")
    opened = Table.open(table)
    rows = None if keys is None else rows_of_key_file(opened, keys)
    how.run(opened, work, partial(opened.delete, rows, where=where), nothing="no row to delete")


def rows_of_key_file(opened: Table, keys: str) -> pa.Table:
    """Read the keys of a file, as `--keys` names it."""
    with key_file(keys) as path:
        return read_key_rows(path, [opened.schema.field(n) for n in opened.schema.primary_keys])


def _print_batch(result: BatchResult | None, as_json: bool, *, nothing: str = "") -> None:
    """Print one JSON line for scripts, words on a terminal.

    nothing   what is said on stderr of no batch
    """
    if result is None:
        typer.echo(nothing, err=True)
    if for_programs(as_json):
        typer.echo(json.dumps({"rows": 0, "snapshots": []} if result is None else result.as_dict()))
    elif result is not None:
        typer.echo(str(result))


def _show_new_columns(opened: Table, before: TableSchema, result: BatchResult) -> None:
    """Print on stderr what the batch changed in the table's columns."""
    if result.ingest.schema_id > before.id:
        for difference in schema_differences(before, opened.metadata.load_schema(result.ingest.schema_id)):
            typer.echo(str(difference), err=True)


def show_rejects(store: ObjectStore, result: BatchResult) -> None:
    """Print the first rejected rows on stderr."""
    path = result.ingest.rejected_path
    if path is None:
        return
    rows = read_rejected(store, path, most=10).to_pylist()
    typer.echo(f"{result.ingest.rows_rejected} rows rejected, all in {path}; the first:", err=True)
    # A message may have become two rows.
    for text in list(dict.fromkeys(f"  {r['source']} line {r['line']}: {r['reason']}" for r in rows))[:5]:
        typer.echo(text, err=True)


def _show_feed(result: FeedResult, as_json: bool) -> None:
    """Print one JSON line for scripts, a line a table on a terminal."""
    if for_programs(as_json):
        typer.echo(json.dumps(result.as_dict()))
        return
    typer.echo(result.file)
    for name, batch in result.tables.items():
        made = " (new)" if name in result.created else ""
        typer.echo(f"  {name}{made}: {_said(batch)}")
    for what, count in result.skipped.items():
        typer.echo(f"  {count} {what}")
    if result.rejected.rows:
        typer.echo(f"  {result.rejected.rows} lines of no table, all in {result.rejected.path}", err=True)


def _said(batch: object) -> str:
    if batch is None:
        return "nothing to do"
    numbers: dict[str, int] = batch.as_dict()  # type: ignore[attr-defined]
    names = ("inserts", "updates", "upserts", "deletes", "rejected")
    return ", ".join(f"{numbers[n]} {n}" for n in names if numbers[n]) or "no rows"


def _pairs(values: Iterable[str] | None, option: str) -> dict[str, str]:
    """Read names and their values; InvalidInputError for anything else."""
    pairs = [v.partition("=") for v in values or ()]
    if not all(name and equals and value for name, equals, value in pairs):
        raise InvalidInputError(f"{option}: write a name and a value, NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _keys(values: Iterable[str] | None) -> dict[str, tuple[str, ...]]:
    """Read keys by table; those without a name are for all tables that have none."""
    pairs = [v.rpartition("=") for v in values or ()]
    return {name or ALL: tuple(c.strip() for c in columns.split(",") if c.strip()) for name, _, columns in pairs}
