"""Context of a command: options, progress on stderr, and turning errors into one clear line."""

from __future__ import annotations

import _thread
import inspect
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer
from rich.console import Console

from lakeidx.errors import BatchHeldError, InvalidInputError, LakeIdxError
from lakeidx.format.paths import with_branch
from lakeidx.tasks.logs import JsonLines
from lakeidx.tasks.runner import THREADS, Runner, make_runner, spark_runner

if TYPE_CHECKING:
    from rich.progress import Progress, Task, TaskID
    from rich.text import Text

    from lakeidx.results import Result

EXIT_FINDINGS = 1
_EXIT_ERROR = 2

R = TypeVar("R")
Report = TypeVar("Report", bound="Result")

TableArgument = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help="the table's directory: /lake/db.db/flights or s3://bucket/lake/db.db/flights"
    ),
]
#: Of commands that are about a table with its branches: they take no ``--branch``.
WholeTableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="the table's directory, with all its branches")
]
BranchOption = Annotated[str | None, typer.Option("--branch", metavar="NAME", help="this branch, as TABLE$branch_NAME")]
PartitionOption = Annotated[
    list[str] | None, typer.Option("--partition", help="only this partition: k=v[,k=v]; may be repeated")
]
MasterOption = Annotated[str | None, typer.Option("--master", help="Spark master, with --spark")]
RemoteOption = Annotated[str | None, typer.Option("--remote", help="Spark Connect address, with --spark")]
SparkOption = Annotated[bool, typer.Option("--spark", help="run on Spark")]
ThreadsOption = Annotated[
    int | None, typer.Option("--threads", min=1, help="parallel tasks without --spark; default 2, of verify one a core")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="show what would be done, change nothing")]
Yes = Annotated[bool, typer.Option("--yes", help="do it without a question")]
JsonOption = Annotated[bool, typer.Option("--json", help="print JSON, also on a terminal")]
OnDeleteOption = Annotated[
    list[str] | None,
    typer.Option(
        "--on-delete",
        help="rows of kind -D and -U: apply (where the table takes them) | reject | ignore | remove; or by kind: -D=remove",
    ),
]
NoProgress = Annotated[bool, typer.Option("--no-progress", help="no progress bar on stderr")]


def added_option(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    """Return an option that a decorator adds to commands."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_BRANCH = added_option("branch", BranchOption)


class _OnTerminal(logging.Handler):
    """Prints the records of a logger on stderr, if that is a terminal at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line."""
        if sys.stderr.isatty():
            typer.echo(f"lakeidx: {record.getMessage()}", err=True)


#: By name: the module itself comes with Numba, which not every command needs.
_compiling = logging.getLogger("lakeidx.codec.jit")
_on_terminal = _OnTerminal()


def _fail(text: str) -> None:
    """Print why a command failed on stderr: a line of the log where this is JSON."""
    if any(isinstance(h.formatter, JsonLines) for h in logging.getLogger("lakeidx").handlers):
        logging.getLogger("lakeidx.cli").error(text)
    else:
        typer.echo(f"lakeidx: {text}", err=True)


def report_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Run a command; an error of lakeidx becomes one line on stderr and exit code 2 (1: a batch is held), without a stack trace.

    A command about a table (`TableArgument`) gets option ``--branch``, which becomes part of the table's name.
    """
    about = inspect.signature(command, eval_str=True).parameters.get("table")
    of_branches = [_BRANCH] if about is not None and about.annotation is TableArgument else []

    @passing_for(command, of_branches)
    def run(**given: Any) -> None:
        _compiling.addHandler(_on_terminal)
        try:
            if (branch := given.pop("branch", None)) is not None:
                given["table"] = with_branch(str(given["table"]), str(branch))
            command(**given)
        except LakeIdxError as error:
            _fail(" ".join(str(error).split()))
            raise typer.Exit(EXIT_FINDINGS if isinstance(error, BatchHeldError) else _EXIT_ERROR) from None
        except BrokenPipeError:
            # The reader of our output went away (`| head`); that is no error of ours.
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115
            raise typer.Exit(0) from None
        except OSError as error:
            _fail(str(error))
            raise typer.Exit(_EXIT_ERROR) from None

    return run


def passing_for(
    command: Callable[..., Any], added: Iterable[inspect.Parameter], *, skipped: int = 0
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Let a function pass for a command: it gets its name and its parameters, but for the first ones, and more behind these."""
    own = inspect.signature(command, eval_str=True)
    joined = [*list(own.parameters.values())[skipped:], *added]

    def named(run: Callable[..., R]) -> Callable[..., R]:
        run = wraps(command)(run)
        run.__signature__ = own.replace(parameters=joined)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in joined}
        return run

    return named


def takes(*makers: Callable[..., object], section: str | None = None) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Give a command, in place of its first parameters, the options of what makes their values, behind its own.

    section   of the help that has them
    """
    read = [inspect.signature(make, eval_str=True).parameters for make in makers]

    def taking(command: Callable[..., R]) -> Callable[..., R]:
        options = [_in_section(p, section) for each in read for p in each.values()]

        @passing_for(command, options, skipped=len(makers))
        def run(*first: Any, **given: Any) -> R:
            made = [make(**{n: given.pop(n) for n in each}) for make, each in zip(makers, read, strict=True)]
            return command(*made, *first, **given)

        return run

    return taking


def _in_section(option: inspect.Parameter, section: str | None) -> inspect.Parameter:
    """Put an option into a section of the help."""
    if section is None:
        return option
    info = copy(option.annotation.__metadata__[0])
    info.rich_help_panel = section
    return option.replace(annotation=Annotated[option.annotation.__origin__, info])


def confirmed(what: str, plan: Result | None, *, yes: bool, dry_run: bool = False) -> bool:
    """Return whether to do what a plan says: not with --dry-run; without --yes who is at the keyboard is shown it, and asked.

    errors   InvalidInputError without --yes where nobody can be asked
    """
    if yes or dry_run:
        return not dry_run
    if plan is not None:
        typer.echo(str(plan), err=True)
    if not sys.stdin.isatty():
        raise InvalidInputError(f"nothing is done yet: --yes does it ({what})")
    return typer.confirm(f"{what}?", abort=True)


def asked(what: str, verb: Callable[..., Report], *, yes: bool, dry_run: bool) -> Report:
    """Run a verb that takes something away once that is `confirmed`; return what it did, or would do."""
    plan = verb(dry_run=True)
    return verb() if confirmed(what, plan, yes=yes, dry_run=dry_run) else plan


class Stages:
    """The bar on stderr: the stage that runs, and where that is known how much of it is done, how fast, and the time left.

    progress   for runners and others that count: called with (done, total); None when nothing is shown, so that nothing counts
    """

    def __init__(self, bar: Progress | None = None, task: TaskID = cast("TaskID", 0)) -> None:
        self._bar, self._task, self._total = bar, task, 0
        self.progress = None if bar is None else self.count

    def __call__(self, stage: str, *, unit: str = "tasks") -> None:
        """Show which stage begins; `unit`: what it counts."""
        if self._bar is not None:
            self._total = 0
            self._bar.reset(self._task, total=None, description=stage, unit=unit)

    def count(self, done: int, total: int) -> None:
        """Show how much of the stage is done; a stage of several parts counts each."""
        if self._bar is None or total < 2:
            return
        if total != self._total:
            self._total = total
            self._bar.reset(self._task, total=total)
        self._bar.update(self._task, completed=done)


@contextmanager
def stages(no_progress: bool) -> Iterator[Stages]:
    """Show on stderr what runs; silent when stderr is no terminal or with --no-progress."""
    console = Console(stderr=True)
    if no_progress or not console.is_terminal:
        yield Stages()
        return
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class Counts(ProgressColumn):
        """Counts, rate and time left, where the total is known."""

        def render(self, task: Task) -> Text:
            if task.total is None:
                return Text("")
            rate, left = task.speed, task.time_remaining
            parts = [f"{int(task.completed):,}/{int(task.total):,} {task.fields['unit']}"]
            parts += [] if not rate else [f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s"]
            parts += [] if left is None else [f"{timedelta(seconds=round(left))} left"]
            return Text("  ".join(parts))

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), Counts(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        yield Stages(bar, bar.add_task("starting", total=None, unit="tasks"))


@dataclass(frozen=True)
class Work:
    """Options of commands that work in tasks: where these run, and whether a bar shows how far they are."""

    spark: SparkOption = False
    master: MasterOption = None
    remote: RemoteOption = None
    threads: ThreadsOption = None
    no_progress: NoProgress = False

    def runner(self, shown: Stages | None = None, *, here: bool = False, usual: int = THREADS) -> Runner:
        """Return the runner.

        shown   where tasks that are done are counted, of work in this process
        here    in this process in any case
        usual   number of threads when none is given
        """
        if self.spark and not here:
            return spark_runner(self.master, self.remote)
        return make_runner(None, threads=self.threads or usual, progress=None if shown is None else shown.progress)


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
