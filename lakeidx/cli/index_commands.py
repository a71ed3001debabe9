"""``lakeidx index TABLE`` lists index files; ``index rebuild TABLE`` changes the file indexes of data files; ``index resize
TABLE`` splits and merges the buckets of rings."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

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
from lakeidx.cli.maintain_commands import DryRun, chosen_partitions
from lakeidx.cli.output import print_json
from lakeidx.cli.read_commands import list_index
from lakeidx.cli.write_commands import spark_runner
from lakeidx.errors import InvalidInputError
from lakeidx.option_text import parse_size
from lakeidx.pipeline.index_rebuild import (
    IndexWish,
    run_index_rebuild,
    wish_of_options,
    wish_to_build,
    wish_to_drop,
)
from lakeidx.pipeline.index_types import index_folder
from lakeidx.pipeline.resize import run_ring_resize
from lakeidx.pipeline.runner import LocalRunner, Runner
from lakeidx.table.handle import TableHandle

_LIST = "list"


class _ListByDefault(TyperGroup):
    """``index TABLE`` means ``index list TABLE``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [_LIST, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_ListByDefault,
    help="List the index files of a table, rebuild the file indexes of its data files, or resize its rings of buckets.",
    no_args_is_help=True,
)
app.command(_LIST)(list_index)


@app.command()
@one_clear_line
def rebuild(
    table: TableArgument,
    index_type: Annotated[
        str | None,
        typer.Option("--type", help="bloom-filter, bitmap, bsi or range-bitmap; default: as the options say"),
    ] = None,
    columns: Annotated[str | None, typer.Option("--columns", help="comma list; col[key] for an entry of a map")] = None,
    drop: Annotated[bool, typer.Option("--drop", help="drop this type (of these columns, or of all)")] = False,
    partition: PartitionOption = None,
    spark: Annotated[bool, typer.Option("--spark", help="build on Spark")] = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    threads: Annotated[int, typer.Option("--threads", min=1, help="files at a time without --spark")] = 2,
    dry_run: DryRun = False,
    no_progress: NoProgress = False,
) -> None:
    """Add, replace or drop file indexes of the data files there are; data files stay as they are.

    Without --type the files get exactly the indexes that the table's options ask for.
    """
    opened = open_table(table)
    names = [c.strip() for c in (columns or "").split(",") if c.strip()]
    wish = rebuild_wish(opened, index_type, names, drop=drop)
    partitions = chosen_partitions(partition, opened.schema)
    runner: Runner = spark_runner(master, remote) if spark and not dry_run else LocalRunner(threads)
    with stages(no_progress) as tell:
        tell("index rebuild")
        report = run_index_rebuild(opened.metadata, runner, wish, partitions=partitions, dry_run=dry_run)
    print_json(report.model_dump())


@app.command()
@one_clear_line
def resize(
    table: TableArgument,
    target_size: Annotated[
        str | None,
        typer.Option(
            "--target-size", help="wanted size of a bucket, e.g. '1 gb'; default the table's target-file-size"
        ),
    ] = None,
    partition: PartitionOption = None,
    spark: Annotated[bool, typer.Option("--spark", help="rewrite on Spark")] = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    threads: Annotated[int, typer.Option("--threads", min=1, help="resizes at a time without --spark")] = 2,
    dry_run: DryRun = False,
    no_progress: NoProgress = False,
) -> None:
    """Split buckets that have grown and merge small ones (index.type = bucket with engine CONSISTENT_HASHING)."""
    opened = open_table(table)
    partitions = chosen_partitions(partition, opened.schema)
    runner: Runner = spark_runner(master, remote) if spark and not dry_run else LocalRunner(threads)
    with stages(no_progress) as tell:
        tell("ring resize")
        report = run_ring_resize(
            opened.metadata,
            runner,
            index_dir=index_folder(opened.paths),
            partitions=partitions,
            target_bytes=None if target_size is None else _size(target_size),
            dry_run=dry_run,
        )
    print_json(report.model_dump())


def _size(text: str) -> int:
    try:
        found = parse_size(text)
    except ValueError as error:
        raise InvalidInputError(f"--target-size: {text!r} is no size; write e.g. '256 mb' or '1 gb'") from error
    if found < 1:
        raise InvalidInputError("--target-size must be at least one byte")
    return found


def rebuild_wish(opened: TableHandle, index_type: str | None, columns: list[str], *, drop: bool) -> IndexWish:
    """What the options of the command ask for; InvalidInputError when they do not go together."""
    if index_type is None:
        if columns or drop:
            raise InvalidInputError("--columns and --drop need --type")
        return wish_of_options(opened.schema)
    return wish_to_drop(index_type, columns) if drop else wish_to_build(opened.schema, index_type, columns)
