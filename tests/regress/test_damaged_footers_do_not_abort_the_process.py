"""Arrow's objects for column chunks abort the process on some damaged footers; ingest, key readers and inspect used them."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Reads the footer of a file that this process has just written, or a sample that a person names on the command line.
_ALLOWED = {"lakeidx/data/stats.py", "lakeidx/maintenance/advise.py"}


def _uses_chunk_objects(tree: ast.AST) -> bool:
    """True for ``….row_group(…).column(…)``, also by way of a name for the row group."""
    groups = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _is_call(node.value, "row_group")
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "column":
            of = node.func.value
            if _is_call(of, "row_group") or (isinstance(of, ast.Name) and of.id in groups):
                return True
    return False


def _is_call(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name


def test_the_rule_sees_what_it_is_about() -> None:
    """Both ways of writing it."""
    assert _uses_chunk_objects(ast.parse("m.row_group(0).column(1)"))
    assert _uses_chunk_objects(ast.parse("g = m.row_group(0)\ng.column(1).statistics"))
    assert not _uses_chunk_objects(ast.parse("m.row_group(0).num_rows; t.column('a')"))


def test_files_of_others_are_read_without_them() -> None:
    """`lakeidx.data.parquet.chunks` says what footers say of column chunks."""
    found = [
        str(file.relative_to(ROOT))
        for file in sorted((ROOT / "lakeidx").rglob("*.py"))
        if _uses_chunk_objects(ast.parse(file.read_text())) and "testing" not in file.parts
    ]
    assert set(found) <= _ALLOWED
