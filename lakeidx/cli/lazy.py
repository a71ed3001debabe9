"""Groups of commands that import a command's module when the command is requested: lists of commands need no Arrow."""

from __future__ import annotations

import ast
import inspect
from collections import UserDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


@dataclass(frozen=True)
class Command:
    """A command that is not imported yet.

    module     module of `lakeidx.cli` that has the command
    function   name of its function there
    """

    module: str
    function: str

    @property
    def help(self) -> str:
        """First paragraph of the function's docstring: lists of commands show it, and import nothing."""
        return _helps(self.module)[self.function]


@cache
def _helps(module: str) -> dict[str, str]:
    """Read the first paragraphs of the docstrings in a module's text."""
    file = Path(__file__).parent.joinpath(*module.split(".")).with_suffix(".py")
    found = (f for f in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(f, ast.FunctionDef))
    return {f.name: " ".join((ast.get_docstring(f) or "").partition("\n\n")[0].split()) for f in found}


@dataclass(frozen=True)
class Group:
    """A group of commands.

    help       what lists of commands and the group's own help show
    commands   the commands by name
    default    the command that runs when the first argument is none
    sections   commands by what they are for, as the help lists them; without any they are one list
    """

    help: str
    commands: Mapping[str, Command | Group]
    default: str | None = None
    sections: Mapping[str, Sequence[str]] = field(default_factory=dict)


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

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line: options of the program are few, and stand in the help."""
        return [self.subcommand_metavar]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by section, each with the first sentence of its help."""
        width = max(map(len, self.group.commands))
        placed = {name for names in self.group.sections.values() for name in names}
        rest = [name for name in self.list_commands(ctx) if name not in placed]
        for title, names in {**self.group.sections, **({"Commands": rest} if rest else {})}.items():
            with formatter.section(title):
                rows = [(n.ljust(width), self.get_command(ctx, n).get_short_help_str(formatter.width)) for n in names]
                formatter.write_dl(rows)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command as help and completion list it: its name and one line; None when there is none."""
        entry = self.group.commands.get(cmd_name)
        return None if entry is None else TyperCommand(cmd_name, help=entry.help, short_help=entry.help)


class HelpfulCommand(TyperCommand):
    """A command whose help shows options by what they are for, values as other programs name them, and examples.

    Examples are the section ``Examples:`` of the docstring.
    """

    def __init__(self, *arguments: Any, **attrs: Any) -> None:
        text, _, self.examples = inspect.cleandoc(attrs.pop("help") or "").partition("\n\nExamples:\n")
        super().__init__(*arguments, help=text, **attrs)
        for param in self.params:
            param.metavar = param.metavar or _metavar(param)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line."""
        arguments = [p for p in self.params if p.param_type_name == "argument"]
        return ["[OPTIONS]", *(n if p.required else f"[{n}]" for p in arguments if (n := str(p.metavar).strip("[]")))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, those that have a section below it."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            if param.param_type_name == "argument":
                sections["Arguments"].append((str(param.metavar), record[1]))
            else:
                title = getattr(param, "rich_help_panel", None) or _SECTION_OF.get(str(param.name)) or "Options"
                sections.setdefault(title, []).append(record)
        last = sections.pop(_OUTPUT, None)
        for title, records in [*sections.items(), *([(_OUTPUT, last)] if last else [])]:
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples."""
        if self.examples:
            with formatter.section("Examples"):
                indent = " " * formatter.current_indent
                formatter.write("".join(f"{indent}{line}\n" for line in inspect.cleandoc(self.examples).splitlines()))

    def get_usage(self, ctx: Any) -> str:
        """Return what stands above an error of usage: the usage line, and an example that is right."""
        example = inspect.cleandoc(self.examples).partition("\n")[0]
        return super().get_usage(ctx) + (f"\nExample: {example}" if example else "")


_WORK, _OUTPUT = "Where it runs", "Output"
#: Options of many commands, by name, and their section in the help.
_SECTION_OF = {
    **dict.fromkeys(("spark", "master", "remote", "threads"), _WORK),
    **dict.fromkeys(("row_format", "list_format", "output", "as_json", "no_progress", "help"), _OUTPUT),
}
#: Names of values, by the option's name; of others their type tells.
_METAVARS = {
    **dict.fromkeys(("where",), "CONDITION"), **dict.fromkeys(("columns",), "NAME,..."),
    **dict.fromkeys(("keys", "rows", "output", "schema"), "FILE"), **dict.fromkeys(("every", "settle"), "SECONDS"),
    **dict.fromkeys(("snapshot", "batch", "batch_id", "consumer", "id"), "ID"), **dict.fromkeys(("tag", "op_column"), "NAME"),
    **dict.fromkeys(("master", "remote"), "URL"), **dict.fromkeys(("older_than", "retain", "retain_time"), "TIME"),
    "partition": "KEY=VALUE,...", "pattern": "GLOB", "start": "STATE", "delimiter": "CHARACTER", "target_size": "SIZE",
    "max_rejected": "N|N%", "op_value": "TEXT=KIND", "landing_option": "NAME=VALUE", "order": "FIELD", "source": "TABLE",
    "on_delete": "ACTION", "limits": "KIND=BOUND", "file_format": "FORMAT", "index_type": "TYPE",
}  # fmt: skip
_OF_TYPES = {int: "N", float: "NUMBER", str: "TEXT"}


def _metavar(param: Any) -> str | None:
    """Return how the value of a parameter is named in the help; None for a flag."""
    if param.param_type_name == "argument":
        return str(param.name).upper() + ("..." if param.nargs != 1 else "")
    if param.is_flag:
        return None
    kind = param.type_descriptor
    if kind.is_choice:
        return "|".join(str(getattr(choice, "value", choice)) for choice in kind.choices or ())
    return _METAVARS.get(str(param.name)) or _OF_TYPES.get(kind.annotation, "TEXT")


def build(name: str, entry: Command | Group) -> Any:
    """Return a command that can run, from its entry in the table."""
    if isinstance(entry, Group):
        return LazyGroup(entry, name=name, rich_markup_mode=None)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    found = getattr(import_module(f"lakeidx.cli.{entry.module}"), entry.function)
    alone.command(name, cls=HelpfulCommand)(found)
    return typer.main.get_command(alone)
