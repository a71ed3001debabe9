"""``lakeidx update|merge``: verbs that read rows before they write."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeidx.api.expressions import Rows
from lakeidx.api.merge import UPSERT, on_of
from lakeidx.api.table import Table
from lakeidx.cli.batch.limits import LimitOption, YesOption, asking_for_yes, given_limits
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
from lakeidx.cli.write_commands import BatchId, print_batch, rows_of_key_file
from lakeidx.errors import InvalidInputError
from lakeidx.landing.read import ENDINGS
from lakeidx.storage.local import absolute


@report_errors
def update(
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
    batch_id: BatchId = None,
    dry_run: DryRun = False,
    limits: LimitOption = None,
    yes: YesOption = False,
    spark: SparkOption = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    threads: ThreadsOption = 2,
    no_progress: NoProgress = False,
    as_json: JsonOption = False,
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
    with stages(no_progress) as on_stage, asking_for_yes(opened):
        runner, bounds = chosen_runner(spark, master, remote, threads, shown=on_stage), given_limits(limits, yes=yes)
        result = opened.update(
            changes,
            keys=rows,
            where=where,
            batch_id=batch_id,
            dry_run=dry_run,
            limits=bounds,
            runner=runner,
            on_stage=on_stage,
        )
    print_batch(result, as_json, nothing="no row to change")


@report_errors
def merge(
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
    batch_id: BatchId = None,
    dry_run: DryRun = False,
    limits: LimitOption = None,
    yes: YesOption = False,
    spark: SparkOption = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    threads: ThreadsOption = 2,
    no_progress: NoProgress = False,
    as_json: JsonOption = False,
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
    with stages(no_progress) as on_stage, asking_for_yes(opened):
        runner, bounds = chosen_runner(spark, master, remote, threads, shown=on_stage), given_limits(limits, yes=yes)
        result = merged.execute(batch_id=batch_id, dry_run=dry_run, limits=bounds, runner=runner, on_stage=on_stage)
    print_batch(result, as_json, nothing="no row to change")
