"""Heads of modules and classes open with a noun or an imperative, and names between backticks are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Words that a head which has to be translated back begins with.
RIDDLES = frozenset({
    "what", "where", "who", "whose", "how", "which", "whether", "when", "that", "why", "if", "as", "is", "are", "it", "of", "for",
    "to", "from", "by", "in", "on", "with", "no", "nothing", "everything", "those",
})  # fmt: skip


@cache
def _heads() -> list[tuple[str, str]]:
    """Return (place, docstring) of every module and class of the product."""
    out = []
    for file in sorted((ROOT / "lakeidx").rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        place = str(file.relative_to(ROOT))
        nodes: list[ast.Module | ast.ClassDef] = [tree, *(n for n in ast.walk(tree) if isinstance(n, ast.ClassDef))]
        for node in nodes:
            text = ast.get_docstring(node)
            if text:
                out.append((f"{place}:{getattr(node, 'name', '')}", text))
    return out


def test_heads_open_with_a_noun_or_an_imperative() -> None:
    assert len(_heads()) > 800
    first = [(place, text.split()[0].strip("`*:,").lower()) for place, text in _heads()]
    assert [place for place, word in first if word in RIDDLES] == []


#: Groups of entry points are no modules.
GROUPS = ("lakeidx.index_types", "lakeidx.change_formats", "lakeidx.tools")


def _names(text: str) -> Iterator[str]:
    yield from re.findall(r"(?<!`)`(lakeidx(?:\.\w+)+)`(?!`)", text)


def _resolves(name: str) -> bool:
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            fields = getattr(found, "__annotations__", {})
            if part not in fields and not hasattr(found, part):
                return False
            found = getattr(found, part, None)
        return True
    return False


def test_names_between_backticks_are_there() -> None:
    texts = list(_heads())
    for file in (ROOT / "lakeidx").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                texts.append((f"{file.relative_to(ROOT)}:{node.name}", ast.get_docstring(node) or ""))
    pages = [p for p in (ROOT / "docs").rglob("*.md") if "decisions" not in p.parts]
    texts += [(str(p.relative_to(ROOT)), p.read_text(encoding="utf-8")) for p in pages]
    named = {(place, name) for place, text in texts for name in _names(text)}
    assert len(named) > 100
    assert sorted(f"{place}: {name}" for place, name in named if name not in GROUPS and not _resolves(name)) == []


def test_pages_name_no_issue() -> None:
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
    assert [p.name for p in pages if re.search(r"\bissue \d|#\d{1,3}\b", p.read_text(encoding="utf-8"))] == []
