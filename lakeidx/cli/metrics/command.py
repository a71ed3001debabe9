"""``lakeidx metrics``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from lakeidx.api.table import Table
from lakeidx.api.warehouse import Warehouse
from lakeidx.cli.context import JsonOption, ended_by_signals, report_errors
from lakeidx.cli.output import print_json
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.maintenance.metrics.exposition import metrics_rows, metrics_text, serve_metrics


@report_errors
def metrics(
    places: Annotated[list[str], typer.Argument(metavar="TABLE|WAREHOUSE...", help="tables, or all of a warehouse")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="write them to a file (for node_exporter: NAME.prom)")
    ] = None,
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="ADDRESS", help="answer scrapes there: 127.0.0.1:9464")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print figures of tables, their newest batches and their upkeep as OpenMetrics, or serve them on this machine.

    Examples:
        lakeidx metrics lake
        lakeidx metrics lake/shop.db/orders -o /var/lib/node_exporter/orders.prom
        lakeidx metrics lake --listen 127.0.0.1:9464

    """
    if listen is not None and output is not None:
        raise InvalidInputError("give --output or --listen, not both")
    tables = _tables(places)
    if listen is not None:
        with ended_by_signals() as stop:
            typer.echo(f"metrics at http://{listen}/metrics (Ctrl-C ends it)", err=True)
            serve_metrics(tables, listen, stop)
        return
    if as_json:
        print_json(metrics_rows(tables))
        return
    text = metrics_text(tables)
    if output is None:
        typer.echo(text, nl=False)
        return
    # Readers see the old or the new file, never a part.
    draft = output.with_name(f".{output.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(output)


def _tables(places: Sequence[str]) -> Callable[[], list[Table]]:
    """Return what opens the tables of places: those of a warehouse as they are then."""

    def found() -> list[Table]:
        out: list[Table] = []
        for place in places:
            try:
                out.append(Table.open(place))
            except NotFoundError:
                warehouse = Warehouse(place)
                out += [warehouse.table(name) for name in warehouse.tables()]
        return out

    if not found():
        raise NotFoundError("there is no table", path=places[0])
    return found
