"""Figures of a benchmark as lines of JSON, or as one table for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table


def tell(title: str, figures: Iterable[Any], *, as_json: bool) -> None:
    """Print figures, mappings or dataclasses: one JSON object per line, each when it is known; or a table of all."""
    told = (figure if isinstance(figure, Mapping) else asdict(figure) for figure in figures)
    if not as_json:
        show(Console(width=None if sys.stdout.isatty() else 200), title, list(told))
        return
    for figure in told:
        print(json.dumps(figure), flush=True)


def show(console: Console, title: str, figures: Sequence[Mapping[str, Any]]) -> None:
    """Print a table with the columns that any figure has."""
    columns = [
        name
        for name in dict.fromkeys(k for figure in figures for k in figure)
        if any(figure.get(name) is not None and not isinstance(figure[name], (list, dict)) for figure in figures)
    ]
    view = Table(*(name.replace("_", " ") for name in columns), title=title, title_justify="left")
    for figure in figures:
        view.add_row(*(_shown(figure.get(name)) for name in columns))
    console.print(view)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)
