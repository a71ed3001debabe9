"""Pictures of a table as Markdown with an image inside, which Dagster shows in the metadata of an asset."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from html import escape
from typing import Any

import dagster as dg
import numpy as np
from numpy.typing import NDArray

_WIDTH, _HEIGHT = 720, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 79.0, 648.0, 34.0, 232.0
#: Characters that fit side by side below a picture.
_LABEL_CHARACTERS = 100
_LONGEST_LABEL = 40
_TICKS = 5
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
#: Bars that can be distinguished; beyond that neighbours are put together.
_MAX_BARS = 60
#: Snapshots that a history has room for at least: bars of a young table should not look like walls.
_LEAST_SNAPSHOTS = 8
_BLUE, _GREY, _DIM, _RED, _GREEN = "#3b6fb6", "#b8c0cc", "#777777", "#c0392b", "#2e8b57"
#: Of the lowest and the highest level.
_LIGHT, _DARK = (190, 205, 227), (52, 99, 168)


class Chart:
    """A picture of slots side by side, with a scale on the left; `svg` gives it.

    slots    places for bars
    values   what the scale has to show, beside 0
    """

    def __init__(self, title: str, slots: int, values: Iterable[float], *, x: str, y: str) -> None:
        self._slot = (_RIGHT - _LEFT) / max(1, slots)
        self._ticks = ticks([0, *values])
        self._parts: list[str] = []
        for tick in self._ticks:
            self._line(_LEFT, self._y(tick), _RIGHT, self._y(tick), "#e6e9ee" if tick else "#555555")
            self._text(_LEFT - 6, self._y(tick) + 4, short(tick), anchor="end")
        self._text(_LEFT, 20, title, size=14, anchor="start")
        self._text((_LEFT + _RIGHT) / 2, _HEIGHT - 10, x)
        self._text(18, (_TOP + _BOTTOM) / 2, y, turned=True)

    def bars(
        self, values: Sequence[float], colors: Sequence[str], *, width: float = 0.8, bottoms: Sequence[float] = ()
    ) -> None:
        """Draw a bar in each slot; one of a few colours each, and from 0 where no bottom is said."""
        paths: dict[str, list[str]] = {}
        for i, (value, color) in enumerate(zip(values, colors, strict=True)):
            low = bottoms[i] if bottoms else 0
            if value:
                left = _LEFT + self._slot * (i + (1 - width) / 2)
                top, height = self._y(low + value), self._y(low) - self._y(low + value)
                paths.setdefault(color, []).append(
                    f"M{left:.1f} {top:.1f}h{self._slot * width:.1f}v{height:.1f}h{-self._slot * width:.1f}z"
                )
        self._parts += [f'<path fill="{color}" d="{"".join(found)}"/>' for color, found in paths.items()]

    def level(self, value: float, color: str, name: str = "") -> None:
        """Draw a line at a value, from side to side; dashed when it has a name."""
        self._line(_LEFT, self._y(value), _RIGHT, self._y(value), color, dashed=bool(name))
        self._text(_RIGHT + 6, self._y(value) + 4, name, anchor="start")

    def curve(self, values: Sequence[float], color: str, name: str) -> None:
        """Draw a line through the middle of the slots, with a scale of its own on the right."""
        scale = ticks([0, *values])
        for tick in scale:
            self._text(_RIGHT + 6, _height(tick, scale) + 4, short(tick), anchor="start", color=color)
        self._text(_WIDTH - 14, (_TOP + _BOTTOM) / 2, name, color=color, turned=True)
        points = [(_LEFT + self._slot * (i + 0.5), _height(v, scale)) for i, v in enumerate(values)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(f'<polyline fill="none" stroke="{color}" stroke-width="1.5" points="{line}"/>')
        self._parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{color}"/>' for x, y in points]

    def labels(self, names: Sequence[str]) -> None:
        """Name the slots, as many as there is room for."""
        widest = min(max((len(n) for n in names), default=0), _LONGEST_LABEL)
        for i in range(0, len(names), max(1, -(-len(names) * (widest + 3) // _LABEL_CHARACTERS))):
            # Names end with what tells neighbours from one another.
            name = names[i] if len(names[i]) <= _LONGEST_LABEL else "…" + names[i][1 - _LONGEST_LABEL :]
            self._text(_LEFT + self._slot * (i + 0.5), _BOTTOM + 15, name, size=10)

    def legend(self, names: Sequence[str], colors: Sequence[str]) -> None:
        """Name colours, above the picture on the right."""
        for i, (name, color) in enumerate(zip(names, colors, strict=True)):
            x = _RIGHT - 62 * (len(names) - i)
            self._parts.append(f'<rect x="{x:.1f}" y="11" width="10" height="10" fill="{color}"/>')
            self._text(x + 14, 20, name, size=10, anchor="start")

    def svg(self) -> str:
        """Return the picture."""
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
        parts = "".join(self._parts)
        return (
            f'{head} font-family="sans-serif"><rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>{parts}</svg>'
        )

    def _y(self, value: float) -> float:
        return _height(value, self._ticks)

    def _line(self, x: float, y: float, to_x: float, to_y: float, color: str, *, dashed: bool = False) -> None:
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(f'<path stroke="{color}" d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}"{dashes}/>')

    def _text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: int = 11,
        anchor: str = "middle",
        color: str = "#444444",
        turned: bool = False,
    ) -> None:
        if text:
            # Control characters are no part of XML.
            shown = escape("".join(c if c.isprintable() else "\ufffd" for c in text))
            turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
            self._parts.append(
                f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{color}"{turn}>{shown}</text>'
            )


def _height(value: float, scale: Sequence[float]) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * (value - scale[0]) / (scale[-1] - scale[0])


def ticks(values: Sequence[float]) -> list[float]:
    """Return round numbers at equal distances, whole ones, that enclose the values."""
    low, high = min(values), max(values)
    rough = max((high - low) / _TICKS, 1)
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough)
    first, last = math.floor(low / step), max(math.ceil(high / step), math.floor(low / step) + 1)
    return [float(step * i) for i in range(first, last + 1)]


def short(value: float) -> str:
    """Return a number as an axis shows it: 600k, 1.5M."""
    for size, unit in _UNITS:
        if abs(value) >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:g}"


def _picture(chart: Chart, *, alt: str) -> Any:
    text = base64.b64encode(chart.svg().encode("utf-8", "replace")).decode()
    return dg.MetadataValue.md(f"![{alt}](data:image/svg+xml;base64,{text})")


def rows_per_bucket(rows: Mapping[str, int], target: int) -> Any:
    """Plot the rows (index hashes) of each bucket beside dynamic-bucket.target-row-num; `rows` is by the bucket's name."""
    shown, labels = _thin(np.array(list(rows.values()), dtype=np.int64), list(rows), np.max)
    chart = Chart("Rows per bucket against target", len(shown), [*shown, target], x=_bucket_axis(rows), y="rows")
    chart.bars(shown, [_RED if v > target else _BLUE for v in shown])
    chart.level(target, _DIM, "target")
    chart.labels(labels)
    return _picture(chart, alt="rows per bucket")


def levels_per_bucket(levels: Mapping[str, Mapping[int, int]]) -> Any:
    """Draw the data files of each bucket by level, stacked: `levels` is bucket name -> level -> files."""
    names = list(levels)
    present = sorted({level for files in levels.values() for level in files})
    stacks, labels = [np.zeros(min(len(names), _MAX_BARS))], list[str]()
    for level in present:
        shown, labels = _thin(np.array([levels[n].get(level, 0) for n in names], dtype=np.int64), names, np.max)
        stacks.append(stacks[-1] + shown)
    chart = Chart("Data files per bucket and level", len(labels), stacks[-1], x=_bucket_axis(names), y="files")
    colors = [_shade(i / max(1, len(present) - 1)) for i in range(len(present))]
    for below, top, color in zip(stacks, stacks[1:], colors, strict=False):
        chart.bars((top - below).tolist(), [color] * len(labels), bottoms=below.tolist())
    chart.labels(labels)
    chart.legend([f"level {level}" for level in present], colors)
    return _picture(chart, alt="levels per bucket")


def hash_distribution(counts: Sequence[int]) -> Any:
    """Plot how evenly key hashes fill the 32-bit space.

    counts   hashes in equal parts of it; a line shows what every part should have
    """
    axis = f"key hash, {len(counts)} equal ranges of the 32-bit space"
    chart = Chart("Distribution of key hashes", len(counts), counts, x=axis, y="keys")
    chart.bars(counts, [_BLUE] * len(counts), width=1.0)
    chart.level(sum(counts) / len(counts), _RED)
    return _picture(chart, alt="hash distribution")


def batch_history(ids: Sequence[int], deltas: Sequence[int], totals: Sequence[int]) -> Any:
    """Plot the rows each snapshot added (bars) and the sum of rows in data files (line)."""
    chart = Chart("Batch history", max(len(ids), _LEAST_SNAPSHOTS), deltas, x="snapshot", y="rows added")
    chart.bars(deltas, [_GREEN if d >= 0 else _GREY for d in deltas])
    chart.labels([str(i) for i in ids])
    chart.curve(totals, _BLUE, "rows in files")
    return _picture(chart, alt="batch history")


def _shade(share: float) -> str:
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(_LIGHT, _DARK, strict=True))


def _thin(
    values: NDArray[Any], names: Sequence[str], combine: Callable[[NDArray[Any]], Any]
) -> tuple[list[int], list[str]]:
    if len(values) <= _MAX_BARS:
        return values.tolist(), list(names)
    parts = np.array_split(np.arange(len(values)), _MAX_BARS)
    return [int(combine(values[p])) for p in parts], [names[p[0]] for p in parts]


def _bucket_axis(names: Collection[str]) -> str:
    return "partition/bucket" if any("/" in name for name in names) else "bucket"
