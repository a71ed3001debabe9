"""Context of a command: options, progress on stderr, and turning errors into one clear line."""

from __future__ import annotations

import _thread
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import Event
from typing import Annotated, ParamSpec

import typer
from rich.console import Console

from lakeidx.api.runners import THREADS, make_runner, spark_runner
from lakeidx.errors import LakeIdxError
from lakeidx.tasks.runner import Runner

EXIT_FINDINGS = 1
_EXIT_ERROR = 2

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
SparkOption = Annotated[bool, typer.Option("--spark", help="run on Spark")]
ThreadsOption = Annotated[int, typer.Option("--threads", min=1, help="number of parallel tasks without --spark")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="show what would be done, change nothing")]
JsonOption = Annotated[bool, typer.Option("--json", help="print JSON, also on a terminal")]
OnDeleteOption = Annotated[
    list[str] | None,
    typer.Option(
        "--on-delete",
        help="rows of kind -D and -U: apply (where the table takes them) | reject | ignore | remove; or by kind: -D=remove",
    ),
]
NoProgress = Annotated[bool, typer.Option("--no-progress", help="no progress bar on stderr")]


class _OnTerminal(logging.Handler):
    """Prints the records of a logger on stderr, if that is a terminal at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line."""
        if sys.stderr.isatty():
            typer.echo(f"lakeidx: {record.getMessage()}", err=True)


#: By name: the module itself comes with Numba, which not every command needs.
_compiling = logging.getLogger("lakeidx.codec.jit")
_on_terminal = _OnTerminal()


def report_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Run a command; an error of lakeidx becomes one line on stderr and exit code 2, without a stack trace."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        _compiling.addHandler(_on_terminal)
        try:
            command(*args, **kwargs)
        except LakeIdxError as error:
            typer.echo(f"lakeidx: {' '.join(str(error).split())}", err=True)
            raise typer.Exit(_EXIT_ERROR) from None
        except BrokenPipeError:
            # The reader of our output went away (`| head`); that is no error of ours.
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115
            raise typer.Exit(0) from None
        except OSError as error:
            typer.echo(f"lakeidx: {error}", err=True)
            raise typer.Exit(_EXIT_ERROR) from None

    return run


def chosen_runner(spark: bool, master: str | None, remote: str | None, threads: int = THREADS) -> Runner:
    """Return the runner for the work of a command."""
    return spark_runner(master, remote) if spark else make_runner(None, threads=threads)


@contextmanager
def stages(no_progress: bool) -> Iterator[Callable[[str], None]]:
    """Show on stderr which stage runs; silent when stderr is no terminal or with --no-progress."""
    console = Console(stderr=True)
    if no_progress or not console.is_terminal:
        yield lambda stage: None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda stage: bar.update(task, description=stage)


@contextmanager
def ended_by_signals() -> Iterator[Event]:
    """Yield an event that SIGINT and SIGTERM set; the second signal ends the process."""
    stop = Event()

    def end(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        # Not here: the main thread, which runs this, may hold the event's lock.
        _thread.start_new_thread(stop.set, ())

    before = {n: signal.signal(n, end) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
