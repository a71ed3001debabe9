"""Rooms of a size: packages, modules and functions stay small, and every package says what lives in it."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.arch.sources import MODULES, PACKAGES, ROOT, nodes, parsed

MAX_MODULES = 15
MAX_LINES = 600
MAX_FUNCTION_LINES = 60


def test_modules_are_small() -> None:
    sizes = {name: len(file.read_text(encoding="utf-8").splitlines()) for name, file in MODULES.items()}
    assert not {name: size for name, size in sizes.items() if size > MAX_LINES}


def test_functions_are_small() -> None:
    """Docstrings and the functions inside count: what does not fit one screen is read in pieces anyway."""
    sizes = {
        f"{name}:{f.name}": (f.end_lineno or f.lineno) - f.lineno + 1
        for name, file in MODULES.items()
        for f in nodes(file)
        if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    assert not {name: size for name, size in sizes.items() if size > MAX_FUNCTION_LINES}


def test_packages_hold_few_modules() -> None:
    folders = {file.parent for file in MODULES.values()}
    counts = {str(f.relative_to(ROOT)): sum(m.name != "__init__.py" for m in f.glob("*.py")) for f in folders}
    assert not {folder: count for folder, count in counts.items() if count > MAX_MODULES}


def test_packages_say_what_lives_there_what_to_import_and_what_does_not_belong() -> None:
    files = [f for p in PACKAGES for f in sorted((ROOT / p).rglob("__init__.py"))]
    lengths = {str(Path(f).relative_to(ROOT)): len((ast.get_docstring(parsed(f)) or "").splitlines()) for f in files}
    assert not {name: lines for name, lines in lengths.items() if not 3 <= lines <= 10}
