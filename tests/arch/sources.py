"""The source files of the product, each parsed and walked once for all rules."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("lakeidx", "dagster_project")


def _modules() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            parts = file.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), file


#: Dotted name -> file.
MODULES = dict(_modules())


@cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """Every node of a file's syntax tree; what stands further out comes first."""
    # Half a million nodes that live to the end of the run: the garbage collector would look at them again and again.
    gc.disable()
    try:
        found: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
        for node in found:
            for name in node._fields:
                value = getattr(node, name, None)
                if isinstance(value, ast.AST):
                    found.append(value)
                elif isinstance(value, list):
                    found += [v for v in value if isinstance(v, ast.AST)]
        return tuple(found)
    finally:
        gc.freeze()
        gc.enable()


def parsed(file: Path) -> ast.Module:
    """The syntax tree of a file."""
    tree = nodes(file)[0]
    assert isinstance(tree, ast.Module)
    return tree
