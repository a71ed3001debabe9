"""The tables of docs/benchmarks.md, made of what benchmarks wrote: ``python -m bench report [name ...]``.

It takes the newest run of each benchmark in ``bench/results`` (or of the named ones), keeps its figures in ``bench/measured.json``,
and writes them between the marks ``<!-- measured NAME -->`` and ``<!-- end -->`` of the page. What was not run stays as it was: a
benchmark that was run once with one set of arguments and once with others, which give other cases, has both runs on the page.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
KEPT = HERE / "measured.json"
PAGE = HERE.parent / "docs/benchmarks.md"
_MARKED = re.compile(r"(<!-- measured (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
#: What a run was made with; its figures are in the other fields.
_AROUND = (
    "at",
    "commit",
    "cores",
    "memory_gib",
    "load_before",
    "python",
    "lakeidx",
    "pyarrow",
    "numpy",
    "numba",
    "pyspark",
)
#: Fields that name a figure, and columns by their headings, in order. A column stands where a figure has it.
_NAMED = ("case", "operation", "order")
_COLUMNS = {
    "seconds": "seconds", "ms": "ms", "cpu_seconds": "CPU seconds", "cpu_ms": "CPU ms", "of_bare_limit": "times the bare limit",
    "mib": "MiB", "peak_mib": "peak MiB", "driver_mib": "driver MiB", "jvm_mib": "JVM MiB", "worker_mib": "worker MiB",
    "requests": "requests", "disk_waits": "waits for the disk", "bare_file_ms": "ms of a bare file",
    "read_share": "share read",
    "times_upsert": "times the CPU seconds of the upsert",
    "java": "Java, seconds", "pyarrow_cpu": "pyarrow, CPU seconds", "times_pyarrow": "times pyarrow",
    "files": "files", "files_holding": "holding rows", "row_groups": "row groups", "times_holding": "opened per holding one",
    "times_without": "times as without", "million_per_s": "million a second",
    "cpu_million_per_s": "million a CPU second", "microseconds": "microseconds",
    "per_second": "a second", "late_files": "files of level 0", "kernels": "kernels compiled",
    "why": "why there is no time",
}  # fmt: skip

Runs = dict[str, list[dict[str, Any]]]


def newest_runs(results: Path, names: Sequence[str] = ()) -> Runs:
    """Read the figures of the newest run of each benchmark that has one; of all, or of the named ones."""
    runs: Runs = {}
    for path in sorted(results.glob("*.jsonl")):
        figures = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if figures and (not names or path.stem in names):
            newest = max(f["at"] for f in figures)
            runs[path.stem] = [f for f in figures if f["at"] == newest]
    return runs


def of_different_cases(figures: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the figures of the newest run, and of earlier ones that have no case in common with a newer one."""
    by_run: dict[str, list[dict[str, Any]]] = {}
    for figure in figures:
        by_run.setdefault(figure["at"], []).append(figure)
    found: list[dict[str, Any]] = []
    for at in sorted(by_run, reverse=True):
        if not {_case(f) for f in by_run[at]} & {_case(f) for f in found}:
            found += by_run[at]
    return found


def kept_runs() -> Runs:
    """Read the runs that the page shows."""
    runs: Runs = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    return runs


def table(figures: Sequence[Mapping[str, Any]]) -> str:
    """Return figures as Markdown: for each run when and where it was, and a line per figure."""
    runs = itertools.groupby(figures, key=lambda f: f["at"])
    return "\n\n".join(_run_table(list(run)) for _, run in runs)


def _run_table(figures: Sequence[Mapping[str, Any]]) -> str:
    around = figures[0]
    columns = [c for c in _COLUMNS if any(f.get(c) is not None for f in figures)]
    lines = [
        f"Run of {around['at'][:10]} at {around['commit']} on {around['cores']} cores and {around['memory_gib']} GiB, load average"
        f" {around['load_before']:g} before it.",
        "",
        "| " + " | ".join(["case", *(_COLUMNS[c] for c in columns)]) + " |",
        "|" + "---|" * (1 + len(columns)),
    ]
    for figure in figures:
        lines.append("| " + " | ".join([_case(figure), *(_cell(figure.get(c)) for c in columns)]) + " |")
    return "\n".join(lines)


def _case(figure: Mapping[str, Any]) -> str:
    return ", ".join(str(figure[k]) for k in _NAMED if figure.get(k)).replace("|", "\\|")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    if isinstance(value, int):
        return f"{value:,}"
    return "" if value is None else str(value)


def page_with(runs: Runs, text: str) -> str:
    """Return a page with the table of every run between its marks; marks without a run keep what is between them."""
    return _MARKED.sub(lambda m: f"{m[1]}{table(runs[m[2]])}\n{m[3]}" if m[2] in runs else m[0], text)


def marked(text: str) -> list[str]:
    """Return the benchmarks that a page has marks for."""
    return [m[2] for m in _MARKED.finditer(text)]


def report(names: Sequence[str]) -> int:
    """Keep the newest runs and write the page; exit status 1 when there is none to show."""
    runs = newest_runs(RESULTS, names)
    text = PAGE.read_text(encoding="utf-8")
    shown = [n for n in marked(text) if n in runs]
    kept = kept_runs()
    for name in shown:
        now = {f["at"] for f in runs[name]}
        before = [f for f in kept.get(name, ()) if f["at"] not in now]
        kept[name] = of_different_cases([*map(_whole, runs[name]), *before])
    KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page_with(kept, text), encoding="utf-8")
    print(f"{PAGE.name}: {', '.join(shown) or 'nothing new'}")
    return 0 if shown else 1


def _whole(figure: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of a figure: its run, its name and its columns."""
    return {k: v for k, v in figure.items() if k in _AROUND or k in _NAMED or k in _COLUMNS}
