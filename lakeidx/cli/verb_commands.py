"""``lakeidx update|merge``: verbs that read rows before they write."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from lakeidx.api.expressions import Rows
from lakeidx.api.merge import UPSERT, on_of
from lakeidx.api.table import Table
from lakeidx.cli.context import TableArgument, Work, report_errors, takes
from lakeidx.cli.write_commands import BatchOptions, rows_of_key_file
from lakeidx.errors import InvalidInputError
from lakeidx.landing.read import ENDINGS
from lakeidx.storage.local import absolute


@report_errors
@takes(BatchOptions, Work)
def update(
    how: BatchOptions,
    work: Work,
    table: TableArgument,
    assignments: Annotated[
        list[str],
        typer.Option("--set", help='column = SQL expression over the row, e.g. "qty = qty * 10"; may be repeated'),
    ],
    where: Annotated[
        str | None,
        typer.Option("--where", help="SQL condition of the rows that change; without it and --keys every row"),
    ] = None,
    keys: Annotated[
        str | None,
        typer.Option(
            "--keys", help=f"file with the keys of the rows that change: {ENDINGS}; - for JSON lines on stdin"
        ),
    ] = None,
) -> None:
    """Change columns of rows by condition or by key, as one batch.

    Examples:
        lakeidx update lake/shop.db/orders --set "total = total * 1.19" --where "country = 'DE'"

    """
    parts = [(text, *text.partition("=")) for text in assignments]
    wrong = next((text for text, name, _, to in parts if not (name.strip() and to.strip())), None)
    if wrong is not None:
        raise InvalidInputError(f'--set {wrong}: write a column and what it becomes, as "qty = qty + 1"')
    opened, changes = Table.open(table), {name.strip(): to.strip() for _, name, _, to in parts}
    rows = None if keys is None else rows_of_key_file(opened, keys)
    how.run(opened, work, partial(opened.update, changes, keys=rows, where=where), nothing="no row to change")


@report_errors
@takes(BatchOptions, Work)
def merge(
    how: BatchOptions,
    work: Work,
    table: TableArgument,
    source: Annotated[str, typer.Argument(help="Parquet, CSV or JSON file with the rows of the source")],
    on: Annotated[
        str, typer.Option("--on", help='columns that both have (id,day), or a condition: "target.id = source.customer"')
    ],
    when: Annotated[
        list[str] | None,
        typer.Option(
            "--when",
            help='clause as in SQL, e.g. "MATCHED AND source.gone THEN DELETE"; may be repeated, the first that holds counts; '
            "default: MATCHED THEN UPDATE SET *, NOT MATCHED THEN INSERT *",
        ),
    ] = None,
) -> None:
    """Merge a file into a table: change or delete the rows that match, insert the others.

    Examples:
        lakeidx merge lake/shop.db/orders changes.parquet --on id

    """
    path = absolute(source)
    rows = Rows({}).select("FROM '" + path.replace("'", "''") + "'", f"the source {path}")
    opened = Table.open(table)
    merged = opened.merge(rows, on_of(on))
    for clause in when or UPSERT:
        merged.when(clause)
    how.run(opened, work, merged.execute, nothing="no row to change")
