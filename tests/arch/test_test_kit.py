"""The test kit is shipped, but nothing that users run depends on it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.arch.sources import MODULES, ROOT, nodes

KIT = ROOT / "lakeidx" / "testing"


def _imported(file: Path) -> Iterator[str]:
    """Every module that a file names in an import, those inside functions and for type checkers, too."""
    for node in nodes(file):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def test_the_product_never_imports_the_test_kit() -> None:
    wrong = []
    for file in MODULES.values():
        if KIT in file.parents:
            continue
        named = [m for m in _imported(file) if any(_within(m, p) for p in ("lakeidx.testing", "tests", "bench"))]
        wrong += [f"{file.relative_to(ROOT)} imports {m}" for m in named]
    assert not wrong


def test_the_test_kit_needs_no_checkout() -> None:
    """It is in the wheel; tests and benchmarks are not."""
    files = sorted(KIT.glob("*.py"))
    assert len(files) > 3
    named = {f.name: [m for m in _imported(f) if any(_within(m, p) for p in ("tests", "bench"))] for f in files}
    assert not {name: modules for name, modules in named.items() if modules}
