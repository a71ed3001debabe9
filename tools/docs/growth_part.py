"""Fill the generated parts of docs/scaling.md from the run that was kept."""

from __future__ import annotations

import re
from pathlib import Path

from bench.growth import page

PAGE = Path(__file__).resolve().parents[2] / "docs/scaling.md"


def growth_part() -> dict[Path, str]:
    """Return the page and the text it must have."""
    run, measured = page.kept()
    made = {
        "run": f"Run of {run['at'][:10]} on {run['cores']} cores and {run['memory_gib']} GiB, load average {run['load_before']} "
        "before its last part. Large batches were measured while other programs ran, which increases CPU seconds but not requests "
        "or bytes.",
        "points": page.markdown_points(measured),
        "rows": page.markdown_rows(measured),
        "model": page.markdown_model(measured),
        "check": page.markdown_check(measured),
        "large": page.markdown_large(measured),
    }
    text = PAGE.read_text(encoding="utf-8")
    for name, part in made.items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = marked.sub(lambda m, part=part: f"{m[1]}{part}\n{m[2]}", text)  # type: ignore[misc]
    return {PAGE: text}
