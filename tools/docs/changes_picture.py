"""Draw the way of a change from a database to its readers as SVG; formats, stages, assets and verbs are named by the code."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

from lakeidx.api.table import Table
from lakeidx.landing.changes import change_formats
from lakeidx.quality.changelog_agrees import check_changelog_agrees
from tools.docs.layer_picture import wrapped

_BOX, _GAP, _HEIGHT, _BETWEEN, _TOP, _LEFT = 214, 36, 92, 44, 40, 20
_STYLE = (
    ".box{fill:#eef3fb;stroke:#3b6fb6;stroke-width:1.5}.outer{fill:#fdf3e7;stroke:#c77d22;stroke-width:1.5}"
    ".store{fill:#eef8f0;stroke:#3d8f5a;stroke-width:1.5}.t{font-weight:bold;text-anchor:middle}"
    ".s{font-size:12px;fill:#445;text-anchor:middle}.n{font-size:12px;fill:#445}"
    ".l{stroke:#667;stroke-width:1.5;fill:none;marker-end:url(#a)}"
)


class Box(NamedTuple):
    """A box: its title, what happens there, and its kind."""

    title: str
    text: str
    kind: str = "box"


def _rows() -> list[list[Box]]:
    # Here, as it imports Dagster: only one of the processes that collect tests draws.
    from lakeidx.dagster.names import CHANGES, COMPACTION, STAGES

    does = (
        "rows with kinds; source order into sequence.field; new columns by merge_schema; bad lines aside",
        "the bucket of every key",
        "data files of level 0, with -D rows for deletes; with producer input the changelog",
        "one snapshot a batch, once",
    )
    check = check_changelog_agrees.__name__.removeprefix("check_")
    return [
        [
            Box("database", "inserts, updates, deletes, in transactions", "outer"),
            Box("capture tool", ", ".join(change_formats()) + ", op_column", "outer"),
            Box("landing files", "messages or rows; a file may come late, or twice", "store"),
        ],
        [Box(name, text) for name, text in zip(STAGES, does, strict=True)],
        [
            Box("table", "every key once, its data files in levels", "store"),
            Box(COMPACTION, "levels are merged; producers lookup and full-compaction write what changed"),
            Box("changelog", "+I -U +U -D of each snapshot, kept for consumers and by changelog.*", "store"),
            Box(check, "check of each batch: state before + changelog = state after"),
        ],
        [
            Box(f"Table.{Table.scan.__name__}", "the rows of any state; Java, Flink, Trino read them, too", "outer"),
            Box(
                f"Table.{Table.follow.__name__}, tail",
                "steps in order, consumer kept; into another table, each once",
                "outer",
            ),
            Box("Spark readStream", "row kinds, exactly once by its checkpoint", "outer"),
            Box(f"asset {CHANGES}", "in Dagster: a file and a materialization per commit", "outer"),
        ],
    ]


def changes_picture() -> str:
    """Return the picture: each row goes from left to right, and each leads to the one below."""
    rows = _rows()
    width = 2 * _LEFT + 4 * _BOX + 3 * _GAP
    height = _TOP + len(rows) * (_HEIGHT + _BETWEEN)
    body = [_box(r, c, box) for r, row in enumerate(rows) for c, box in enumerate(row)]
    # A row of the readers is no way from one to the next.
    body += [_right(r, c) for r, row in enumerate(rows[:-1]) for c in range(len(row) - 1)]
    body += [_down(r, len(rows[r]) - 1, 0) for r in range(2)]
    body += [_down(2, 0, 0), *(_down(2, 2, c) for c in (1, 2, 3))]
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            ' font-family="Helvetica, Arial, sans-serif" font-size="13">',
            '<defs><marker id="a" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="6" markerHeight="6" orient="auto">'
            f'<path d="M0 0L10 5L0 10z" fill="#667"/></marker><style>{_STYLE}</style></defs>',
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            f'<text x="{_LEFT}" y="24" class="n">A change from a database to its readers. Made by python -m tools.docs.</text>',
            *body,
            "</svg>\n",
        )
    )


def _place(row: int, column: int) -> tuple[int, int]:
    return _LEFT + column * (_BOX + _GAP), _TOP + row * (_HEIGHT + _BETWEEN)


def _box(row: int, column: int, box: Box) -> str:
    x, y = _place(row, column)
    middle = x + _BOX // 2
    lines = "".join(
        f'<text x="{middle}" y="{y + 40 + 15 * i}" class="s">{escape(line)}</text>'
        for i, line in enumerate(wrapped(box.text, 34))
    )
    return (
        f'<rect x="{x}" y="{y}" width="{_BOX}" height="{_HEIGHT}" rx="8" class="{box.kind}"/>'
        f'<text x="{middle}" y="{y + 20}" class="t">{escape(box.title)}</text>{lines}'
    )


def _right(row: int, column: int) -> str:
    x, y = _place(row, column)
    return f'<path d="M{x + _BOX} {y + _HEIGHT // 2}H{x + _BOX + _GAP}" class="l"/>'


def _down(row: int, column: int, to: int) -> str:
    """Draw an arrow from a box down to one of the next row, around the others in the space between."""
    x, y = _place(row, column)
    goal, below = _place(row + 1, to)
    bend = y + _HEIGHT + _BETWEEN // 2
    return f'<path d="M{x + _BOX // 2} {y + _HEIGHT}V{bend}H{goal + _BOX // 2}V{below}" class="l"/>'
