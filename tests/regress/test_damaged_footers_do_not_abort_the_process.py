"""Arrow's objects for column chunks abort the process on some damaged footers; ingest, key readers and inspect used them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tests.arch.sources import MODULES, ROOT, nodes

#: Reads the footer of a file that this process has just written, or a sample that a person names on the command line.
_ALLOWED = {"lakeidx/data/stats.py", "lakeidx/maintenance/advise.py"}


def _uses_chunk_objects(code: Sequence[ast.AST]) -> bool:
    """True for ``….row_group(…).column(…)``, also by way of a name for the row group."""
    groups = {
        target.id
        for node in code
        if isinstance(node, ast.Assign) and _is_call(node.value, "row_group")
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in code:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "column":
            of = node.func.value
            if _is_call(of, "row_group") or (isinstance(of, ast.Name) and of.id in groups):
                return True
    return False


def _is_call(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name


def test_the_rule_sees_what_it_is_about() -> None:
    """Both ways of writing it."""
    for text in ("m.row_group(0).column(1)", "g = m.row_group(0)\ng.column(1).statistics"):
        assert _uses_chunk_objects(list(ast.walk(ast.parse(text))))
    assert not _uses_chunk_objects(list(ast.walk(ast.parse("m.row_group(0).num_rows; t.column('a')"))))


def test_files_of_others_are_read_without_them() -> None:
    """`lakeidx.data.parquet.chunks` says what footers say of column chunks."""
    found = [
        str(file.relative_to(ROOT))
        for name, file in MODULES.items()
        if name.startswith("lakeidx") and not name.startswith("lakeidx.testing") and _uses_chunk_objects(nodes(file))
    ]
    assert set(found) <= _ALLOWED
