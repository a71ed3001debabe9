"""One sign per thing: a public class or function has a name of its own. The numbers only go down."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.arch.sources import MODULES, parsed

#: Faces whose functions are named after the verbs they bring elsewhere: commands, programs, doors of other libraries.
FACES = ("lakeidx.cli.", "lakeidx.jobs.", "lakeidx.spark.", "lakeidx.duckdb", "lakeidx.polars")
MOST_CLASSES, MOST_FUNCTIONS = 0, 0


def doubled(kinds: tuple[type[ast.stmt], ...]) -> dict[str, list[str]]:
    """Modules by the public name that more than one of them defines."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, file in MODULES.items():
        for node in parsed(file).body:
            if isinstance(node, kinds) and not node.name.startswith("_") and node.name != "main":  # type: ignore[attr-defined]
                found[node.name].add(module)  # type: ignore[attr-defined]
    kept = {name: sorted(m for m in modules if not m.startswith(FACES)) for name, modules in found.items()}
    return {name: modules for name, modules in kept.items() if len(modules) > 1}


def test_classes_and_functions_have_names_of_their_own() -> None:
    classes, functions = doubled((ast.ClassDef,)), doubled((ast.FunctionDef, ast.AsyncFunctionDef))
    assert len(classes) <= MOST_CLASSES, classes
    assert len(functions) <= MOST_FUNCTIONS, functions
