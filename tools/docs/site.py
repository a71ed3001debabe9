"""The hook of mkdocs: adds the pages that are made from the code, and pages of the project's root, to the site."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from tools.docs.api_page import api_page
from tools.docs.commands_page import commands_page
from tools.docs.errors_page import errors_page
from tools.docs.options_page import options_page
from tools.docs.pipeline_page import pipeline_page

ROOT = Path(__file__).resolve().parents[2]

REFERENCE: dict[str, Callable[[], str]] = {
    "reference/options.md": options_page,
    "reference/pipeline-file.md": pipeline_page,
    "reference/commands.md": commands_page,
    "reference/python-api.md": api_page,
    "reference/errors.md": errors_page,
}
#: Pages at the root of the project, which the site shows, too.
OF_THE_ROOT = {
    "project/contributing.md": "CONTRIBUTING.md",
    "project/changelog.md": "CHANGELOG.md",
    "project/security.md": "SECURITY.md",
}
#: Section of the navigation for pages that mkdocs.yml does not place.
OTHERS = "How-to guides"


def root_page(name: str) -> str:
    """Return a page of the root with its links as they must be inside the site."""
    text = (ROOT / name).read_text(encoding="utf-8")
    for page, source in OF_THE_ROOT.items():
        text = text.replace(f"]({source})", f"]({Path(page).name})")
    return re.sub(r"\]\(docs/([^)]+)\)", r"](../\1)", text)


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    for page, make in REFERENCE.items():
        files.append(File.generated(config, page, content=make()))
    for page, source in OF_THE_ROOT.items():
        files.append(File.generated(config, page, content=root_page(source)))
    _place_others(files, config)
    return files


def _place_others(files: Files, config: Any) -> None:
    """Put pages that mkdocs.yml names nowhere under one section, so that a new page is found at once."""
    placed = set(re.findall(r"[\w./-]+\.md", str(config.nav)))
    others = sorted(f.src_uri for f in files.documentation_pages() if f.src_uri not in placed)
    for section in config.nav:
        for title, folder in ((OTHERS, ""), ("File formats", "format/"), ("Decisions", "decisions/")):
            if title in section:
                section[title].extend(p for p in others if p.rpartition("/")[0] == folder.rstrip("/"))
