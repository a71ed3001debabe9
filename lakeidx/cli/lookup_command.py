"""``lakeidx lookup|keys``: the rows of given keys, and where keys are."""

from __future__ import annotations

from typing import Annotated

import pyarrow as pa
import typer

from lakeidx.api.table import Table
from lakeidx.cli.context import JsonOption, TableArgument, report_errors
from lakeidx.cli.inputs import key_file
from lakeidx.cli.output import RowFormat, for_programs, json_lines, print_rows
from lakeidx.data.json_values import json_columns
from lakeidx.landing.key_rows import key_pieces, read_key_rows
from lakeidx.landing.read import ENDINGS
from lakeidx.lookup.point.answers import LookupResult
from lakeidx.lookup.point.table_lookup import TableLookup

_SHOWN_KEYS = 10


@report_errors
def lookup(
    table: TableArgument,
    keys: Annotated[
        str,
        typer.Option(
            "--keys", help=f"file with the primary key's columns: {ENDINGS}, else JSON lines; - for these on stdin"
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Print one line per key, in their order: its row as JSON, or null.

    Examples:
        lakeidx lookup lake/shop.db/orders --keys keys.csv
        lakeidx lookup lake/shop.db/orders --keys <(echo '{"id": 1}')

    """
    opened = Table.open(table)
    fields = [opened.schema.field(n) for n in opened.schema.primary_keys]
    answers = TableLookup(opened.metadata, falls_back=True)
    with key_file(keys) as path:
        for asked in key_pieces(path, fields):
            _print(asked, answers.lookup(asked), as_json=as_json)


def _print(asked: pa.Table, answer: LookupResult, *, as_json: bool) -> None:
    if not for_programs(as_json):
        rows = answer.rows.filter(pa.array(answer.found))
        print_rows([rows], rows.schema, RowFormat.TABLE, None)
        _name_missing(asked.filter(pa.array(~answer.found)), asked.num_rows)
        return
    for is_found, line in zip(answer.found.tolist(), json_lines(answer.rows), strict=True):
        typer.echo(line if is_found else "null")


def _name_missing(missing: pa.Table, of: int) -> None:
    """Print on stderr which keys have no row; of many the first ones."""
    if not missing.num_rows:
        return
    shown = missing.slice(0, _SHOWN_KEYS)
    keys = [", ".join(f"{n}={v}" for n, v in zip(shown.column_names, row, strict=True))
            for row in zip(*json_columns(shown), strict=True)]  # fmt: skip
    rest = f"; and {missing.num_rows - len(keys)} more" if missing.num_rows > len(keys) else ""
    typer.echo(f"{missing.num_rows} of {of} keys are not in the table: {'; '.join(keys)}{rest}", err=True)


@report_errors
def keys(
    table: TableArgument,
    rows: Annotated[
        str,
        typer.Option(
            "--rows", help=f"file with at least partition and key columns: {ENDINGS}; - for JSON lines on stdin"
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Print partitionHash, keyHash, keyBytes (hex) and the bucket of each row's key (null: not in the table).

    Examples:
        lakeidx keys lake/shop.db/orders --rows keys.csv

    """
    opened = Table.open(table)
    schema = opened.schema
    wanted = {*schema.partition_keys, *schema.trimmed_primary_keys}
    fields = [f for f in schema.fields if f.name in wanted]
    with key_file(rows) as path:
        found = opened.keys(read_key_rows(path, fields))
    print_rows([found], found.schema, RowFormat.JSONL if for_programs(as_json) else RowFormat.TABLE, None)
