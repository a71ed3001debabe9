"""``lakeidx batch list|show|release|discard``."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeidx.api.table import Table
from lakeidx.cli.context import (
    DryRun,
    JsonOption,
    MasterOption,
    NoProgress,
    RemoteOption,
    SparkOption,
    TableArgument,
    ThreadsOption,
    chosen_runner,
    report_errors,
    stages,
)
from lakeidx.cli.output import ListFormatOption, print_list, print_result

BatchArgument = Annotated[str, typer.Argument(metavar="ID", help="the batch, as `lakeidx batch list` names it")]


@report_errors
def list_batches(
    table: TableArgument,
    list_format: ListFormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the batches that are held: why, and what they would do.

    Examples:
        lakeidx batch list lake/shop.db/orders

    """
    print_list(Table.open(table).held_batches(), list_format, as_json)


@report_errors
def show(table: TableArgument, batch: BatchArgument, as_json: JsonOption = False) -> None:
    """Show why a batch is held, its rows, and where they came from; of a finished batch, what it did.

    Examples:
        lakeidx batch show lake/shop.db/orders orders-monday

    """
    opened = Table.open(table)
    is_held = any(held["batch"] == batch for held in opened.held_batches())
    print_result(opened.held_batch(batch) if is_held else opened.explain_batch(batch), as_json=as_json)


@report_errors
def release(
    table: TableArgument,
    batch: BatchArgument,
    spark: SparkOption = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    threads: ThreadsOption = 2,
    no_progress: NoProgress = False,
    as_json: JsonOption = False,
) -> None:
    """Commit a held batch: its rows come into the table now.

    They are placed anew where other batches were committed since, and are newer than those. Limits do not count.

    Examples:
        lakeidx batch release lake/shop.db/orders orders-monday

    """
    opened = Table.open(table)
    with stages(no_progress) as on_stage:
        runner = chosen_runner(spark, master, remote, threads, shown=on_stage)
        result = opened.release_batch(batch, runner=runner, on_stage=on_stage)
    print_result(result, as_json=as_json)


@report_errors
def discard(table: TableArgument, batch: BatchArgument, dry_run: DryRun = False, as_json: JsonOption = False) -> None:
    """Delete the files of a held batch: its rows do not come into the table.

    The batch counts as done: whoever runs it again, as a load of its folder, finds nothing to do.

    Examples:
        lakeidx batch discard lake/shop.db/orders orders-monday

    """
    print_result(Table.open(table).discard_batch(batch, dry_run=dry_run), as_json=as_json)
