"""What a run shows: on a terminal, as Markdown for docs/scaling.md, and as pictures."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.growth.model import EACH, FEATURES, HELD_OUT, NOT_GROWING, ROWS, TYPES, Cost, stage_costs, type_costs
from bench.growth.points import FIGURES, STAGES, Measured, slope

#: The run that docs/scaling.md shows.
KEPT = Path(__file__).with_name("measured.json")
#: Sizes that the model is asked for.
LARGE: Mapping[str, Mapping[str, int]] = {
    "a batch of a day": {
        "rows": 10_000_000, "keys": 1_000_000_000, "buckets": 1_000, "partitions": 100, "files": 100_000,
    },
    "the largest": {
        "rows": 1_000_000_000, "keys": 10_000_000_000, "buckets": 100_000, "partitions": 10_000, "files": 1_000_000,
    },
}  # fmt: skip
_UNITS = {"cpu": "CPU s", "requests": "requests", "read_mib": "MiB read", "written_mib": "MiB written"}
#: A slope from here on follows the table rather than the batch.
_FOLLOWS = 0.3


def kept() -> tuple[Mapping[str, Any], list[Measured]]:
    """Return where and when the kept run was, and its points."""
    found = json.loads(KEPT.read_text(encoding="utf-8"))
    return found, [Measured.from_json(p) for p in found["points"]]


def number(value: float) -> str:
    """Return three digits that mean something."""
    size = abs(value)
    if size < 1e-12:
        return "0"
    return (
        f"{value:,.0f}"
        if size >= 100
        else f"{value:.1f}"
        if size >= 10
        else f"{value:.2f}"
        if size >= 0.01
        else f"{value:.1e}"
    )


def of_axis(measured: Sequence[Measured], axis: str) -> list[Measured]:
    """Return the points of an axis, by size."""
    return sorted((m for m in measured if m.point.axis == axis), key=lambda m: m.point.size)


def growing_axes(measured: Sequence[Measured]) -> list[str]:
    """Return the axes along which one measure grows."""
    return [a for a in dict.fromkeys(m.point.axis for m in measured) if a not in NOT_GROWING]


def slopes(measured: Sequence[Measured], axis: str) -> dict[str, float | None]:
    """Return the slope of each figure along an axis."""
    of = of_axis(measured, axis)
    return {n: slope([(m.point.size, m.whole[n]) for m in of if n in m.whole]) for n in FIGURES}


def on_terminal(measured: Sequence[Measured]) -> Table:
    """Return every point, and the slopes."""
    table = Table("axis", "size", *FIGURES)
    for axis in dict.fromkeys(m.point.axis for m in measured):
        for m in of_axis(measured, axis):
            name = f"{m.point.size:,}" + (f" {m.point.index}, batch {m.point.batch:,}" if axis in (TYPES, ROWS) else "")
            table.add_row(axis, name, *(f"{m.whole[n]:,.2f}" if n in m.whole else "" for n in FIGURES))
        if axis in growing_axes(measured):
            found = slopes(measured, axis)
            table.add_row(axis, "slope", *(_slope(found[n]) for n in FIGURES), end_section=True)
    return table


def markdown_points(measured: Sequence[Measured]) -> str:
    """Return the slopes along each axis."""
    lines = [f"| axis | from | to | {' | '.join(FIGURES)} |", "|---" * (len(FIGURES) + 3) + "|"]
    for axis in growing_axes(measured):
        sizes, found = [m.point.size for m in of_axis(measured, axis)], slopes(measured, axis)
        cells = " | ".join(_slope(found[n]) for n in FIGURES)
        lines.append(f"| {axis} | {sizes[0]:,} | {sizes[-1]:,} | {cells} |")
    return "\n".join(lines)


def markdown_rows(measured: Sequence[Measured]) -> str:
    """Return what the largest batch of every index type took in the driver."""
    largest = {m.point.index: m for m in sorted(of_axis(measured, ROWS), key=lambda m: m.point.batch)}
    if not largest:
        return "This run has no such points."
    lines = ["| type | rows | driver, MiB above its base | CPU s of all processes |", "|---|---|---|---|"]
    for name, m in sorted(largest.items()):
        cells = f"{name} | {m.point.batch:,} | {number(m.whole['peak_mib'])} | {number(m.whole['cpu'])}"
        lines.append(f"| {cells} |")
    return "\n".join(lines)


def markdown_model(measured: Sequence[Measured]) -> str:
    """Return the constants of each stage and index type."""
    names = tuple(dict.fromkeys(n for of in FEATURES.values() for n in of))
    lines = [
        f"| stage | figure | {EACH} | {' | '.join(f'per 1,000 {n}' for n in names)} |",
        "|---" * (len(names) + 3) + "|",
    ]
    for stage, figures in stage_costs(measured).items():
        lines += [f"| {stage} | {_UNITS[figure]} | {_cells(cost, names)} |" for figure, cost in figures.items()]
    types = type_costs(measured)
    if types:
        lines += ["", "CPU s of `bucket_assignment` by index type:", ""]
        lines += [f"| type | {EACH} | per 1,000 rows | per 1,000 keys |", "|---|---|---|---|"]
        lines += [f"| {name} | {_cells(cost, ('rows', 'keys'))} |" for name, cost in types.items()]
    return "\n".join(lines)


def markdown_check(measured: Sequence[Measured]) -> str:
    """Return what the model says of the point that it was not fitted to, beside what was measured."""
    costs = stage_costs(measured)
    lines = ["| stage | figure | measured | by the model |", "|---|---|---|---|"]
    for m in of_axis(measured, HELD_OUT):
        for stage in STAGES:
            for figure, cost in costs.get(stage, {}).items():
                found = m.stages[stage][figure]
                lines.append(f"| {stage} | {_UNITS[figure]} | {number(found)} | {number(cost.of(m.work))} |")
    return "\n".join(lines)


def markdown_large(measured: Sequence[Measured]) -> str:
    """Return what the model says of large batches."""
    costs = stage_costs(measured)
    lines = []
    for title, work in LARGE.items():
        lines += [f"**{title}**: {', '.join(f'{n:,} {name}' for name, n in work.items())}", ""]
        lines += [f"| stage | {' | '.join(_UNITS.values())} |", "|---" * (len(_UNITS) + 1) + "|"]
        for stage, figures in costs.items():
            cells = (number(figures[n].of(work)) if n in figures else "0" for n in _UNITS)
            lines.append(f"| {stage} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines).rstrip()


def follows_table(measured: Sequence[Measured]) -> list[tuple[str, str]]:
    """Return the axis and figure of every slope that follows the table rather than the batch."""
    axes = [a for a in growing_axes(measured) if a != "batch"]
    return [(a, n) for a in axes for n, s in slopes(measured, a).items() if s is not None and s >= _FOLLOWS]


_PANELS = {"keys": "keys in the table", "buckets": "buckets that a batch touches", "partitions": "partitions that it touches",
           "files": "live files of the table", "batch": "rows of a batch"}  # fmt: skip


def draw(measured: Sequence[Measured], path: Path) -> None:
    """Plot, one picture for each axis, what a batch costs: processor seconds and requests, both axes logarithmic."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    axes = growing_axes(measured)
    figure, places = plt.subplots(len(axes), 2, figsize=(9, 2.9 * len(axes)), squeeze=False, layout="constrained")
    for (left, right), axis in zip(places, axes, strict=True):
        of = of_axis(measured, axis)
        sizes = [m.point.size for m in of]
        left.loglog(sizes, [sum(s.get("cpu", 0) for s in m.stages.values()) for m in of], "o-", color="#1f5aa8")
        left.set_title("processor seconds of a batch", fontsize=10, loc="left")
        for name, text, color in (("requests", "requests", "#1f5aa8"), ("read_mib", "MiB read", "#c77d22"),
                                  ("peak_mib", "MiB of memory", "#5d8a2e")):  # fmt: skip
            line = [(m.point.size, m.whole[name]) for m in of if m.whole.get(name, 0) > 0]
            if line:
                right.loglog(*zip(*line, strict=True), "o-", color=color)
                right.annotate(
                    text, line[-1], xytext=(7, 0), textcoords="offset points", fontsize=9, color=color, va="center"
                )
        right.set_title("requests and bytes", fontsize=10, loc="left")
        right.set_xlim(min(sizes) / 1.5, max(sizes) * 40)
        for place in (left, right):
            low, high = place.get_ylim()
            place.set_ylim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
            place.set_xlabel(_PANELS.get(axis, axis), fontsize=10)
            place.xaxis.set_major_formatter(lambda v, _: f"{v:,.0f}")
            place.yaxis.set_major_formatter(lambda v, _: f"{v:,g}")
            place.minorticks_off()
            place.tick_params(labelsize=9)
            place.grid(color="#ddd")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _cells(cost: Cost, names: Sequence[str]) -> str:
    per = (number(1000 * cost.constants[n]) if n in cost.constants else "" for n in names)
    return " | ".join((number(cost.constants[EACH]), *per))


def _slope(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
