"""What commands share: opening tables, progress on stderr, and turning errors into one clear line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Annotated, ParamSpec

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from lakeidx.errors import LakeIdxError
from lakeidx.table.handle import TableHandle

EXIT_FINDINGS = 1
EXIT_ERROR = 2

P = ParamSpec("P")

TableArgument = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help="the table's directory: /lake/db.db/flights or s3://bucket/lake/db.db/flights"
    ),
]
PartitionOption = Annotated[
    list[str] | None, typer.Option("--partition", help="only this partition: k=v[,k=v]; may be repeated")
]
MasterOption = Annotated[str | None, typer.Option("--master", help="Spark master, with --spark")]
RemoteOption = Annotated[str | None, typer.Option("--remote", help="Spark Connect address, with --spark")]
NoProgress = Annotated[bool, typer.Option("--no-progress", help="no progress bar on stderr")]


def one_clear_line(command: Callable[P, None]) -> Callable[P, None]:
    """Run a command; an error of lakeidx becomes one line on stderr and exit code 2, without a stack trace."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except LakeIdxError as error:
            typer.echo(f"lakeidx: {' '.join(str(error).split())}", err=True)
            raise typer.Exit(EXIT_ERROR) from None
        except BrokenPipeError:
            # The reader of our output went away (`| head`); that is no error of ours.
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115
            raise typer.Exit(0) from None
        except OSError as error:
            typer.echo(f"lakeidx: {error}", err=True)
            raise typer.Exit(EXIT_ERROR) from None

    return run


def open_table(uri: str) -> TableHandle:
    """Open a table given on the command line."""
    return TableHandle.open(uri)


@contextmanager
def stages(no_progress: bool) -> Iterator[Callable[[str], None]]:
    """A line on stderr that says which stage runs; silent when stderr is no terminal or with --no-progress."""
    console = Console(stderr=True)
    if no_progress or not console.is_terminal:
        yield lambda stage: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda stage: bar.update(task, description=stage)
