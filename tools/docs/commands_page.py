"""The reference page of the command line: every command with its arguments and options, from the program itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import typer

from lakeidx.cli.main import app
from tools.docs.docstrings import cell, markdown, table


def commands_page() -> str:
    """Return the page as Markdown."""
    parts = [
        "# Commands",
        "TABLE is a directory or an `s3://` URI. Data goes to stdout, progress and logs to stderr. Exit code 0: done; 1: findings, "
        "or rows rejected with `--strict`; 2: wrong usage, or an error, in one line.",
    ]
    for name, command in commands("lakeidx", typer.main.get_command(app)):
        parts += [f"## {name}", markdown(inspect.cleandoc(command.help or ""))]
        parts.append(f"```text\n{_usage(name, command)}\n```")
        if command.examples:
            parts.append(f"```text\n{inspect.cleandoc(command.examples)}\n```")
        kinds = get_type_hints(command.callback)
        rows = [_row(p, kinds.get(p.name)) for p in command.params if p.name != "help" and not p.hidden]
        if rows:
            parts.append(table(("parameter", "type", "default", "meaning"), rows))
    return "\n\n".join(p for p in parts if p) + "\n"


def commands(prefix: str, group: Any) -> Iterator[tuple[str, Any]]:
    """List (full name, command) of every command that does something, by name."""
    for name, command in sorted(group.commands.items()):
        if getattr(command, "hidden", False):
            continue
        if hasattr(command, "commands"):
            yield from commands(f"{prefix} {name}", command)
        else:
            yield f"{prefix} {name}", command


def _usage(name: str, command: Any) -> str:
    arguments = [_argument(p) for p in command.params if p.param_type_name == "argument"]
    return " ".join((name, "[OPTIONS]", *arguments))


def _argument(parameter: Any) -> str:
    name = str(parameter.metavar or parameter.name).upper().strip("{}[].")
    return name + ("..." if parameter.nargs != 1 else "")


def _row(parameter: Any, kind: Any) -> tuple[str, str, str, str]:
    if parameter.param_type_name == "argument":
        name = f"`{_argument(parameter)}`"
    else:
        name = ", ".join(f"`{o}`" for o in (*parameter.opts, *parameter.secondary_opts))
    default = parameter.default() if callable(parameter.default) else parameter.default
    shown = "required" if parameter.required else "none" if default in (None, (), [], "") else f"`{_plain(default)}`"
    flag = getattr(parameter, "is_flag", False)
    return (
        name,
        "flag" if flag else cell(_kind(kind)),
        "off" if flag and default is False else shown,
        cell(parameter.help or ""),
    )


def _plain(value: Any) -> str:
    value = getattr(value, "value", value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kind(kind: Any) -> str:
    """Return a type in words; None among alternatives says that the option may be left out."""
    words = {str: "text", int: "integer", float: "number", Path: "path", bool: "flag"}
    if kind in words:
        return words[kind]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " | ".join(str(choice.value) for choice in kind)
    inner = [_kind(a) for a in get_args(kind) if a is not type(None)]
    if get_origin(kind) is Literal:
        return " | ".join(map(str, get_args(kind)))
    return f"{inner[0]}, several times" if get_origin(kind) in (list, tuple) else " or ".join(inner)
