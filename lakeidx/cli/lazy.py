"""Groups of commands that import a command's module when the command is requested: help is shown without Arrow and Numba."""

from __future__ import annotations

import gc
import json
import sys
from collections import UserDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypedDict

import typer
from typer.core import TyperCommand, TyperGroup

#: What each command says of itself, which `python -m docs.generate` writes: a command's module brings Arrow, most of a second.
HELP = Path(__file__).parent / "help.json"


@dataclass(frozen=True)
class Command:
    """A command that is not imported yet.

    module     module of `lakeidx.cli` that has the command
    function   name of its function there
    help       first paragraph of the function's docstring; lists of commands show it before the module is imported
    """

    module: str
    function: str
    help: str


@dataclass(frozen=True)
class Group:
    """A group of commands.

    help       what lists of commands and the group's own help show
    commands   the commands by name
    default    the command that runs when the first argument is none
    """

    help: str
    commands: Mapping[str, Command | Group]
    default: str | None = None


class Written(TypedDict):
    """What the help of a command is laid out of.

    text       its docstring
    usage      what stands behind its name
    sections   by their title pairs of (how a parameter is written, what it is for)
    """

    text: str
    usage: list[str]
    sections: dict[str, list[list[str]]]


class WrittenHelp(TyperCommand):
    """A command that can only show its help."""

    def __init__(self, name: str, written: Written) -> None:
        super().__init__(name, help=written["text"], rich_markup_mode=None)
        self._written = written

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the arguments shown after the command's name."""
        return list(self._written["usage"])

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the sections of arguments and options."""
        for title, records in self._written["sections"].items():
            with formatter.section(title):
                formatter.write_dl([(record[0], record[1]) for record in records])


def help_of(name: str, entry: Command) -> WrittenHelp | None:
    """Return the help of a command; None when it is not in the file."""
    if not HELP.exists():
        return None
    written = json.loads(HELP.read_text(encoding="utf-8")).get(f"{entry.module}.{entry.function}")
    return None if written is None else WrittenHelp(name, written)


class Commands(UserDict[str, Any]):
    """The commands of a group by name. Getting one imports its module; requesting names does not."""

    def __getitem__(self, name: str) -> Any:
        return build(name, self.data[name])


class LazyGroup(TyperGroup):
    """A group that lists its commands from a table and imports the one that runs."""

    def __init__(self, group: Group, **attrs: Any) -> None:
        super().__init__(**{**attrs, "help": group.help, "commands": None, "no_args_is_help": True})
        self.group = group
        self.commands = Commands(group.commands)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default command, if there is one, before arguments that start with no command."""
        default = self.group.default
        if default and args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [default, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in the order of the table."""
        return list(self.group.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command as help and completion list it: its name and one line; None when there is none."""
        entry = self.group.commands.get(cmd_name)
        return None if entry is None else TyperCommand(cmd_name, help=entry.help, short_help=entry.help)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return (name, command, its arguments) of the command that is called; for more than its help its module is imported."""
        name, _, rest = super().resolve_command(ctx, args)
        if name is None:
            return name, None, rest
        entry = self.group.commands[name]
        if isinstance(entry, Command) and len(rest) == 1 and rest[0] in ctx.help_option_names:
            return name, help_of(name, entry) or self.commands[name], rest
        return name, self.commands[name], rest


def build(name: str, entry: Command | Group) -> Any:
    """Return a command that can run, from its entry in the table."""
    if isinstance(entry, Group):
        return LazyGroup(entry, name=name, rich_markup_mode=None)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    with _nothing_collected():
        # Imports NumPy, which no help needs.
        deferred = import_module("lakeidx.codec.deferred")
        deferred.defer(_nothing_collected)
        function = getattr(import_module(f"lakeidx.cli.{entry.module}"), entry.function)
        # No command needs pandas. Arrow imports it for the first array of a process, which takes as long as a small batch, and
        # decides here that it is not there. It can be imported afterwards; Arrow then converts to pandas as ever.
        with deferred.absent("pandas"):
            if "pyarrow" in sys.modules:
                sys.modules["pyarrow"].array([0])
        alone.command(name)(function)
        return typer.main.get_command(alone)


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Exclude imported modules from garbage collection: they live to the end, and collections took a tenth of the start."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
