"""Differences as a table for people: new rows green, deleted ones red, changed values ``before → after``."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lakeidx.cli.difference.collect import Cell, StateDifference

_MARKS = {"new": ("+", "green"), "changed": ("~", ""), "deleted": ("-", "red")}


def print_difference(found: StateDifference) -> None:
    """Print the keys that were kept, and how many were left out; colours only on a terminal."""
    table = Table()
    for name in ("", *found.columns):
        table.add_column(name, overflow="fold")
    for key in found.keys:
        mark, style = _MARKS[key.what]
        table.add_row(mark, *(_cell(cell) for cell in key.cells), style=style)
    width = None if sys.stdout.isatty() else 4096
    console = Console(file=sys.stdout, width=width, soft_wrap=width is not None)
    console.print(table, crop=False)
    if found.left_out:
        console.print(Text(f"and {found.left_out} more; --limit shows more of them, --stat counts all"))


def _cell(cell: Cell) -> Text:
    if not cell.changed:
        return Text(cell.text)
    return Text.assemble((cell.before or "", "red"), " → ", (cell.after or "", "green"))
