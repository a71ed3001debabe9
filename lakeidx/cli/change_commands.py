"""``lakeidx changes|diff|tail``: what has changed between two states of a table, and what each snapshot changes."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from lakeidx.api.table import Table
from lakeidx.cli.context import JsonOption, OnDeleteOption, TableArgument, ended_by_signals, report_errors, takes
from lakeidx.cli.difference.collect import collect, print_difference, render_page
from lakeidx.cli.output import (
    ListFormat,
    OutputOption,
    RowFormat,
    RowOutput,
    chosen_format,
    for_programs,
    print_first_rows,
    print_list,
    print_rows,
    text_sink,
)
from lakeidx.errors import InvalidInputError
from lakeidx.table.scan.incremental import IncrementalMode
from lakeidx.table.scan.states import find_range

if TYPE_CHECKING:
    from lakeidx.batch.committed_batch import BatchResult
    from lakeidx.table.stream.follow import StreamStep

Mode = Annotated[
    IncrementalMode, typer.Option("--mode", help="derived: -U +U +I -D computed from the states, for any table")
]
Where = Annotated[str | None, typer.Option("--where", help="SQL condition on each row, before or after")]
Columns = Annotated[str | None, typer.Option("--columns", help="comma list; the row kind follows them")]


@report_errors
@takes(RowOutput)
def changes(
    out: RowOutput,
    table: TableArgument,
    states: Annotated[
        str,
        typer.Argument(metavar="A..B", help="after A up to B: snapshot ids, tags or ISO times; one may be omitted"),
    ],
    mode: Annotated[
        IncrementalMode | None,
        typer.Option(
            "--mode",
            help="derived: -U +U +I -D computed from the states, for any table; default on a terminal, else auto: as recorded",
        ),
    ] = None,
    where: Where = None,
    columns: Columns = None,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="at most this many rows")] = None,
) -> None:
    """Print the changes of a range of snapshots, each row with its kind in _rowkind: +I -U +U -D.

    Examples:
        lakeidx changes lake/shop.db/orders 0..
        lakeidx changes lake/shop.db/orders 3.. --where 'id = 7'
        lakeidx changes lake/shop.db/orders yesterday.. -o changes.parquet

    """
    opened = Table.open(table)
    after, upto = find_range(opened.metadata, states)
    mode = mode or (IncrementalMode.DERIVED if out.for_people else IncrementalMode.AUTO)
    found = opened.changes(after, upto, mode=mode, where=where, columns=_names(columns), limit=limit)
    out.print(found.batches(), found.arrow_schema)


class DiffFormat(StrEnum):
    """Formats of a difference: those of rows, and two that put before and after side by side."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"
    TABLE = "table"
    HTML = "html"


#: Keys that a table and a page show, when nothing else is said.
_SHOWN = {DiffFormat.TABLE: 100, DiffFormat.HTML: 1000}


@report_errors
def diff(
    table: TableArgument,
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="snapshot id, tag, ISO time or branch:NAME[@STATE]")],
    after: Annotated[
        str, typer.Argument(metavar="AFTER", help="the other state, in the same form; 0 is the empty table")
    ],
    stat: Annotated[bool, typer.Option("--stat", help="count rows by kind, and changed values by column")] = False,
    keys: Annotated[bool, typer.Option("--keys", help="print key columns only")] = False,
    where: Where = None,
    columns: Columns = None,
    diff_format: Annotated[
        DiffFormat | None,
        typer.Option("--format", help="default by the name of -o, else a coloured table on a terminal, else jsonl"),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=0, help="keys to show: 100 in a table, 1000 on a page")
    ] = None,
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two states by key: every row that is new, changed (before and after) or deleted, once.

    Examples:
        lakeidx diff lake/shop.db/orders 1 2
        lakeidx diff lake/shop.db/orders yesterday 12 -o page.html

    """
    opened = Table.open(table)
    if keys and columns is not None:
        raise InvalidInputError("give --keys or --columns, not both")
    usual = DiffFormat.TABLE if output is None and sys.stdout.isatty() else DiffFormat.JSONL
    kind = chosen_format(diff_format, output, DiffFormat, usual, as_json=as_json)
    if limit is not None and (stat or kind not in _SHOWN):
        raise InvalidInputError(f"--limit applies to tables and pages, not to {'--stat' if stat else kind.value}")
    names = list(opened.schema.primary_keys) if keys else _names(columns)
    if kind in _SHOWN and not stat and names is not None:
        names = [*dict.fromkeys((*opened.schema.primary_keys, *names))]
    found = opened.diff(before, after, where=where, columns=names)
    if stat:
        print_list(found.stat(), ListFormat.TABLE if kind is DiffFormat.TABLE else ListFormat.JSONL)
    elif kind in _SHOWN:
        kept = collect(found, _SHOWN[kind] if limit is None else limit)
        if kind is DiffFormat.TABLE:
            print_difference(kept)
        else:
            # Jinja takes a while to import: only pages need it.
            with text_sink(output) as sink:
                sink.write(render_page(kept, table=opened.uri, before=before, after=after, where=where))
    else:
        print_rows(found.batches(), found.arrow_schema, RowFormat(kind.value), output)


_Start = Annotated[
    str,
    typer.Option(
        "--from",
        help="latest-full, latest, compacted-full, earliest, a snapshot id, a tag (changes after it) or an ISO time",
    ),
]


@report_errors
def tail(
    table: TableArgument,
    start: _Start = "latest-full",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="wait for new snapshots until interrupted")] = False,
    every: Annotated[float, typer.Option("--every", min=0.01, help="seconds between polls, with --follow")] = 1.0,
    consumer: Annotated[
        str | None, typer.Option("--consumer", help="resume at this consumer's position, and record progress")
    ] = None,
    ignore_progress: Annotated[
        bool, typer.Option("--ignore-progress", help="start at --from even if the consumer has a position")
    ] = False,
    into: Annotated[
        str | None,
        typer.Option(
            "--into", metavar="TABLE", help="upsert each snapshot's changes as one batch, instead of printing"
        ),
    ] = None,
    on_delete: OnDeleteOption = None,
    mode: Mode = IncrementalMode.AUTO,
    where: Where = None,
    columns: Columns = None,
    as_json: JsonOption = False,
) -> None:
    """Print the changes of each snapshot, oldest first, each row with its kind in _rowkind: +I -U +U -D.

    On a terminal a table per snapshot, of its first rows; else JSON lines. Without --follow it ends at the newest snapshot.
    An interrupt ends it after the snapshot it is at; a second one at once.

    Examples:
        lakeidx tail lake/shop.db/orders --from latest --follow
        lakeidx tail lake/shop.db/orders --consumer copy --into lake/copy.db/orders

    """
    if into is not None and consumer is None:
        raise InvalidInputError("--into needs --consumer, the name under which the table keeps what was upserted")
    if on_delete and into is None:
        raise InvalidInputError("--on-delete is for --into: what becomes of deletes in that table")
    target = None if into is None else Table.open(into)
    with ended_by_signals() as stop:
        steps = Table.open(table).follow(
            start,
            consumer=consumer,
            ignore_progress=ignore_progress,
            every=every if follow else None,
            stop=stop,
            mode=mode,
            where=where,
            columns=_names(columns),
        )
        with closing(steps):
            for step in steps:
                result = (
                    None if target is None else target.upsert_changes(step, on_delete=",".join(on_delete or ["apply"]))
                )
                if target is None:
                    _print_step(step, as_json=as_json)
                elif result is not None:
                    _print_copied(step, result, as_json=as_json)
                sys.stdout.flush()


def _print_step(step: StreamStep, *, as_json: bool) -> None:
    """Print what one snapshot brings."""
    rows, schema = step.changes.batches(), step.changes.arrow_schema
    if for_programs(as_json):
        print_rows(rows, schema, RowFormat.JSONL, None)
    else:
        print(f"snapshot {step.snapshot.id}:")
        print_first_rows(rows, schema)


def _print_copied(step: StreamStep, result: BatchResult, *, as_json: bool) -> None:
    """Print what one snapshot brought to the other table."""
    if for_programs(as_json):
        print(json.dumps({"snapshot": step.snapshot.id, **result.as_dict()}))
    else:
        print(f"snapshot {step.snapshot.id}: {result.ingest.rows_in} changes applied")


def _names(columns: str | None) -> list[str] | None:
    return None if columns is None else [c.strip() for c in columns.split(",") if c.strip()]
