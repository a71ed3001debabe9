"""The table of a run: on a terminal, as Markdown for docs/benchmarks.md, and as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.peers.environments import peers

#: The run that docs/benchmarks.md shows.
KEPT = Path(__file__).with_name("measured.json")
Run = Mapping[str, Any]


def phases(run: Run) -> list[str]:
    """Return the names of the phases, in order."""
    return list(dict.fromkeys(f["phase"] for f in run["figures"]))


def names(run: Run) -> list[str]:
    """Return the names of the peers, in order."""
    return list(dict.fromkeys(f["peer"] for f in run["figures"]))


def _of(run: Run) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {(f["peer"], f["phase"]): f for f in run["figures"]}


def number(value: float) -> str:
    """Return three digits that mean something."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell(figure: Mapping[str, Any]) -> str:
    """Return wall and CPU seconds and MiB, or why there are none."""
    if figure["status"] != "ok":
        return str(figure["status"])
    return f"{number(figure['seconds'])} / {number(figure['cpu_seconds'])} / {figure['peak_mib']:,}"


def reasons(run: Run) -> list[str]:
    """Return what stands behind every cell without figures, once for each peer and reason."""
    said: dict[tuple[str, str, str], list[str]] = {}
    for f in run["figures"]:
        if f["status"] not in ("ok", "not reached"):
            said.setdefault((f["peer"], f["status"], f["why"]), []).append(f["phase"])
    every = len(phases(run))
    return [
        f"{peer}, {'all phases' if len(of) == every else ', '.join(of)}: {status} ({why})"
        for (peer, status, why), of in said.items()
    ]


def on_terminal(run: Run) -> Table:
    """Return one line per peer."""
    title = f"{run['rows']:,} rows: wall s / CPU s / peak MiB"
    view = Table("peer", *phases(run), title=title, title_justify="left")
    of = _of(run)
    for name in names(run):
        view.add_row(name, *(cell(of[name, p]) for p in phases(run)))
    return view


def markdown(run: Run) -> str:
    """Return the part of the page that a run makes."""
    small, of = run["small_rows"], _of(run)
    # Runs from before the verbs were measured have none.
    verbs = f"; {run['rows'] // 20:,} keys deleted, {run['rows'] // 10:,} rows merged with a condition"
    lines = [
        f"Run of {run['at'][:10]} on {run['cores']} cores and {run['memory_gib']} GiB, load average {run['load_before']} "
        f"before it; {run['rows']:,} rows loaded, {run['rows'] // 10:,} upserted, then {small:,}"
        f"{verbs if 'delete by keys' in phases(run) else ''}.",
        "Wall seconds / CPU seconds / peak MiB:",
        "",
        f"| peer | {' | '.join(phases(run))} |",
        "|---" * (len(phases(run)) + 1) + "|",
        *(f"| {n} | {' | '.join(cell(of[n, p]) for p in phases(run))} |" for n in names(run)),
        "",
        *(f"- {reason}" for reason in reasons(run)),
        "",
        "; ".join(f"{k.name}: {k.note}" for k in peers() if k.note and k.name in names(run)) + ".",
    ]
    return "\n".join(lines)


#: A phase of less had nothing to do: that is no figure.
_NOTHING_SECONDS = 0.01


def draw(run: Run, path: Path) -> None:
    """Plot wall seconds as points, a panel for each phase, on one logarithmic axis for all; a word where there is no figure."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    of, shown = _of(run), names(run)
    figure, axes = plt.subplots(len(phases(run)) // 2 + 1, 2, figsize=(9, 16), squeeze=False, layout="constrained")
    panels = list(axes.flat)
    found = [f["seconds"] for f in run["figures"] if (f.get("seconds") or 0) >= _NOTHING_SECONDS]
    low, high = min(found, default=1.0) / 1.5, max(found, default=1.0) * 4
    for axis, phase in zip(panels, phases(run), strict=False):
        for at, name in enumerate(shown):
            value, ours = of[name, phase].get("seconds"), name.startswith("lakeidx")
            color = "#1f5aa8" if ours else "#555"
            if value and value >= _NOTHING_SECONDS:
                axis.plot(value, at, "o", color=color, markersize=7)
                axis.text(value * 1.25, at, f"{number(value)} s", va="center", fontsize=9, color=color)
            else:
                said = of[name, phase]["status"] if value is None else "nothing to do"
                axis.text(low * 1.1, at, said, va="center", fontsize=9, color="#999", style="italic")
        axis.set_xscale("log")
        axis.set_xlim(low, high)
        axis.set_xticks(ticks := [t for t in (0.1, 1, 10, 100) if low <= t <= high], [f"{t:g} s" for t in ticks])
        axis.minorticks_off()
        axis.grid(axis="x", color="#ddd")
        axis.set_axisbelow(True)
        axis.set_yticks(range(len(shown)), shown)
        for label, name in zip(axis.get_yticklabels(), shown, strict=True):
            label.set_fontweight("bold" if name.startswith("lakeidx") else "normal")
        axis.set_ylim(len(shown) - 0.5, -0.5)
        axis.set_title(phase, fontsize=12, loc="left")
    for axis in panels[len(phases(run)) :]:
        axis.axis("off")
        said = ["Further left is faster: each gridline is ten", "times the one before.", ""]
        said += [
            "over the limit: not done in the time that a",
            "phase may take",
            "not reached: an earlier phase failed",
        ]
        axis.text(0, 0.9, "\n".join(said), va="top", fontsize=10)
    figure.suptitle(f"{run['rows']:,} rows of lineitem, keys in random order, {run['cores']} cores: wall seconds")
    figure.savefig(path, dpi=110)
    plt.close(figure)
