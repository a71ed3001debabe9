"""Draw the layers of the code as SVG: packages by layer, and the imports between them."""

from __future__ import annotations

from html import escape
from itertools import pairwise

from tests.arch.test_layers import LAYERS
from tools.docs.graph import Layout, Point, lay_out
from tools.docs.layers import PAGE, import_edges, layer_texts, reduced, rows

LEFT, WIDTH, RIGHT, ROW, BOX, HEIGHT, TOP = 40, 700, 320, 62, 148, 32, 64
_STYLE = (
    ".band{fill:#f5f7fa}.box{fill:#eef3fb;stroke:#3b6fb6;stroke-width:1.5}.outer{fill:#fdf3e7;stroke:#c77d22;stroke-width:1.5}"
    ".t{font-weight:bold;text-anchor:middle}.s{font-size:12px;fill:#445}.n{font-size:12px;fill:#778;text-anchor:middle}"
    ".l{stroke:#667;stroke-width:1.3;fill:none;marker-end:url(#a)}"
)


def layer_picture() -> str:
    """Return the picture of `LAYERS` and of the imports as they are; the test kit, which may import everything, is left out."""
    layers = {name: layer for name, layer in LAYERS.items() if name != "lakeidx.testing"}
    edges = [(a, b) for a, b in import_edges() if a in layers and b in layers]
    levels = rows(layers, edges)
    kept = reduced(edges)
    layout = lay_out([names for _, names in levels], kept, width=WIDTH, node=BOX, gap=14)
    height = TOP + ROW * len(levels) + 10
    texts = layer_texts(PAGE.read_text(encoding="utf-8"))
    body = [_band(layout, i, levels, texts) for i in range(len(levels))]
    body += [_line(layout, path) for path in layout.paths.values()]
    body += [_box(layout, i, name) for i, (_, names) in enumerate(levels) for name in names]
    total = round(LEFT + layout.width + RIGHT)
    title = "An arrow is an import; arrows that others imply are left out. Every arrow points down."
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height}"'
            ' font-family="Helvetica, Arial, sans-serif" font-size="13">',
            '<defs><marker id="a" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="6" markerHeight="6" orient="auto">'
            f'<path d="M0 0L10 5L0 10z" fill="#667"/></marker><style>{_STYLE}</style></defs>',
            f'<rect width="{total}" height="{height}" fill="#fff"/>',
            f'<text x="{LEFT}" y="24" class="s">{escape(title)}</text>',
            f'<text x="{LEFT}" y="44" class="s">Made by python -m tools.docs from tests/arch and the imports.</text>',
            *body,
            "</svg>\n",
        )
    )


def _top(row: int) -> float:
    return TOP + row * ROW


def _band(layout: Layout, row: int, levels: list[tuple[int, list[str]]], texts: dict[int, tuple[set[str], str]]) -> str:
    """Return the background of a row; the first row of a layer carries its number and what it is for."""
    layer = levels[row][0]
    right = LEFT + layout.width
    first = row == 0 or levels[row - 1][0] != layer
    y, middle = _top(row), _top(row) + ROW / 2
    out = f'<rect x="0" y="{y}" width="{right + RIGHT:.0f}" height="{ROW}" class="band"/>' if layer % 2 else ""
    if first:
        out += f'<text x="20" y="{middle + 4}" class="n">{layer}</text>'
        for i, part in enumerate(wrapped(texts[layer][1], 42)):
            out += f'<text x="{right + 24:.0f}" y="{middle - 2 + 15 * i}" class="s">{escape(part)}</text>'
    return out


def wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a text, none wider than so many characters."""
    lines = [""]
    for word in text.replace("`", "").split():
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _box(layout: Layout, row: int, name: str) -> str:
    x, y = LEFT + layout.x[name] - BOX / 2, _top(row) + (ROW - HEIGHT) / 2
    kind = "box" if name.startswith("lakeidx") else "outer"
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{BOX}" height="{HEIGHT}" rx="7" class="{kind}"/>'
        f'<text x="{x + BOX / 2:.1f}" y="{y + 21:.1f}" class="t">{name.removeprefix("lakeidx.")}</text>'
    )


def _line(layout: Layout, path: list[Point]) -> str:
    """Draw an edge from the bottom of a box through the rows between to the top of another box."""
    row_of = {p: i for i, row in enumerate(layout.rows) for p in row}
    spots = []
    for i, point in enumerate(path):
        middle = _top(row_of[point]) + ROW / 2
        y = middle + HEIGHT / 2 if i == 0 else middle - HEIGHT / 2 if i == len(path) - 1 else middle
        spots.append((LEFT + layout.x[point], y))
    d = f"M{spots[0][0]:.1f} {spots[0][1]:.1f}"
    for (x1, y1), (x2, y2) in pairwise(spots):
        middle = (y1 + y2) / 2
        d += f"C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2:.1f}"
    return f'<path d="{d}" class="l"/>'
