"""``lakeidx compact|expire|orphans|tag|rollback``: keeping a table small and right."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any

import pyarrow as pa
import typer

from lakeidx.cli.context import (
    MasterOption,
    NoProgress,
    PartitionOption,
    RemoteOption,
    TableArgument,
    one_clear_line,
    open_table,
    stages,
)
from lakeidx.cli.output import ListFormat, print_json, print_list
from lakeidx.cli.write_commands import spark_runner
from lakeidx.codec.binary_row import encode_row, with_arity
from lakeidx.codec.values import arrow_to_internal
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema import TableSchema
from lakeidx.option_text import parse_duration_ms
from lakeidx.pipeline.cast import cast_column
from lakeidx.pipeline.cleanup import clean_orphans
from lakeidx.pipeline.compact import run_compaction
from lakeidx.pipeline.expiry import expire_everything
from lakeidx.pipeline.rollback import roll_back_table
from lakeidx.pipeline.runner import LocalRunner, Runner
from lakeidx.table.tags import create_tag, delete_tag, list_tags

tag_app = typer.Typer(help="Name snapshots, so that they stay.", no_args_is_help=True)
DryRun = Annotated[bool, typer.Option("--dry-run", help="only say what would happen")]


@one_clear_line
def compact(
    table: TableArgument,
    full: Annotated[bool, typer.Option("--full", help="merge every bucket into the top level")] = False,
    partition: PartitionOption = None,
    shrink_index: Annotated[
        bool | None, typer.Option("--shrink-index/--keep-index", help="drop hashes of deleted keys (with --full)")
    ] = None,
    spark: Annotated[bool, typer.Option("--spark", help="compact on Spark")] = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    threads: Annotated[int, typer.Option("--threads", min=1, help="buckets at a time without --spark")] = 2,
    dry_run: DryRun = False,
    no_progress: NoProgress = False,
) -> None:
    """Compact the buckets that need it, or all of them."""
    opened = open_table(table)
    partitions = chosen_partitions(partition, opened.schema)
    runner: Runner = spark_runner(master, remote) if spark and not dry_run else LocalRunner(threads)
    with stages(no_progress) as tell:
        tell("compaction")
        report = run_compaction(
            opened.metadata, runner, full=full, partitions=partitions, shrink=shrink_index, dry_run=dry_run
        )
    print_json(report.model_dump(exclude=set() if dry_run else {"picked"}))


def chosen_partitions(texts: Sequence[str] | None, schema: TableSchema) -> set[bytes] | None:
    """What ``--partition`` names, as partition bytes; None for all."""
    return {parse_partition(text, schema) for text in texts} if texts else None


def parse_partition(text: str, schema: TableSchema) -> bytes:
    """``k=v,k=v`` as the manifest's partition bytes."""
    given = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    if set(given) != set(schema.partition_keys):
        raise InvalidInputError(
            f"--partition {text!r}: give {', '.join(f'{k}=...' for k in schema.partition_keys) or 'none'}"
        )
    values: list[Any] = []
    for key in schema.partition_keys:
        field = schema.field(key)
        cast = cast_column(_text(given[key]), field.type)
        if cast.failed is not None:
            raise InvalidInputError(f"--partition: {given[key]!r} is not {field.type}")
        values += arrow_to_internal(cast.values, field.type)
    return with_arity(encode_row(values, schema.partition_types), len(values))


def _text(value: str) -> pa.Array:
    return pa.array([value], pa.string())


def _age(text: str) -> int:
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise InvalidInputError(f"{text!r} is no length of time; write e.g. '12 h' or '7 d'") from error


@one_clear_line
def expire(
    table: TableArgument,
    dry_run: DryRun = False,
    staging: Annotated[bool, typer.Option("--staging/--no-staging", help="clean the staging of batches, too")] = True,
) -> None:
    """Expire snapshots, tags and consumers by the table's options, and clean staging."""
    print_json(expire_everything(open_table(table), staging=staging, dry_run=dry_run))


@one_clear_line
def orphans(
    table: TableArgument,
    older_than: Annotated[str, typer.Option("--older-than", help="least age, e.g. '1 d' or '12 h'")] = "1 d",
    yes: Annotated[bool, typer.Option("--yes", help="delete them; without it they are only listed")] = False,
    dry_run: DryRun = False,
    list_format: Annotated[ListFormat, typer.Option("--format", help="how to print")] = ListFormat.TABLE,
) -> None:
    """List files that nothing refers to; with --yes delete them."""
    opened = open_table(table)
    remove = yes and not dry_run
    report = clean_orphans(
        opened.metadata, now_ms=int(time.time() * 1000), older_than_ms=_age(older_than), dry_run=not remove
    )
    print_list([{"path": f.path, "bytes": f.size, "modified_ms": f.mtime_ms} for f in report.files], list_format)
    verb = "deleted" if report.removed else "found (nothing deleted; --yes deletes)"
    typer.echo(f"{len(report.files)} orphans, {report.bytes} bytes, {verb}", err=True)


@tag_app.command("create")
@one_clear_line
def tag_create(
    table: TableArgument,
    name: Annotated[str, typer.Argument(help="name of the tag")],
    snapshot: Annotated[int | None, typer.Option("--snapshot", help="default: the newest")] = None,
    retain: Annotated[str | None, typer.Option("--retain", help="delete it after, e.g. '30 d'; default never")] = None,
) -> None:
    """Name a snapshot."""
    opened = open_table(table)
    kept = None if retain is None else _age(retain)
    tag = create_tag(opened.metadata, name, snapshot_id=snapshot, retained_ms=kept)
    print_json({"tag": name, "snapshot": tag.snapshot.id})


@tag_app.command("delete")
@one_clear_line
def tag_delete(
    table: TableArgument, name: Annotated[str, typer.Argument(help="name of the tag")], dry_run: DryRun = False
) -> None:
    """Delete a tag, and the files that only it kept."""
    opened = open_table(table)
    report = delete_tag(opened.metadata, opened.schema, name, dry_run=dry_run)
    out: dict[str, Any] = {"tag": name, "dry_run": dry_run, "files": len(report.files), "notes": list(report.notes)}
    if dry_run:
        out["list"] = [{"role": f.role.value, "path": f.path, "bytes": f.size} for f in report.files]
    print_json(out)


@tag_app.command("list")
@one_clear_line
def tag_list(
    table: TableArgument,
    list_format: Annotated[ListFormat, typer.Option("--format", help="how to print")] = ListFormat.TABLE,
) -> None:
    """List the tags."""
    tags = list_tags(open_table(table).metadata)
    print_list(
        [{"tag": n, "snapshot": t.snapshot.id, "rows": t.snapshot.total_record_count} for n, t in tags.items()],
        list_format,
    )


@one_clear_line
def rollback(
    table: TableArgument,
    snapshot: Annotated[int | None, typer.Option("--snapshot", help="go back to this snapshot")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="go back to this tag")] = None,
    dry_run: DryRun = False,
) -> None:
    """Make an older state the newest again; no writer may be at work meanwhile."""
    opened = open_table(table)
    report = roll_back_table(opened.metadata, opened.schema, snapshot_id=snapshot, tag=tag, dry_run=dry_run)
    print_json(
        {
            "snapshot": report.snapshot_id,
            "dry_run": dry_run,
            "snapshots_gone": list(report.snapshots),
            "tags_gone": list(report.tags),
            "restored": report.restored,
            "files": len(report.files),
        }
    )
