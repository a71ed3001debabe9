"""The code blocks of a page.

A block is run unless the line before it is ``<!-- not run: <reason> -->``. What a page needs before its first block, but should
not show, is in a comment ``<!-- setup`` (newline, Python) ``-->``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>.+?) -->\n)?```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^```$|^<!-- setup\n(?P<setup>.*?)^-->$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block, or the setup of a page (language `setup`)."""

    page: str
    line: int
    language: str
    code: str
    reason: str | None = None

    @property
    def place(self) -> str:
        """For messages."""
        return f"{self.page}:{self.line}"


def blocks(page: str) -> list[Block]:
    """List the blocks of a page; a page is a path from the root."""
    text = (ROOT / page).read_text(encoding="utf-8")
    out = []
    for m in FENCE.finditer(text):
        line = text.count("\n", 0, m.start()) + 1
        if m["setup"] is not None:
            out.append(Block(page, line, "setup", m["setup"]))
        else:
            out.append(Block(page, line, m["language"], m["code"], m["reason"]))
    return out
