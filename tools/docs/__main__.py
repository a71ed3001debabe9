"""Write the committed generated parts anew: ``python -m tools.docs``; ``--check`` compares and exits 1 when one is stale."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.docs.benchmark_tables import benchmark_tables
from tools.docs.changes_picture import changes_picture
from tools.docs.format_pages import format_pages
from tools.docs.growth_part import growth_part
from tools.docs.layer_picture import layer_picture
from tools.docs.type_doors import type_doors

ROOT = Path(__file__).resolve().parents[2]


def generated() -> dict[Path, str]:
    """Return every committed file that is generated, wholly or between markers, and the text it must have."""
    pictures = ROOT / "docs/images"
    drawn = {pictures / "layers.svg": layer_picture(), pictures / "changes.svg": changes_picture()}
    return {**drawn, **format_pages(), **benchmark_tables(), **growth_part(), **type_doors()}


def stale() -> list[Path]:
    """List the files that are not as the code says."""
    return [f for f, text in generated().items() if not f.exists() or f.read_text(encoding="utf-8") != text]


def main() -> int:
    """Write or compare."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when something is stale")
    arguments = parser.parse_args()
    old = stale()
    if not arguments.check:
        texts = generated()
        for file in old:
            file.write_text(texts[file], encoding="utf-8")
    for file in old:
        print(f"{'stale' if arguments.check else 'wrote'} {file.relative_to(ROOT)}")
    return 1 if arguments.check and old else 0


if __name__ == "__main__":
    sys.exit(main())
