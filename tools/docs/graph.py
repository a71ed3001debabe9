"""Lay a layered graph out: the order of nodes in each row with few crossings, then their places.

Long edges get a point in every row they pass, so that they are ordered like nodes (the method of Sugiyama, Tagawa and Toda).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Edge = tuple[str, str]
#: A node, or the point of an edge in a row it passes.
Point = str | tuple[str, str, int]


@dataclass(frozen=True)
class Layout:
    """Places of a drawing.

    rows    points of each row, from left to right
    x       centre of each point; the leftmost box begins at 0
    width   of the whole
    paths   the points of each edge, from top to bottom
    """

    rows: list[list[Point]]
    x: dict[Point, float]
    width: float
    paths: dict[Edge, list[Point]]


def lay_out(rows: Sequence[Sequence[str]], edges: Sequence[Edge], *, width: float, node: float, gap: float) -> Layout:
    """Place nodes of a given width (and edges of width `gap`) in a drawing about `width` wide."""
    row_of = {name: i for i, names in enumerate(rows) for name in names}
    points: list[list[Point]] = [list(names) for names in rows]
    paths: dict[Edge, list[Point]] = {}
    for a, b in edges:
        between: list[Point] = [(a, b, i) for i in range(row_of[a] + 1, row_of[b])]
        for i, point in enumerate(between, row_of[a] + 1):
            points[i].append(point)
        paths[a, b] = [a, *between, b]
    up, down = _neighbours(paths)
    ordered = _ordered(points, up, down)
    size = {p: node if isinstance(p, str) else gap for row in ordered for p in row}
    x = _places(ordered, size, up, down, width, gap)
    return Layout(ordered, x, max(x[p] + size[p] / 2 for p in x), paths)


def _neighbours(paths: dict[Edge, list[Point]]) -> tuple[dict[Point, list[Point]], dict[Point, list[Point]]]:
    """Return (neighbours above, neighbours below) of each point."""
    up: dict[Point, list[Point]] = {}
    down: dict[Point, list[Point]] = {}
    for path in paths.values():
        for above, below in pairwise(path):
            down.setdefault(above, []).append(below)
            up.setdefault(below, []).append(above)
    return up, down


def _ordered(
    rows: list[list[Point]], up: dict[Point, list[Point]], down: dict[Point, list[Point]]
) -> list[list[Point]]:
    """Order the rows as best as sweeping down and up finds."""
    best, fewest = rows, _crossings(rows, down)
    for sweep in range(40):
        towards, order = (up, rows) if sweep % 2 == 0 else (down, rows[::-1])
        place: dict[Point, float] = {p: i for row in rows for i, p in enumerate(row)}
        for row in order:
            wanted = {p: _mean([place[n] for n in towards.get(p, ())], place[p]) for p in row}
            row.sort(key=lambda p: (wanted[p], str(p)))
            place.update({p: i for i, p in enumerate(row)})
        count = _crossings(rows, down)
        if count < fewest:
            best, fewest = [list(row) for row in rows], count
    return best


def _crossings(rows: list[list[Point]], down: dict[Point, list[Point]]) -> int:
    """Count the pairs of edges that cross."""
    place = {p: i for row in rows for i, p in enumerate(row)}
    total = 0
    for row in rows:
        ends = [(i, place[b]) for i, a in enumerate(row) for b in down.get(a, ())]
        total += sum(1 for a in ends for b in ends if a[0] < b[0] and a[1] > b[1])
    return total


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _places(
    rows: list[list[Point]],
    size: dict[Point, float],
    up: dict[Point, list[Point]],
    down: dict[Point, list[Point]],
    width: float,
    gap: float,
) -> dict[Point, float]:
    """Return the centres: pulled towards the neighbours, kept in order and apart."""
    x = {p: (i + 1) * width / (len(row) + 1) for row in rows for i, p in enumerate(row)}
    for turn in range(200):
        for row in rows if turn % 2 == 0 else rows[::-1]:
            for p in row:
                x[p] = _wanted(p, x, [*up.get(p, ()), *down.get(p, ())], width / 2)
            _push_apart(row, x, size, gap)
    left = min(x[p] - size[p] / 2 for p in x)
    return {p: x[p] - left for p in x}


def _wanted(point: Point, x: dict[Point, float], neighbours: Sequence[Point], middle: float) -> float:
    """Return where the neighbours pull a point; parts of one long edge pull harder, so that it is straight, the middle a little."""
    weights = [1 if isinstance(point, str) or isinstance(n, str) else 8 for n in neighbours]
    pulls: list[tuple[float, float]] = [(w, x[n]) for w, n in zip(weights, neighbours, strict=True)]
    pulls.append((0.6 if isinstance(point, str) else 0.1, middle))
    return sum(w * at for w, at in pulls) / sum(w for w, _ in pulls)


def _push_apart(row: list[Point], x: dict[Point, float], size: dict[Point, float], gap: float) -> None:
    """Separate overlapping points, each pair by moving both, until none overlap."""
    for _ in range(50):
        moved = False
        for a, b in pairwise(row):
            lack = x[a] + size[a] / 2 + gap + size[b] / 2 - x[b]
            if lack > 1e-6:
                x[a], x[b], moved = x[a] - lack / 2, x[b] + lack / 2, True
        if not moved:
            return
