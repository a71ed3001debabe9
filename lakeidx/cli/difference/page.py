"""Differences as one HTML page that loads nothing else."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lakeidx.cli.difference.collect import StateDifference


def render_page(found: StateDifference, *, table: str, before: str, after: str, where: str | None = None) -> str:
    """Render the page; every value in it is escaped.

    table, before, after, where   what was compared, for the heading
    """
    # Autoescape is for all files: the template's name has no ending that jinja knows.
    places = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=places, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page = environment.get_template("page.html.jinja")
    return page.render(found=found, table=table, before=before, after=after, where=where)
