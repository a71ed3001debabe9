"""The code blocks of README and of the pages under docs/, and how they are run.

Blocks of one page run in their order, in one empty directory; its Python blocks share their names. ``text`` blocks show output or a
drawing, ``sql`` and ``java`` what another program runs.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer

from lakeidx.cli.main import app
from tools.docs.blocks import FENCE, ROOT, Block, blocks

LANGUAGES = ("python", "sh", "yaml", "json", "text", "sql", "java")


def pages() -> list[str]:
    """README and every page that is written by hand, as paths from the root."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [str(f.relative_to(ROOT)) for f in found]


def run_page(page: str, directory: Path, **given: Any) -> int:
    """Run the blocks of a page in a directory; the number of blocks that ran.

    given   names the blocks find; with some, blocks that say why they are not run elsewhere run, too
    """
    names: dict[str, Any] = {"__name__": "__docs__", **given}
    count = 0
    for block in blocks(page):
        if (block.reason and not given) or block.language not in ("python", "sh", "setup"):
            continue
        if block.language == "sh":
            _shell(block, directory)
        else:
            code = "\n" * block.line + block.code
            # Annotations as a reader's file has them: Dagster looks at them.
            exec(compile(code, str(ROOT / page), "exec", dont_inherit=True), names)
        count += block.language != "setup"
    return count


def _shell(block: Block, directory: Path) -> None:
    programs = directory.parent / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "lakeidx").write_text(f'#!/bin/sh\nexec {sys.executable} -m lakeidx.cli.main "$@"\n', encoding="utf-8")
    (programs / "lakeidx").chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-euc", block.code], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{block.place}: {done.stderr}"


def command_lines(page: str) -> Iterator[tuple[str, list[str]]]:
    """(place, words) of every call of lakeidx in a page: in shell blocks, and in inline code that names options."""
    for block in blocks(page):
        if block.language == "sh":
            for i, line in enumerate(block.code.replace("\\\n", " ").splitlines(), block.line + 1):
                yield from _calls(f"{page}:{i}", line)
    text = (ROOT / page).read_text(encoding="utf-8")
    prose = FENCE.sub(lambda m: "\n" * m[0].count("\n"), text)
    for m in re.finditer(r"`(lakeidx [^`]+)`", prose):
        yield from _calls(f"{page}:{prose.count(chr(10), 0, m.start()) + 1}", m[1].replace("\n", " "))


def _calls(place: str, line: str) -> Iterator[tuple[str, list[str]]]:
    lexer = shlex.shlex(line.replace("…", "").replace("[", "").replace("]", ""), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if not set(word) <= set("&|;<>()"):
            words.append(word)
            continue
        if words[:1] == ["lakeidx"]:
            yield place, words[1:]
        words = []


@cache
def _program() -> Any:
    return typer.main.get_command(app)


def unknown_words(words: list[str]) -> list[str]:
    """What the command line does not know of a call: a command, or options of it."""
    node = _program()
    rest = list(words)
    while rest and hasattr(node, "commands") and not rest[0].startswith("-"):
        if rest[0] not in node.commands:
            return rest[:1]
        node = node.commands[rest.pop(0)]
    known = {o for p in node.params for o in (*p.opts, *p.secondary_opts)} | {"--help", "-h"}
    return [w for w in rest if re.match(r"^--?[a-z]", w) and w.partition("=")[0] not in known]
