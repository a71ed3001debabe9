"""``lakeidx lookup``: the rows of given keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from lakeidx.cli.context import JsonOption, TableArgument, open_table, report_errors
from lakeidx.cli.output import RowFormat, for_programs, json_lines, write_rows
from lakeidx.errors import InvalidInputError
from lakeidx.landing.cast_rows import cast_piece
from lakeidx.landing.read import LandingOptions, read_landing
from lakeidx.lookup.point.answers import LookupResult
from lakeidx.lookup.point.table_lookup import TableLookup
from lakeidx.storage import open_store


@report_errors
def lookup(
    table: TableArgument,
    keys: Annotated[Path, typer.Option("--keys", help="JSON lines with the primary key's columns")],
    as_json: JsonOption = False,
) -> None:
    """Print one line per key, in their order: its row as JSON, or null."""
    opened = open_table(table)
    fields = [opened.schema.field(n) for n in opened.schema.primary_keys]
    answers = TableLookup(opened.metadata)
    path = str(keys.absolute())
    for piece in read_landing(open_store(path), path, fields, LandingOptions("jsonl", ignore_extra=True)):
        kept, rejected = cast_piece(piece, fields, path)
        if rejected.num_rows:
            first = rejected.slice(0, 1).to_pylist()[0]
            raise InvalidInputError(f"line {first['line']}: {first['reason']}", path=path)
        _print(answers.lookup(kept.select([f.name for f in fields])), as_json=as_json)


def _print(answer: LookupResult, *, as_json: bool) -> None:
    if not for_programs(as_json):
        rows = answer.rows.filter(pa.array(answer.found))
        write_rows([rows], rows.schema, RowFormat.TABLE, None)
        if rows.num_rows < len(answer.found):
            typer.echo(
                f"{len(answer.found) - rows.num_rows} of {len(answer.found)} keys are not in the table", err=True
            )
        return
    for is_found, line in zip(answer.found.tolist(), json_lines(answer.rows), strict=True):
        typer.echo(line if is_found else "null")
