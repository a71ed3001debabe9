"""Turn the project's docstrings into Markdown: prose, rows of ``label   text``, tables and code as they are written here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator

_ROW = re.compile(r"^(\S(?:[^\s]|,? (?! ))*) {2,}(\S.*)$")
_RULE = re.compile(r"^=+(?: +=+)+$")
#: Sphinx's roles and double backticks, which Markdown spells with one.
_LITERAL = re.compile(r"``(.+?)``")


def markdown(docstring: str | None) -> str:
    """Return a docstring as Markdown."""
    text = inspect.cleandoc(docstring or "")
    return "\n\n".join(_block(block) for block in _blocks(text.splitlines()))


def rows_of(docstring: str | None) -> dict[str, str]:
    """Return label -> text of the rows in a docstring; a label list (``a, b``) gives each its text."""
    out: dict[str, str] = {}
    for block in _blocks(inspect.cleandoc(docstring or "").splitlines()):
        for label, text in _labelled(block) or ():
            out.update((name.strip(), text) for name in label.split(","))
    return out


def first_line(docstring: str | None) -> str:
    """Return what the thing does, in a line."""
    return inline(inspect.cleandoc(docstring or "").partition("\n\n")[0].replace("\n", " "))


def inline(text: str) -> str:
    """Render a docstring's text inside a paragraph or a table cell."""
    return _LITERAL.sub(r"`\1`", text).replace("<", "&lt;") if "`" not in text else _outside_code(text)


def cell(text: str) -> str:
    """Render text for a cell of a Markdown table."""
    return inline(text).replace("|", "\\|").replace("\n", " ")


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table; cells are Markdown already."""
    head = list(header)
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join((*lines, *(f"| {' | '.join(row)} |" for row in rows)))


def _outside_code(text: str) -> str:
    parts = re.split(r"(``.+?``|`.+?`)", text)
    return "".join(f"`{p.strip('`')}`" if p.startswith("`") else p.replace("<", "&lt;") for p in parts)


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Split into paragraphs; a table with rules is one block, whatever blank lines it holds."""
    block: list[str] = []
    for line in lines:
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []
    if block:
        yield block


def _block(lines: list[str]) -> str:
    if _RULE.match(lines[0]):
        return _ruled(lines)
    if all(line.startswith("    ") for line in lines):
        return "\n".join(("```text", *(line[4:] for line in lines), "```"))
    labelled = _labelled(lines)
    if labelled:
        return table(("", ""), ((f"`{label}`", cell(text)) for label, text in labelled))
    if any(line.startswith(("* ", "- ")) for line in lines):
        return "\n".join(inline(re.sub(r"^\* ", "- ", line)) for line in lines)
    return inline("\n".join(lines))


def _labelled(lines: list[str]) -> list[tuple[str, str]] | None:
    """Parse rows ``label   text``, continued on indented lines; None when the block is something else."""
    out: list[tuple[str, str]] = []
    if _RULE.match(lines[0]):
        return None
    for line in lines:
        row = _ROW.match(line)
        if row:
            out.append((row[1], row[2]))
        elif out and line.startswith("  "):
            out[-1] = out[-1][0], f"{out[-1][1]} {line.strip()}"
        else:
            return None
    return out or None


def _ruled(lines: list[str]) -> str:
    """Return a table between rules of ``=``: columns are where the rules are; a row without a first cell continues the last."""
    spans = [m.span() for m in re.finditer("=+", lines[0])]
    ends = [start for start, _ in spans[1:]] + [None]
    cells = [
        [line[a:b].strip() for (a, _), b in zip(spans, ends, strict=True)] for line in lines if not _RULE.match(line)
    ]
    merged: list[list[str]] = []
    for row in cells:
        if merged and not row[0]:
            merged[-1] = [f"{old} {new}".strip() for old, new in zip(merged[-1], row, strict=True)]
        else:
            merged.append(row)
    has_head = sum(1 for line in lines if _RULE.match(line)) > 2
    head = merged.pop(0) if has_head else [""] * len(spans)
    return table(map(cell, head), ([cell(c) for c in row] for row in merged))
