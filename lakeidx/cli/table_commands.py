"""``lakeidx table create|show``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from lakeidx.cli.context import TableArgument, one_clear_line, open_table
from lakeidx.cli.output import print_json
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema import new_schema, schema_to_json
from lakeidx.format.snapshot import snapshot_to_json
from lakeidx.pipeline.index_types import check_index_type, index_type, limits_of
from lakeidx.table.handle import TableHandle

app = typer.Typer(help="Create a table, or show one.", no_args_is_help=True)


def read_spec(file: Path) -> dict[str, Any]:
    """The JSON of a table's schema file."""
    try:
        spec = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInputError("the schema file does not exist", path=str(file)) from None
    except (ValueError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"not JSON: {error}", path=str(file)) from error
    if not isinstance(spec, dict):
        raise InvalidInputError(
            'a schema file is an object: {"fields": [...], "primaryKeys": [...], ...}', path=str(file)
        )
    return spec


@app.command()
@one_clear_line
def create(
    table: TableArgument,
    schema: Annotated[Path, typer.Option("--schema", help="JSON file: fields, primaryKeys, partitionKeys, options")],
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="fine when the same table is there")] = False,
) -> None:
    """Create a table from a schema file."""
    spec = read_spec(schema)
    check_index_type(new_schema(spec))
    made = TableHandle.create(table, spec, exist_ok=if_not_exists)
    typer.echo(f"created {made.uri} ({made.schema.bucket_mode.name.lower()})", err=True)
    limits = limits_of(made.schema)
    if limits:
        typer.echo(f"index type {index_type(made.schema)}: {limits}", err=True)


@app.command()
@one_clear_line
def show(table: TableArgument) -> None:
    """Show schema, options and newest snapshot as JSON."""
    opened = open_table(table)
    snapshot = opened.snapshot
    print_json(
        {
            "table": opened.uri,
            "bucketMode": opened.schema.bucket_mode.name,
            "schema": schema_to_json(opened.schema),
            "snapshot": None if snapshot is None else snapshot_to_json(snapshot),
        }
    )
