"""``lakeidx sql``: statements over a warehouse, from the command line, a pipe or a prompt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeidx.api.sql.names import TableName
from lakeidx.api.sql.query import QueryResult
from lakeidx.api.sql.run import is_verb, run_statement
from lakeidx.api.sql.statement import Statement, statements
from lakeidx.api.warehouse import Warehouse
from lakeidx.cli.batch.limits import LimitOption, YesOption, asking_for_yes, given_limits
from lakeidx.cli.context import JsonOption, NoProgress, report_errors, stages
from lakeidx.cli.output import (
    RowFormat,
    chosen_format,
    for_people,
    print_first_rows,
    print_result,
    print_rows,
)
from lakeidx.errors import BatchHeldError, InvalidInputError

if TYPE_CHECKING:
    from lakeidx.api.sql.verbs import VerbResult


#: Statements that ask for --yes beyond a limit, as `lakeidx update` does; the batch of another one is held.
_ASKING = ("UPDATE", "DELETE", "MERGE")


@report_errors
def sql(
    statement: Annotated[
        str | None,
        typer.Argument(metavar="[STATEMENT]", help="one or several with ; between; default: a prompt, or stdin"),
    ] = None,
    warehouse: Annotated[
        str, typer.Option("--warehouse", metavar="WAREHOUSE", help="/lake or s3://bucket/lake", show_default=False)
    ] = ...,  # type: ignore[assignment]
    row_format: Annotated[
        RowFormat | None,
        typer.Option(
            "--format", help="default by the name of -o, else a table of the first rows on a terminal, else jsonl"
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="write rows to a file instead of stdout")
    ] = None,
    limits: LimitOption = None,
    yes: YesOption = False,
    no_progress: NoProgress = False,
    as_json: JsonOption = False,
) -> None:
    """Run SQL over the tables of a warehouse, named database.table; without a statement a prompt begins.

    Examples:
        lakeidx sql "SELECT day, sum(total) FROM shop.orders GROUP BY day" --warehouse lake
        lakeidx sql "UPDATE shop.orders SET total = total * 1.19 WHERE day = '2026-11-01'" --warehouse lake
        lakeidx sql "CALL sys.compact(table => 'shop.orders')" --warehouse lake
        lakeidx sql "SELECT * FROM shop.orders VERSION AS OF 1" --warehouse lake -o orders.parquet
        lakeidx sql --warehouse lake

    """
    opened = Warehouse(warehouse)

    def run(one: Statement) -> None:
        with stages(no_progress or output is None) as on_stage:
            on_stage("sql", unit="rows")
            try:
                result = run_statement(one, opened, None, {"limits": given_limits(limits, yes=yes)})
            except BatchHeldError:
                if one.word(0) not in _ASKING:
                    raise
                target = TableName.of(one, one.parse().this)
                with asking_for_yes(opened.table(".".join(target.parts))):
                    raise
            _print_result(result, row_format, output, as_json=as_json)

    if statement is None and sys.stdin.isatty():
        from lakeidx.cli.sql.prompt import run_prompt

        run_prompt(opened, run)
        return
    found = statements(sys.stdin.read() if statement is None else statement)
    if output is not None and len(found) > 1:
        raise InvalidInputError("-o takes the rows of one statement")
    if output is not None and is_verb(found[0]):
        raise InvalidInputError("-o takes the rows of a query, and this statement has none")
    for one in found:
        run(one)


def _print_result(
    result: QueryResult | VerbResult, row_format: RowFormat | None, output: Path | None, *, as_json: bool
) -> None:
    """Print the rows of a query as `lakeidx scan` does, of a verb what it has changed."""
    if not isinstance(result, QueryResult):
        print_result(result, as_json=as_json)
        return
    if for_people(row_format, output, as_json=as_json):
        print_first_rows(result.batches(), result.arrow_schema)
        return
    kind = chosen_format(row_format, output, RowFormat, RowFormat.JSONL, as_json=as_json)
    print_rows(result.batches(), result.arrow_schema, kind, output)
