"""The file of help that the command line shows without importing its commands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from lakeidx.cli.lazy import HELP, Command, Group, Written, build
from lakeidx.cli.main import COMMANDS, app


def help_file() -> dict[Path, str]:
    """Return the file and its text."""
    program = typer.Context(typer.main.get_command(app), info_name="lakeidx", **app.info.context_settings or {})
    found: dict[str, Written] = {}
    for name, entry in _commands(COMMANDS):
        command = build(name, entry)
        with typer.Context(command, info_name=name, parent=program) as context:
            found[f"{entry.module}.{entry.function}"] = _written(command, context)
    return {HELP: json.dumps(found, indent=1, ensure_ascii=False) + "\n"}


def _commands(entries: Mapping[str, Command | Group]) -> Iterator[tuple[str, Command]]:
    for name, entry in entries.items():
        if isinstance(entry, Group):
            yield from _commands(entry.commands)
        else:
            yield name, entry


def _written(command: Any, context: Any) -> Written:
    """Return what a command's help is laid out of."""
    sections: dict[str, list[list[str]]] = {}
    titles = {"argument": "Arguments", "option": "Options"}
    for kind, title in titles.items():
        of_kind = [p for p in command.get_params(context) if p.param_type_name == kind]
        records = [record for p in of_kind if (record := p.get_help_record(context)) is not None]
        if records:
            sections[title] = [list(record) for record in records]
    return {"text": command.help, "usage": command.collect_usage_pieces(context), "sections": sections}
