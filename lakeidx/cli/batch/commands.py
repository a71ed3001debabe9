"""``lakeidx batch list|show|release|discard``."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeidx.api.table import Table
from lakeidx.cli.context import DryRun, TableArgument, Work, stages, takes
from lakeidx.cli.output import prints_list, prints_result
from lakeidx.results import Listing, Result

BatchArgument = Annotated[str, typer.Argument(metavar="ID", help="the batch, as `lakeidx batch list` names it")]


@prints_list
def list_batches(table: TableArgument) -> Listing:
    """List the batches that are held: why, and what they would do.

    Examples:
        lakeidx batch list lake/shop.db/orders

    """
    return Table.open(table).held_batches()


@prints_result
def show(table: TableArgument, batch: BatchArgument) -> Result:
    """Show why a batch is held, its rows, and where they came from; of a finished batch, what it did.

    Examples:
        lakeidx batch show lake/shop.db/orders orders-monday

    """
    opened = Table.open(table)
    is_held = any(held["batch"] == batch for held in opened.held_batches())
    return opened.held_batch(batch) if is_held else opened.explain_batch(batch)


@prints_result
@takes(Work)
def release(work: Work, table: TableArgument, batch: BatchArgument) -> Result:
    """Commit a held batch: its rows come into the table now.

    They are placed anew where other batches were committed since, and are newer than those. Limits do not count.

    Examples:
        lakeidx batch release lake/shop.db/orders orders-monday

    """
    with stages(work.no_progress) as on_stage:
        return Table.open(table).release_batch(batch, runner=work.runner(on_stage), on_stage=on_stage)


@prints_result
def discard(table: TableArgument, batch: BatchArgument, dry_run: DryRun = False) -> Result:
    """Delete the files of a held batch: its rows do not come into the table.

    The batch counts as done: whoever runs it again, as a load of its folder, finds nothing to do.

    Examples:
        lakeidx batch discard lake/shop.db/orders orders-monday

    """
    return Table.open(table).discard_batch(batch, dry_run=dry_run)
