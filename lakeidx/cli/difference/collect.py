"""Counts what differs, keeps the first keys as text, before and after, and shows them: as a table for people, or an HTML page."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lakeidx.data.json_values import json_columns
from lakeidx.table.scan.changes import ChangeCounts, ChangeScan
from lakeidx.table.scan.layout import ROW_KIND


@dataclass(frozen=True, slots=True)
class Cell:
    """A value before and after as text; None where there is none, ``null`` for a null."""

    before: str | None
    after: str | None

    @property
    def changed(self) -> bool:
        """Whether the value is another one."""
        return self.before is not None and self.after is not None and self.before != self.after

    @property
    def text(self) -> str:
        """The value, where it has not changed."""
        return (self.before if self.after is None else self.after) or ""


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """Difference of one key: ``new``, ``changed`` or ``deleted``."""

    what: str
    cells: tuple[Cell, ...]


@dataclass(slots=True)
class StateDifference:
    """Difference between two states.

    keys     the first ones
    counts   of all
    """

    columns: tuple[str, ...]
    keys: list[KeyDifference] = field(default_factory=list)
    counts: ChangeCounts = field(default_factory=ChangeCounts)

    @property
    def left_out(self) -> int:
        """Keys that differ and are not in `keys`; a row whose other side the filter left out counts as one."""
        kinds = self.counts.kinds
        return max(kinds["-U"], kinds["+U"]) + kinds["+I"] + kinds["-D"] - len(self.keys)


def collect(found: ChangeScan, limit: int) -> StateDifference:
    """Read a comparison of two states.

    limit    keys to keep
    memory   these, and what reading needs
    """
    out = StateDifference(found.columns)
    for rows in found.batches():
        out.counts.add(rows, found)
        left = limit - len(out.keys)
        if left > 0:
            # One more, so that the last key's row after it is there.
            out.keys += list(_keys(rows.slice(0, 2 * left + 1)))[:left]
    return out


def _keys(rows: pa.Table) -> Iterator[KeyDifference]:
    """Pair each -U with the +U after it."""
    kinds = rows.column(ROW_KIND).to_pylist()
    values = [[_text(v) for v in column] for column in json_columns(rows.drop_columns([ROW_KIND]))]
    at = 0
    while at < len(kinds):
        paired = kinds[at : at + 2] == ["-U", "+U"]
        yield _key(kinds[at], [column[at : at + 1 + paired] for column in values])
        at += 1 + paired


def _key(kind: str, values: Sequence[Sequence[str]]) -> KeyDifference:
    if kind in ("+I", "+U"):
        return KeyDifference("new" if kind == "+I" else "changed", tuple(Cell(None, v[0]) for v in values))
    if kind == "-D":
        return KeyDifference("deleted", tuple(Cell(v[0], None) for v in values))
    return KeyDifference("changed", tuple(Cell(v[0], v[1] if len(v) > 1 else None) for v in values))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


_MARKS = {"new": ("+", "green"), "changed": ("~", ""), "deleted": ("-", "red")}


def print_difference(found: StateDifference) -> None:
    """Print the keys that were kept, new ones green, deleted ones red, and how many were left out; colours only on a terminal."""
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


def render_page(found: StateDifference, *, table: str, before: str, after: str, where: str | None = None) -> str:
    """Render the page; every value in it is escaped.

    table, before, after, where   what was compared, for the heading
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # Autoescape is for all files: the template's name has no ending that jinja knows.
    places = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=places, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page = environment.get_template("page.html.jinja")
    return page.render(found=found, table=table, before=before, after=after, where=where)
