"""Fill the pages of docs/format: byte tables from the docstrings of the modules, dumps from the golden files."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

from tools.docs.docstrings import markdown
from tools.docs.dumps import dump

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs/format"
_MARKED = re.compile(r"<!-- (bytes|dump): ([\w.-]+) -->\n.*?<!-- end -->", re.DOTALL)


def filled(text: str) -> str:
    """Return a page with what stands between its markers made anew."""
    return _MARKED.sub(lambda m: f"<!-- {m[1]}: {m[2]} -->\n{_content(m[1], m[2])}\n<!-- end -->", text)


def _content(kind: str, name: str) -> str:
    return dump(name) if kind == "dump" else byte_table(name)


def byte_table(module: str) -> str:
    """Return the docstring of a module without its first paragraph, a level of headings deeper than the page."""
    file = ROOT / (module.replace(".", "/") + ".py")
    text = inspect.cleandoc(ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "")
    body = text.partition("\n\n")[2]
    body = re.sub(r"^(.+)\n-{3,}$", r"### \1", body, flags=re.MULTILINE)
    return f"From `{module}`:\n\n{markdown(body)}\n"


def format_pages() -> dict[Path, str]:
    """Return every page of docs/format and the text it must have."""
    return {page: filled(page.read_text(encoding="utf-8")) for page in sorted(PAGES.glob("*.md"))}
