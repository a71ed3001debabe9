"""``lakeidx partition list|drop|expire|mark-done``."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeidx.api.table import Table
from lakeidx.cli.context import DryRun, JsonOption, TableArgument, Yes, confirmed, report_errors
from lakeidx.cli.output import ListFormatOption, print_list, print_result

_Partitions = Annotated[
    list[str] | None, typer.Option("--partition", metavar="NAME=VALUE,...", help="one of them; may be repeated")
]


@report_errors
def list_partitions(table: TableArgument, list_format: ListFormatOption = None, as_json: JsonOption = False) -> None:
    """List the partitions: rows, bytes, files, buckets, when last written.

    Examples:
        lakeidx partition list lake/shop.db/orders

    """
    print_list(Table.open(table).partitions(), list_format, as_json)


@report_errors
def drop(
    table: TableArgument,
    partition: _Partitions = None,
    where: Annotated[str | None, typer.Option("--where", help="SQL condition over the partition columns")] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: JsonOption = False,
) -> None:
    """Drop partitions, in one commit; older snapshots and tags keep their rows.

    Examples:
        lakeidx partition drop lake/shop.db/orders --where "day < '2025-01-01'" --dry-run
        lakeidx partition drop lake/shop.db/orders --partition day=2024-12-31 --yes

    """
    opened = Table.open(table)
    result = opened.drop_partitions(partition, where=where, dry_run=True)
    if confirmed("drop the partitions", result, yes=yes, dry_run=dry_run):
        result = opened.drop_partitions(partition, where=where)
    print_result(result, as_json=as_json)


@report_errors
def expire(
    table: TableArgument,
    older_than: Annotated[
        str | None, typer.Option("--older-than", help="age, e.g. '90 d'; default: option partition.expiration-time")
    ] = None,
    dry_run: DryRun = False,
    as_json: JsonOption = False,
) -> None:
    """Drop partitions by their age: the time in their values, or of their last write (partition.expiration-strategy).

    Examples:
        lakeidx partition expire lake/shop.db/orders --dry-run
        lakeidx partition expire lake/shop.db/orders --older-than '90 d'

    """
    print_result(Table.open(table).expire_partitions(older_than=older_than, dry_run=dry_run), as_json=as_json)


@report_errors
def mark_done(
    table: TableArgument, partition: _Partitions = None, dry_run: DryRun = False, as_json: JsonOption = False
) -> None:
    """Mark partitions done by option partition.mark-done-action: those named, or those that are idle.

    Examples:
        lakeidx partition mark-done lake/shop.db/orders --partition day=2026-11-27
        lakeidx partition mark-done lake/shop.db/orders --dry-run

    """
    print_result(Table.open(table).mark_done(partition, dry_run=dry_run), as_json=as_json)
