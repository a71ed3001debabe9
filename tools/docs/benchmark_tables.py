"""Fill the tables of docs/benchmarks.md from the runs that were kept: of the peers, and of `python -m bench report`."""

from __future__ import annotations

import json
import re
from pathlib import Path

from bench import report
from bench.peers.page import KEPT, markdown

_PEERS = re.compile(r"(<!-- peers -->\n).*?(<!-- end -->)", re.DOTALL)


def benchmark_tables() -> dict[Path, str]:
    """Return the page and the text it must have."""
    made = markdown(json.loads(KEPT.read_text(encoding="utf-8")))
    text = _PEERS.sub(lambda m: f"{m[1]}{made}\n{m[2]}", report.PAGE.read_text(encoding="utf-8"))
    return {report.PAGE: report.page_with(report.kept_runs(), text)}
