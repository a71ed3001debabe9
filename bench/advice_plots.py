"""The pictures of docs/choosing-an-index.md, drawn from what bench/bench_advice.py measured and what the advice predicts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from lakeidx.key_index.advice.measures import Measures

mpl.use("Agg")
#: One color per type in every picture (safe for color-blind readers, by Okabe and Ito).
COLORS: Mapping[str, str] = {
    "bucket": "#000000",
    "hash": "#0072B2",
    "state": "#CC79A7",
    "simple": "#009E73",
    "bloom": "#D55E00",
    "global-simple": "#56B4E9",
    "global-bloom": "#E69F00",
}
#: Seconds of each type for some measures.
Predict = Callable[[Measures], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Case:
    """One workload: measured and predicted CPU seconds by type."""

    name: str
    measures: Measures
    measured: Mapping[str, float]
    predicted: Mapping[str, float]


def draw_all(cases: Sequence[Case], predict: Predict, folder: Path) -> list[Path]:
    """Write all pictures; gives their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    out = [folder / "advice-workloads.png", folder / "advice-sizes.png"]
    _workloads(cases, out[0])
    _sizes(cases, predict, out[1])
    return out


def _workloads(cases: Sequence[Case], path: Path) -> None:
    columns = 2
    rows = -(-len(cases) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(9.5, 2.15 * rows), squeeze=False)
    for axis, case in zip(axes.flat, cases, strict=False):
        order = sorted(case.measured, key=lambda t: -case.measured[t])
        at = np.arange(len(order))
        seconds = [case.measured[t] for t in order]
        told = [case.predicted[t] for t in order]
        axis.hlines(at, seconds, told, color="#999999", lw=1)
        axis.scatter(seconds, at, color=[COLORS[t] for t in order], s=48, zorder=3)
        axis.scatter(told, at, marker="D", facecolor="none", edgecolor="#333333", s=34, zorder=4)
        axis.set_yticks(at, order)
        axis.set_xscale("log")
        axis.set_xlim(min(min(seconds), *case.predicted.values()) / 2, max(max(seconds), *case.predicted.values()) * 2)
        m = case.measures
        axis.set_title(f"{case.name}\n{m.batch_rows:,} keys against {m.rows:,}", loc="left", fontsize=9)
        axis.grid(axis="x", color="#dddddd", lw=0.6)
        axis.set_axisbelow(True)
        axis.set_ylim(-0.7, len(order) - 0.3)
    for axis in axes.flat[len(cases) :]:
        axis.axis("off")
    for axis in axes.flat[max(0, len(cases) - columns) : len(cases)]:
        axis.set_xlabel("CPU seconds per batch")
    figure.suptitle("dot: measured, diamond: predicted", fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 0.995))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _sizes(cases: Sequence[Case], predict: Predict, path: Path) -> None:
    """Plot predicted seconds over batch size and table size, for the random and the strictly ordered workload."""
    random = next((c for c in cases if c.measures.key_order == "random"), cases[0])
    ordered = next((c for c in cases if c.measures.held_files < 1.5 and c.measures.key_order == "ordered"), cases[-1])
    figure, axes = plt.subplots(2, 2, figsize=(9.5, 7), sharey="row")
    batches, tables = np.geomspace(1e3, 1e6, 40), np.round(np.geomspace(1, 1000, 40)) * 1e6
    for column, (case, title) in enumerate([(random, "random keys"), (ordered, "time-ordered keys, none late")]):
        _curves(axes[0, column], case, predict, batches, _with_batch)
        axes[0, column].set_title(f"{title}\n6,000,000 rows in 24 files", loc="left", fontsize=9)
        axes[0, column].set_xlabel("keys in a batch")
        _curves(axes[1, column], case, predict, tables, _with_rows)
        axes[1, column].set_title(f"{title}\nbatches of 100,000 keys, files of 1,000,000 rows", loc="left", fontsize=9)
        axes[1, column].set_xlabel("rows in the table")
    for row in axes:
        row[0].set_ylabel("predicted CPU seconds per batch")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=len(labels), frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _curves(
    axis: Axes,
    case: Case,
    predict: Predict,
    xs: np.ndarray,
    change: Callable[[Measures, float], Measures],
) -> None:
    found = [predict(change(case.measures, float(x))) for x in xs]
    for kind in ("bucket", "hash", "state", "simple", "bloom"):
        axis.plot(xs, [f[kind] for f in found], color=COLORS[kind], label=kind, lw=1.8)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.grid(color="#dddddd", lw=0.6)


def _with_batch(m: Measures, batch: float) -> Measures:
    return _sized(m, rows=6_000_000, files=24, batch=int(batch))


def _with_rows(m: Measures, rows: float) -> Measures:
    return _sized(m, rows=int(rows), files=max(1, round(rows / 1e6)), batch=100_000)


def _sized(m: Measures, *, rows: int, files: int, batch: int) -> Measures:
    """Return the same order of keys at other sizes: random keys hold on to every file, ordered ones to the newest."""
    everywhere = m.spread > 0.5
    hit = float(min(files, batch)) if everywhere else 1.0
    return dataclasses.replace(
        m,
        rows=rows,
        bytes=int(m.bytes * rows / m.rows),
        files=files,
        batch_rows=batch,
        spread=1.0 if everywhere else m.update_share / files,
        touched_files=float(files) if everywhere else 1.0,
        held_files=hit,
        touched_rows=float(rows),
        largest_file_rows=rows // files,
    )
