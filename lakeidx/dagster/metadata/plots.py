"""Pictures of a table as Markdown with an image inside, which Dagster shows in the metadata of an asset."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

#: Bars that can be distinguished; beyond that neighbours are put together.
_MAX_BARS = 60
#: Characters that fit side by side below a picture.
_LABEL_CHARACTERS = 100
_BLUE, _GREY, _RED, _GREEN = "#3b6fb6", "#b8c0cc", "#c0392b", "#2e8b57"


def _picture(title: str, draw: Callable[[Any], None], *, alt: str) -> Any:
    figure = Figure(figsize=(7.2, 2.8), dpi=100)
    FigureCanvasAgg(figure)
    # Margins that fit all of these pictures: a layout that is computed draws everything twice.
    figure.subplots_adjust(left=0.11, right=0.9, top=0.89, bottom=0.17)
    axes = figure.add_subplot()
    draw(axes)
    axes.set_title(title, fontsize=10, loc="left")
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return dg.MetadataValue.md(f"![{alt}](data:image/png;base64,{base64.b64encode(out.getvalue()).decode()})")


def rows_per_bucket(rows: Mapping[str, int], target: int) -> Any:
    """Plot the rows (index hashes) of each bucket beside dynamic-bucket.target-row-num; `rows` is by the bucket's name."""
    names, values = list(rows), np.array(list(rows.values()), dtype=np.int64)

    def draw(axes: Any) -> None:
        shown, labels = _thin(values, names, np.max)
        axes.bar(range(len(shown)), shown, color=[_RED if v > target else _BLUE for v in shown], width=0.8)
        axes.axhline(target, color=_GREY, linestyle="--", linewidth=1)
        axes.annotate("target", (0, target), fontsize=8, color="#666666", xytext=(0, 2), textcoords="offset points")
        _label(axes, labels)
        axes.set_xlabel(_bucket_axis(names), fontsize=8)
        axes.set_ylabel("rows", fontsize=8)

    return _picture("Rows per bucket against target", draw, alt="rows per bucket")


def levels_per_bucket(levels: Mapping[str, Mapping[int, int]]) -> Any:
    """Draw the data files of each bucket by level, stacked: `levels` is bucket name -> level -> files."""
    names = list(levels)
    present = sorted({level for files in levels.values() for level in files})

    def draw(axes: Any) -> None:
        bottom = None
        for i, level in enumerate(present):
            counts = np.array([levels[n].get(level, 0) for n in names], dtype=np.int64)
            shown, labels = _thin(counts, names, np.max)
            bottom = np.zeros(len(shown)) if bottom is None else bottom
            shade = 0.25 + 0.7 * i / max(1, len(present) - 1)
            axes.bar(range(len(shown)), shown, bottom=bottom, color=(0.15, 0.35, 0.65, shade), label=f"level {level}")
            bottom = bottom + shown
            _label(axes, labels)
        axes.set_xlabel(_bucket_axis(names), fontsize=8)
        axes.set_ylabel("files", fontsize=8)
        if present:
            axes.legend(fontsize=7, frameon=False, loc="lower right", bbox_to_anchor=(1.0, 0.99), ncols=6)

    return _picture("Data files per bucket and level", draw, alt="levels per bucket")


def hash_distribution(counts: Sequence[int]) -> Any:
    """Plot how evenly key hashes fill the 32-bit space.

    counts   hashes in equal parts of it; a line shows what every part should have
    """

    def draw(axes: Any) -> None:
        axes.bar(range(len(counts)), counts, color=_BLUE, width=1.0)
        axes.axhline(sum(counts) / len(counts), color=_RED, linewidth=1)
        axes.set_xlabel(f"key hash, {len(counts)} equal ranges of the 32-bit space", fontsize=8)
        axes.set_ylabel("keys", fontsize=8)

    return _picture("Distribution of key hashes", draw, alt="hash distribution")


def batch_history(ids: Sequence[int], deltas: Sequence[int], totals: Sequence[int]) -> Any:
    """Plot the rows each snapshot added (bars) and the sum of rows in data files (line)."""

    def draw(axes: Any) -> None:
        colors = [_GREEN if d >= 0 else _GREY for d in deltas]
        axes.bar(range(len(ids)), deltas, color=colors)
        # A young table has few snapshots; their bars should not look like walls.
        axes.set_xlim(-0.6, max(len(ids), 8) - 0.4)
        axes.set_ylabel("rows added", fontsize=8)
        _label(axes, [str(i) for i in ids])
        axes.set_xlabel("snapshot", fontsize=8)
        right = axes.twinx()
        right.plot(range(len(ids)), totals, color=_BLUE, marker=".", linewidth=1)
        right.set_ylabel("rows in files", fontsize=8, color=_BLUE)
        right.set_ylim(bottom=0)
        right.tick_params(labelsize=8)
        right.spines[["top"]].set_visible(False)

    return _picture("Batch history", draw, alt="batch history")


def _thin(
    values: NDArray[Any], names: Sequence[str], combine: Callable[[NDArray[Any]], Any]
) -> tuple[list[Any], list[str]]:
    if len(values) <= _MAX_BARS:
        return values.tolist(), list(names)
    parts = np.array_split(np.arange(len(values)), _MAX_BARS)
    return [combine(values[p]) for p in parts], [names[p[0]] for p in parts]


def _bucket_axis(names: Sequence[str]) -> str:
    return "partition/bucket" if any("/" in name for name in names) else "bucket"


def _label(axes: Any, labels: Sequence[str]) -> None:
    widest = max((len(label) for label in labels), default=0)
    step = max(1, -(-len(labels) * (widest + 3) // _LABEL_CHARACTERS))
    axes.set_xticks(range(0, len(labels), step), [labels[i] for i in range(0, len(labels), step)], fontsize=7)
