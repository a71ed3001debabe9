"""Groups of commands that import a command's module when the command is requested: lists of commands need no Arrow."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


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

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return (name, command, its arguments) of the command that is called, whose module is imported."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else self.commands[name], rest

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command as help and completion list it: its name and one line; None when there is none."""
        entry = self.group.commands.get(cmd_name)
        return None if entry is None else TyperCommand(cmd_name, help=entry.help, short_help=entry.help)


def build(name: str, entry: Command | Group) -> Any:
    """Return a command that can run, from its entry in the table."""
    if isinstance(entry, Group):
        return LazyGroup(entry, name=name, rich_markup_mode=None)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name)(getattr(import_module(f"lakeidx.cli.{entry.module}"), entry.function))
    return typer.main.get_command(alone)
