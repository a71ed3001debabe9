"""``lakeidx scan|snapshots|files|buckets|index|inspect``: looking at a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from lakeidx.api.table import Table
from lakeidx.cli.context import JsonOption, NoProgress, TableArgument, report_errors, stages, takes
from lakeidx.cli.output import (
    SHOWN_ROWS,
    ListFormat,
    RowFormat,
    RowOutput,
    for_programs,
    print_first_rows,
    print_json,
    print_list,
    print_rows,
    prints_list,
)
from lakeidx.errors import InvalidInputError
from lakeidx.results import Listing
from lakeidx.table.scan.changes import ChangeScan
from lakeidx.table.scan.incremental import IncrementalMode
from lakeidx.table.scan.states import find_range
from lakeidx.table.scan.table_scan import TableScan
from lakeidx.table.system.names import split_system_name

if TYPE_CHECKING:
    from lakeidx.api.system_table import SystemRows, SystemTable


_Time = Annotated[
    str | None,
    typer.Option("--timestamp", metavar="TIME", help="read the state at this time: 2026-11-22T10:30:00Z or epoch ms"),
]
_Where = Annotated[str | None, typer.Option("--where", help="SQL condition, e.g. \"month = 6 AND carrier = 'UA'\"")]

_Incremental = Annotated[
    str | None,
    typer.Option("--incremental", metavar="A..B", help="rows of the commits after A up to B, see lakeidx changes"),
]


@report_errors
@takes(RowOutput)
def scan(
    out: RowOutput,
    table: TableArgument,
    snapshot: Annotated[int | None, typer.Option("--snapshot", help="read this snapshot")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="read this tag")] = None,
    timestamp: _Time = None,
    where: _Where = None,
    columns: Annotated[str | None, typer.Option("--columns", help="comma list")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="at most this many rows")] = None,
    incremental: _Incremental = None,
    mode: Annotated[IncrementalMode, typer.Option("--mode", help="with --incremental")] = IncrementalMode.AUTO,
    kinds: Annotated[
        bool, typer.Option("--kinds", help="with --incremental: the row kind in _rowkind, and deletes, too")
    ] = False,
    batch: Annotated[str | None, typer.Option("--batch", help="the table as it would be with this held batch")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="read, and show what each layer pruned and cost")] = False,
    no_progress: NoProgress = False,
) -> None:
    """Read rows: merged, deletes applied, at any state of the table.

    TABLE$files, TABLE$snapshots and others are Paimon's system tables: what the table has, as rows. TABLE$audit_log and
    TABLE$binlog are its rows with their kinds in front, deletes included.

    Examples:
        lakeidx scan lake/shop.db/orders --where "total > 8" --columns id,total
        lakeidx scan lake/shop.db/orders -o orders.parquet
        lakeidx scan lake/shop.db/orders --timestamp 2026-11-22T10:30:00Z --json

    """
    common: dict[str, Any] = {
        "where": where, "columns": None if columns is None else [c.strip() for c in columns.split(",") if c.strip()],
        "snapshot": snapshot, "tag": tag, "timestamp": timestamp, "limit": limit, "mode": mode,
    }  # fmt: skip
    if shown := out.for_people and limit is None and not explain:
        common["limit"] = SHOWN_ROWS + 1  # one more than is shown says that there are more
    root, system = split_system_name(table)
    opened = Table.open(root)
    if incremental is not None:
        common["incremental"] = find_range(opened.metadata, incremental)
    found: TableScan | ChangeScan | SystemRows = (
        opened.scan(**common, kinds=kinds, batch=batch) if system is None else _system_table(table).scan(**common)
    )
    kind = out.kind(RowFormat.TABLE if explain or out.for_people else RowFormat.JSONL)
    if explain:
        _show_explanation(found, ListFormat.JSONL if kind is RowFormat.JSONL else ListFormat.TABLE)
    elif shown:
        print_first_rows(found.batches(), found.arrow_schema)
    else:
        # Rows that go to a terminal show themselves.
        with stages(no_progress or out.output is None) as on_stage:
            on_stage("scan", unit="rows of files")
            rows = found.batches(progress=on_stage.progress) if isinstance(found, TableScan) else found.batches()
            print_rows(rows, found.arrow_schema, kind, out.output)


def _system_table(uri: str) -> SystemTable:
    """Open a system table, which comes with all verbs of a table: rows of the table itself need those that read."""
    from lakeidx.api.system_table import SystemTable

    return SystemTable.open(uri)


def _show_explanation(found: TableScan | ChangeScan | SystemRows, list_format: ListFormat) -> None:
    """Read, and print one line per layer on stdout, the sum on stderr."""
    if not isinstance(found, TableScan):
        raise InvalidInputError("--explain shows the scan of one state of a table")
    explained = found.explain()
    print_list(explained.rows_as_dicts(), list_format)
    typer.echo(
        f"snapshot {explained.snapshot_id}, where {explained.predicate}: {explained.rows} rows in"
        f" {explained.seconds:.3f} s",
        err=True,
    )


@prints_list
def snapshots(table: TableArgument) -> Listing:
    """List the snapshots; rows counts stored versions, not keys.

    Examples:
        lakeidx snapshots lake/shop.db/orders

    """
    return Table.open(table).snapshots()


@prints_list
def files(table: TableArgument) -> Listing:
    """List the live data files of the newest snapshot.

    Examples:
        lakeidx files lake/shop.db/orders --json

    """
    return Table.open(table).files()


@prints_list
def buckets(table: TableArgument) -> Listing:
    """List the buckets: rows, bytes, files, sorted runs, hashes in the index.

    Examples:
        lakeidx buckets lake/shop.db/orders

    """
    return Table.open(table).buckets()


@prints_list
def list_index(table: TableArgument) -> Listing:
    """List the index files of the newest snapshot.

    Examples:
        lakeidx index lake/shop.db/orders

    """
    return Table.open(table).index_files()


@report_errors
def inspect(
    file: Annotated[str, typer.Argument(metavar="FILE", help="any file of a table")], as_json: JsonOption = False
) -> None:
    """Decode any file of the format to JSON.

    Examples:
        lakeidx inspect lake/shop.db/orders/snapshot/snapshot-1

    """
    # Decoders of every kind of file, of pipeline files, too: lists and scans need none of them.
    from lakeidx.api.inspect.files import inspect_file

    decoded = inspect_file(file)
    if for_programs(as_json):
        print_json(decoded)
    else:
        Console().print_json(data=decoded, default=str)
