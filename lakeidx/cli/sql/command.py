"""``lakeidx sql``: statements over a warehouse, from the command line, a pipe or a prompt."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lakeidx.api.sql.names import TableName
from lakeidx.api.sql.query import QueryResult
from lakeidx.api.sql.run import is_verb, run_statement
from lakeidx.api.sql.statement import Statement, statements
from lakeidx.api.warehouse import Warehouse
from lakeidx.cli.batch.limits import LimitOption, YesOption, asking_for_yes, given_limits
from lakeidx.cli.context import NoProgress, report_errors, stages, takes
from lakeidx.cli.output import RowOutput, print_result
from lakeidx.errors import BatchHeldError, InvalidInputError

#: Statements that ask for --yes beyond a limit, as `lakeidx update` does; the batch of another one is held.
_ASKING = ("UPDATE", "DELETE", "MERGE")


@report_errors
@takes(RowOutput)
def sql(
    out: RowOutput,
    statement: Annotated[
        str | None,
        typer.Argument(metavar="[STATEMENT]", help="one or several with ; between; default: a prompt, or stdin"),
    ] = None,
    warehouse: Annotated[
        str, typer.Option("--warehouse", metavar="WAREHOUSE", help="/lake or s3://bucket/lake", show_default=False)
    ] = ...,  # type: ignore[assignment]
    limits: LimitOption = None,
    yes: YesOption = False,
    no_progress: NoProgress = False,
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
        with stages(no_progress or out.output is None) as on_stage:
            on_stage("sql", unit="rows")
            try:
                result = run_statement(one, opened, None, {"limits": given_limits(limits, yes=yes)})
            except BatchHeldError:
                if one.word(0) not in _ASKING:
                    raise
                target = TableName.of(one, one.parse().this)
                with asking_for_yes(opened.table(".".join(target.parts))):
                    raise
            if isinstance(result, QueryResult):
                out.print(result.batches(), result.arrow_schema)
            else:
                print_result(result, as_json=out.as_json)

    if statement is None and sys.stdin.isatty():
        from lakeidx.cli.sql.prompt import run_prompt

        run_prompt(opened, run)
        return
    found = statements(sys.stdin.read() if statement is None else statement)
    if out.output is not None and len(found) > 1:
        raise InvalidInputError("-o takes the rows of one statement")
    if out.output is not None and is_verb(found[0]):
        raise InvalidInputError("-o takes the rows of a query, and this statement has none")
    for one in found:
        run(one)
