"""``lakeidx init`` and ``lakeidx table create|show|alter|list|drop``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from lakeidx.api.inference.infer import InferredTable
from lakeidx.api.inference.start import begin, create_from_files, plan_start
from lakeidx.api.table import Table
from lakeidx.api.warehouse import Warehouse, drop_table
from lakeidx.cli.context import (
    DryRun,
    JsonOption,
    NoProgress,
    TableArgument,
    WholeTableArgument,
    Yes,
    asked,
    confirmed,
    report_errors,
    stages,
)
from lakeidx.cli.inputs import takes_landing_options
from lakeidx.cli.output import ListFormat, for_programs, print_json, print_list, prints_list, prints_result
from lakeidx.cli.write_commands import show_rejects
from lakeidx.errors import InvalidInputError
from lakeidx.format.paths import split_table_uri
from lakeidx.format.schema.feature_gate import gate_report
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.landing.read import LandingOptions
from lakeidx.results import Listing, Result
from lakeidx.table.times import iso_utc

_Texts = list[str] | None
KeyOption = Annotated[
    str | None,
    typer.Option("--key", metavar="NAME,...", help="columns of the primary key; default: found in the files"),
]
PartitionByOption = Annotated[
    str | None, typer.Option("--partition-by", metavar="NAME,...", help="columns that partition the table")
]
_MOST_UNREAD = 10


def _read_spec(file: Path) -> dict[str, Any]:
    """Return the JSON of a table's schema file."""
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


@report_errors
def create(
    table: WholeTableArgument,
    more: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE...]", help="more files of --from", show_default=False)
    ] = None,
    schema: Annotated[
        Path | None, typer.Option("--schema", help="JSON file: fields, primaryKeys, partitionKeys, options")
    ] = None,
    from_: Annotated[
        _Texts,
        typer.Option("--from", metavar="FILE...", help="files or a folder: columns, types and key are found in them"),
    ] = None,
    key: KeyOption = None,
    partition_by: PartitionByOption = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="succeed if the same table exists")] = False,
    as_json: JsonOption = False,
) -> None:
    """Create a table from a schema file, or from files, and load these.

    Examples:
        lakeidx table create lake/shop.db/orders --from orders-*.csv --key id
        lakeidx table create lake/shop.db/orders --schema orders.json
        lakeidx table create s3://lake/shop.db/orders --schema orders.json --if-not-exists

    """
    if (schema is None) == (from_ is None) or (more and schema is not None):
        raise InvalidInputError("give --schema FILE, or --from FILE...")
    if from_ is not None:
        if if_not_exists:
            raise InvalidInputError(
                "--if-not-exists goes with --schema: files may give another table than the one there"
            )
        files = [*from_, *(more or ())]
        made, found, result = create_from_files(table, files, key=_listed(key), partition_by=_listed(partition_by))
        _show_found(found)
        show_rejects(made.store, result)
        loaded, loaded_text = result.as_dict(), f", {result.ingest.rows_staged} rows loaded"
    else:
        assert schema is not None
        made, loaded, loaded_text = Table.create(table, _read_spec(schema), exist_ok=if_not_exists), {}, ""
    if as_json:
        print_json({"created": made.uri, "bucketMode": made.schema.bucket_mode.name, **loaded})
    else:
        typer.echo(f"created {made.uri} ({made.schema.bucket_mode.name.lower()}){loaded_text}", err=True)


@report_errors
def show(table: TableArgument, as_json: JsonOption = False) -> None:
    """Show schema, options and newest snapshot, and the options that lakeidx does not act on.

    Examples:
        lakeidx table show lake/shop.db/orders

    """
    opened = Table.open(table)
    if for_programs(as_json):
        print_json(opened.describe())
    else:
        _show(opened)


def _show(table: Table) -> None:
    """Print for a person what a table is."""
    schema, snapshot = table.schema, table.snapshot
    comment = f", {schema.comment}" if schema.comment else ""
    typer.echo(f"{table.uri}: {schema.bucket_mode.name.lower()}, schema {schema.id}{comment}")
    columns = [
        {"column": f.name, "type": str(f.type), "key": _role(f.name, schema), "comment": f.description or ""}
        for f in schema.fields
    ]
    print_list(columns, ListFormat.TABLE)
    if schema.options:
        print_list([{"option": k, "value": v} for k, v in sorted(schema.options.items())], ListFormat.TABLE)
    for warning in gate_report(schema).warnings():
        typer.echo(warning)
    if snapshot is None:
        typer.echo("no snapshot yet")
    else:
        rows, at = snapshot.total_record_count, iso_utc(snapshot.time_millis)
        typer.echo(f"snapshot {snapshot.id} of {at}: {rows} stored rows, by {snapshot.commit_user}")


def _role(name: str, schema: TableSchema) -> str:
    return "partition" if name in schema.partition_keys else "primary" if name in schema.primary_keys else ""


@prints_result
def alter(
    table: TableArgument,
    add: Annotated[
        _Texts, typer.Option("--add", metavar="'NAME TYPE'", help="a new column; TYPE is text or schema JSON")
    ] = None,
    drop: Annotated[_Texts, typer.Option("--drop", metavar="NAME", help="drop a column")] = None,
    rename: Annotated[_Texts, typer.Option("--rename", metavar="OLD=NEW", help="rename a column")] = None,
    types: Annotated[_Texts, typer.Option("--type", metavar="'NAME TYPE'", help="widen the type of a column")] = None,
    move: Annotated[_Texts, typer.Option("--move", metavar="'NAME first|after OTHER'", help="move a column")] = None,
    nullable: Annotated[_Texts, typer.Option("--nullable", metavar="NAME", help="allow nulls in a column")] = None,
    not_null: Annotated[_Texts, typer.Option("--not-null", metavar="NAME", help="refuse nulls in a column")] = None,
    comments: Annotated[
        _Texts, typer.Option("--comment", metavar="NAME=TEXT", help="set the comment of a column; no text removes it")
    ] = None,
    defaults: Annotated[
        _Texts, typer.Option("--default", metavar="NAME=VALUE", help="value to write instead of null")
    ] = None,
    no_default: Annotated[_Texts, typer.Option("--no-default", metavar="NAME", help="remove a default")] = None,
    set_: Annotated[_Texts, typer.Option("--set", metavar="OPTION=VALUE", help="set an option of the table")] = None,
    reset: Annotated[_Texts, typer.Option("--reset", metavar="OPTION", help="reset an option to its default")] = None,
    comment: Annotated[
        str | None, typer.Option("--table-comment", help="set the comment of the table; '' removes it")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--dry-run", "--plan", help="check and show the changes without making them")
    ] = False,
) -> Result:
    """Change columns and options in one new schema, or not at all. Data files are not rewritten.

    Every option may be repeated. Fields inside rows are named by their path (address.city), what an array or map holds by
    lines.element.price or tags.value. A change that an index, an option, a staged batch or rows of the table do not allow is
    refused with the reason.

    Examples:
        lakeidx table alter lake/shop.db/orders --add 'city STRING' --comment city='where it goes'
        lakeidx table alter lake/shop.db/orders --type 'qty BIGINT' --dry-run
        lakeidx table alter lake/shop.db/orders --set snapshot.num-retained.max=50

    """
    if not any((add, drop, rename, types, move, nullable, not_null, comments, defaults, no_default, set_, reset)) and (
        comment is None
    ):
        raise InvalidInputError("say what to change, e.g. --add 'city STRING' or --set snapshot.num-retained.max=20")
    return Table.open(table).alter(
        add=_pairs("--add", add, None),
        drop=drop or (),
        rename=_pairs("--rename", rename, "="),
        types=_pairs("--type", types, None),
        nullable={**dict.fromkeys(nullable or (), True), **dict.fromkeys(not_null or (), False)},
        comments={k: v or None for k, v in _pairs("--comment", comments, "=").items()},
        defaults={**_pairs("--default", defaults, "="), **dict.fromkeys(no_default or (), None)},
        move=_pairs("--move", move, None),
        set=_pairs("--set", set_, "="),
        reset=reset or (),
        comment=comment,
        dry_run=plan,
    )


def _pairs(option: str, texts: Sequence[str] | None, separator: str | None) -> dict[str, str]:
    """Parse ``name<separator>value`` of every use of an option; None separates at blanks."""
    out: dict[str, str] = {}
    for text in texts or ():
        parts = [p.strip() for p in text.split(separator, 1)]
        if len(parts) != 2 or not parts[0]:
            form = "'NAME VALUE'" if separator is None else f"NAME{separator}VALUE"
            raise InvalidInputError(f"{option} {text!r}: write {form}")
        if parts[0] in out:
            raise InvalidInputError(f"{option} names {parts[0]!r} twice")
        out[parts[0]] = parts[1]
    return out


@prints_list
def list_tables(
    warehouse: Annotated[str, typer.Argument(metavar="WAREHOUSE", help="the folder or s3:// prefix with databases")],
) -> Listing:
    """List the tables of a warehouse.

    Examples:
        lakeidx table list lake

    """
    tables = Warehouse(warehouse).list()
    if not tables:
        typer.echo(f"{warehouse} has no tables; their folders are WAREHOUSE/DATABASE.db/TABLE", err=True)
    return tables


@prints_result
def drop(table: WholeTableArgument, yes: Yes = False, dry_run: DryRun = False) -> Result:
    """Delete a table with all its files and the staging of its batches; stop all writers first.

    Examples:
        lakeidx table drop lake/shop.db/orders --dry-run
        lakeidx table drop lake/shop.db/orders --yes

    """
    return asked("delete the table for good", partial(drop_table, Table.open(table)), yes=yes, dry_run=dry_run)


@report_errors
def rename(
    table: WholeTableArgument,
    to: Annotated[str, typer.Argument(metavar="NAME|DATABASE.NAME", help="the new name, in the same warehouse")],
    as_json: JsonOption = False,
) -> None:
    """Give a table another name: its files are copied, then deleted under the old one; stop all writers first.

    Examples:
        lakeidx table rename lake/shop.db/orders orders_of_2025

    """
    place = split_table_uri(table)
    if place.database is None:
        raise InvalidInputError(
            "a table of a warehouse, <warehouse>/<database>.db/<table>, gets another name", path=table
        )
    target = to if "." in to else f"{place.database}.{to}"
    warehouse = Warehouse(place.warehouse or ".")
    copied = warehouse.rename(f"{place.database}.{place.table}", target)
    if for_programs(as_json):
        print_json({"table": warehouse.path(target), "files_copied": copied})
    else:
        typer.echo(f"{warehouse.path(target)}: renamed, {copied} files copied")


@report_errors
@takes_landing_options
def init(
    options: LandingOptions,
    places: Annotated[
        list[str], typer.Argument(metavar="FOLDER|FILE...", help="CSV, JSON, Parquet, Arrow or Excel files of one kind")
    ],
    table: Annotated[
        str | None,
        typer.Option(
            "--table", metavar="WAREHOUSE/DB.db/NAME", help="default warehouse/lake.db/ and the folder's name"
        ),
    ] = None,
    key: KeyOption = None,
    partition_by: PartitionByOption = None,
    yes: Yes = False,
    no_progress: NoProgress = False,
    as_json: JsonOption = False,
) -> None:
    """Look at files, propose a table, and make it: a pipeline file with comments, the table, its first batch.

    Names, types, key, index and bucket size come from the first rows of some files; what had to be guessed, and lines that are no
    rows, are listed. In a project of dg the component's defs.yaml is written in the place of a pipeline file.

    Examples:
        lakeidx init landing/orders
        lakeidx init export.csv --table lake/shop.db/orders --key id --yes

    """
    start = plan_start(places, table=table, key=_listed(key), partition_by=_listed(partition_by), options=options)
    if not yes:
        typer.echo(start.text)
        _show_found(start.found)
    confirmed(f"write {start.path}, make {start.table} and load {len(start.files)} files", None, yes=yes)
    with stages(no_progress) as on_stage:
        result = begin(start, on_stage=on_stage)
    if yes:
        _show_found(start.found)
    show_rejects(Table.open(start.table).store, result)
    if for_programs(as_json):
        print_json(
            {"table": start.table, "file": str(start.path), "notes": list(start.found.notes), **result.as_dict()}
        )
        return
    typer.echo(f"{start.path}: written\n{start.table}: {result.ingest.rows_staged} rows loaded")
    typer.echo(f"next: lakeidx scan {start.table} --format table")
    typer.echo(f"new files: lakeidx load {start.table} {_reading(start.found)}")


def _show_found(found: InferredTable) -> None:
    """Print on stderr what was guessed, and lines that could not be read."""
    for note in (*found.notes, *found.unread[:_MOST_UNREAD]):
        typer.echo(note, err=True)
    if len(found.unread) > _MOST_UNREAD:
        typer.echo(f"and {len(found.unread) - _MOST_UNREAD} lines more that are no rows", err=True)


def _listed(text: str | None) -> list[str]:
    return [n.strip() for n in (text or "").split(",") if n.strip()]


#: Options of the command line whose names are not those of pipeline files.
_FLAGS = {"date_formats": "date-format", "true_values": "true", "false_values": "false", "null_values": "null",
          "missing_columns": "missing"}  # fmt: skip


def _reading(found: InferredTable) -> str:
    """Return the folder of files and the options by which they are read, as a shell takes them."""
    landing = dict(found.attributes["landing"])
    words = [landing.pop("path"), "--pattern", landing.pop("pattern")]
    for name, value in landing.items():
        pairs = [f"{k}={'' if v is None else v}" for k, v in value.items()] if isinstance(value, dict) else None
        for each in pairs or (value if isinstance(value, list) else [value]):
            words += [f"--{_FLAGS.get(name, name.replace('_', '-'))}", str(each)]
    return shlex.join(words)
