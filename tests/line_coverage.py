"""Measures which lines of lakeidx a lane reaches, for little of what tracing costs: ``pytest -p tests.line_coverage``.

Before Python 3.12 coverage.py can only be called for every line of every library, which made the fast lane twice as
long. Here the modules of lakeidx are compiled with a mark before each statement instead. Each process writes what it
reached to the folder LAKEIDX_COVERAGE; `missed_floor` hands that to coverage.py, which knows the lines that count.

An `except` or a `case` counts as reached when its block or a later one is.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.machinery
import importlib.util
import json
import marshal
import os
import re
import sys
import tomllib
from collections.abc import Collection, Sequence
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatch
from functools import cache
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, cast

import coverage

ROOT = Path(__file__).resolve().parent.parent
#: What a lane that is measured is started with, and the variable that names where its processes write.
ARGUMENTS, FOLDER = ("-p", "tests.line_coverage"), "LAKEIDX_COVERAGE"
_ENDING = ".lines.json"
_PROCESSES = 2
#: Per cent of the lines of each package, so that no package hides behind the others.
_LEAST_OF_A_PACKAGE = 60.0
_PACKAGE, _ELSEWHERE = "lakeidx", ("lakeidx.testing", "lakeidx.dagster")
#: What a module's marks are called inside it.
_MARKS = "__lines_reached__"
#: File -> 1 for each of its lines that was reached.
_reached: dict[str, list[int]] = {}


def _settings() -> dict[str, Any]:
    """What pyproject.toml says of the report."""
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["coverage"]["report"])


#: Decorators of functions that count no lines: Numba compiles their bytecode, and knows no marks.
_UNCOUNTED = re.compile("|".join(f"(?:{p})" for p in _settings()["exclude_also"]))


def _mark(line: int) -> ast.stmt:
    """``marks[line] = 1`` as code of that line."""
    at: dict[str, Any] = {"lineno": line, "end_lineno": line, "col_offset": 0, "end_col_offset": 0}
    place = ast.Subscript(ast.Name(_MARKS, ast.Load(), **at), ast.Constant(line, **at), ast.Store(), **at)
    return ast.Assign([place], ast.Constant(1, **at), **at)


def _lines_of(statement: ast.stmt) -> list[int]:
    """Where a statement begins, and its decorators."""
    return sorted({statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))})


def _marked(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Put a mark before each statement of a block, and of the blocks inside it."""
    out: list[ast.stmt] = []
    for statement in statements:
        mark_blocks(statement)
        # Docstrings, which are no code, and imports from the future have to stay first.
        if statement is statements[0] and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            out.append(statement)
        elif isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            out += [statement, *map(_mark, _lines_of(statement))]
        else:
            out += [*map(_mark, _lines_of(statement)), statement]
    return out


def mark_blocks(node: ast.AST) -> None:
    """Put marks into the blocks of a module or statement."""
    if any(_UNCOUNTED.search(f"@{ast.unparse(d)}") for d in getattr(node, "decorator_list", ())):
        return
    for name in ("body", "orelse", "finalbody"):
        if isinstance(block := getattr(node, name, None), list):
            setattr(node, name, _marked(block))
    tried: list[int] = []
    for choice in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        tried.append(choice.pattern.lineno if isinstance(choice, ast.match_case) else choice.lineno)
        choice.body = [*map(_mark, tried), *_marked(choice.body)]


#: What marked code depends on besides the source of its module.
_MARKING = Path(__file__).read_bytes() + _UNCOUNTED.pattern.encode()


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a module with marks, and keeps the code beside what Python keeps."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        source = self.get_data(path)
        kept, key = importlib.util.cache_from_source(path, optimization="marked"), _key(source)
        with contextlib.suppress(OSError, EOFError, ValueError, TypeError):
            found = Path(kept).read_bytes()
            if found.startswith(key):
                return cast(CodeType, marshal.loads(found[len(key) :]))
        tree = ast.parse(source, path)
        mark_blocks(tree)
        made = compile(tree, path, "exec", dont_inherit=True)
        if not sys.dont_write_bytecode:
            # Replaces the file as a whole: several processes write it. Says nothing when it cannot.
            self.set_data(kept, key + marshal.dumps(made))
        return made

    def exec_module(self, module: ModuleType) -> None:
        path = self.get_filename(module.__name__)
        lines = self.get_data(path).count(b"\n")
        setattr(module, _MARKS, _reached.setdefault(path, [0] * (lines + 2)))
        super().exec_module(module)


def _key(source: bytes) -> bytes:
    return importlib.util.source_hash(source + _MARKING)


class _Finder(MetaPathFinder):
    """Finds the modules that are measured."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] != _PACKAGE or fullname.startswith(_ELSEWHERE):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


def pytest_configure() -> None:
    sys.meta_path.insert(0, _Finder())


def pytest_sessionfinish() -> None:
    lines = {path: [n for n, mark in enumerate(marks) if mark] for path, marks in _reached.items()}
    (Path(os.environ[FOLDER]) / f"{os.getpid()}{_ENDING}").write_text(json.dumps(lines), encoding="utf-8")


def missed_floor(folder: Path) -> str | None:
    """Print the share of lines that the processes of a lane reached; gives one line when it is below the floor, else None."""
    # What no process imported counts as well.
    files = [str(f) for f in sorted((ROOT / _PACKAGE).rglob("*.py"))]
    omitted = _settings()["omit"]
    reached: dict[str, set[int]] = {f: set() for f in files if not any(fnmatch(f, o) for o in omitted)}
    for report in folder.glob(f"*{_ENDING}"):
        for file, lines in json.loads(report.read_text(encoding="utf-8")).items():
            if file in reached:
                reached[file].update(lines)
    # One processor takes seconds to find the lines that count.
    with ProcessPoolExecutor(_PROCESSES) as pool:
        counted = dict(zip(reached, pool.map(_counted, reached, reached.values(), chunksize=10), strict=True))
    of_package: dict[str, tuple[int, int]] = {}
    for file, (some, all_of_it) in counted.items():
        package = Path(file).relative_to(ROOT / _PACKAGE).parts[0]
        before = of_package.get(package, (0, 0))
        of_package[package] = (before[0] + some, before[1] + all_of_it)
    ran, lines = (sum(column) for column in zip(*of_package.values(), strict=True))
    share = round(100 * ran / lines, 1)
    floor = float(_settings()["fail_under"])
    said = f"{share} % of the lines of {_PACKAGE} ran; pyproject.toml asks for {floor}"
    print(said)
    low = {p: round(100 * a / b, 1) for p, (a, b) in of_package.items() if 100 * a < _LEAST_OF_A_PACKAGE * b}
    if low:
        said = f"packages of which less than {_LEAST_OF_A_PACKAGE} % of the lines ran: {low}"
        print(said)
    return said if low or share < floor else None


def _counted(file: str, reached: Collection[int]) -> tuple[int, int]:
    """Count the lines of a file that were reached, and those that count."""
    measure = _measure()
    measure.get_data().add_lines({file: reached})
    _, counting, _, missed, _ = measure.analysis2(file)
    return len(counting) - len(missed), len(counting)


@cache
def _measure() -> coverage.Coverage:
    """Return one for all files of a process: it reads pyproject.toml."""
    return coverage.Coverage(data_file=None, config_file=str(ROOT / "pyproject.toml"))
