"""Fill the table of peers in docs/benchmarks.md from the run that was kept."""

from __future__ import annotations

import json
import re
from pathlib import Path

from bench.peers.page import KEPT, markdown

PAGE = Path(__file__).resolve().parents[2] / "docs/benchmarks.md"
_MARKED = re.compile(r"(<!-- peers -->\n).*?(<!-- end -->)", re.DOTALL)


def peers_table() -> dict[Path, str]:
    """Return the page and the text it must have."""
    made = markdown(json.loads(KEPT.read_text(encoding="utf-8")))
    return {PAGE: _MARKED.sub(lambda m: f"{m[1]}{made}\n{m[2]}", PAGE.read_text(encoding="utf-8"))}
