"""``lakeidx branch create|list|delete|fast-forward``."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeidx.api.table import Table
from lakeidx.cli.context import DryRun, JsonOption, WholeTableArgument, Yes, confirmed, report_errors
from lakeidx.cli.output import ListFormatOption, print_list, print_result

_Name = Annotated[str, typer.Argument(metavar="NAME", help="name of the branch")]


@report_errors
def create(
    table: WholeTableArgument,
    name: _Name,
    tag: Annotated[str | None, typer.Option("--tag", help="begin at this tag")] = None,
    snapshot: Annotated[int | None, typer.Option("--snapshot", help="begin at this snapshot, which is tagged")] = None,
    as_json: JsonOption = False,
) -> None:
    """Create a branch at a tag or a snapshot; without either an empty one.

    Every command that is about a table takes --branch NAME, or TABLE$branch_NAME.

    Examples:
        lakeidx branch create lake/shop.db/orders trial --snapshot 3
        lakeidx branch create lake/shop.db/orders fix --tag yesterday

    """
    print_result(Table.open(table).create_branch(name, tag=tag, snapshot=snapshot), as_json=as_json)


@report_errors
def list_branches(table: WholeTableArgument, list_format: ListFormatOption = None, as_json: JsonOption = False) -> None:
    """List the branches with their newest snapshot.

    Examples:
        lakeidx branch list lake/shop.db/orders

    """
    print_list(Table.open(table).branches(), list_format, as_json)


@report_errors
def delete(
    table: WholeTableArgument,
    name: _Name,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: JsonOption = False,
) -> None:
    """Delete a branch: its snapshots, tags, consumers and staged batches.

    Data files that only it had are found by `lakeidx orphans` then.

    Examples:
        lakeidx branch delete lake/shop.db/orders trial --dry-run

    """
    opened = Table.open(table)
    result = opened.delete_branch(name, dry_run=True)
    if confirmed("delete the branch", result, yes=yes, dry_run=dry_run):
        result = opened.delete_branch(name)
    print_result(result, as_json=as_json)


@report_errors
def fast_forward(table: WholeTableArgument, name: _Name, dry_run: DryRun = False, as_json: JsonOption = False) -> None:
    """Bring what was committed to a branch into the table; stop the table's writers first.

    Refused while the table has commits that the branch lacks; the error names the rollback that would take them away.

    Examples:
        lakeidx branch fast-forward lake/shop.db/orders trial --dry-run

    """
    print_result(Table.open(table).fast_forward(name, dry_run=dry_run), as_json=as_json)
