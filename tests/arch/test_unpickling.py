"""Nothing that lies in a file is turned into objects by running what it says."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import pytest

from tests.arch.sources import MODULES, ROOT, nodes

#: Runs what the bytes say, or may. Spark's tasks send each other pickled items through Spark; nothing else does.
_MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "jsonpickle"}
_ALLOWED = {
    "lakeidx/spark/runner.py", "lakeidx/spark/frame_upsert.py", "lakeidx/testing/store_contract.py",
}  # fmt: skip
_CALLS = {"eval", "exec", "read_pickle", "unsafe_load", "full_load", "load_all"}


def _imported(code: Iterable[ast.AST]) -> set[str]:
    names: set[str] = set()
    for node in code:
        if isinstance(node, ast.Import):
            names |= {part for alias in node.names for part in alias.name.split(".")}
        elif isinstance(node, ast.ImportFrom):
            names |= {*(node.module or "").split("."), *(alias.name for alias in node.names)}
    return names


def _called(code: Iterable[ast.AST]) -> set[str]:
    calls = [node for node in code if isinstance(node, ast.Call)]
    names = {c.func.id for c in calls if isinstance(c.func, ast.Name)}
    names |= {c.func.attr for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr not in ("eval", "exec")}
    pickles = any(k.arg == "allow_pickle" for c in calls for k in c.keywords)
    return names | ({"allow_pickle"} if pickles else set())


def test_the_rule_sees_what_it_is_about() -> None:
    """A place that unpickles is found when it is not allowed."""
    assert _imported(nodes(ROOT / "lakeidx/spark/runner.py")) & _MODULES == {"pickle", "cloudpickle"}
    assert _called(ast.walk(ast.parse("np.load(x, allow_pickle=True); eval('1')"))) >= {"allow_pickle", "eval"}


@pytest.mark.parametrize("banned", ["modules", "calls"])
def test_nothing_is_unpickled(banned: str) -> None:
    """Modules that unpickle are imported where Spark's own messages are read, and nowhere else."""
    found = {}
    for file in MODULES.values():
        name = str(file.relative_to(ROOT))
        code = nodes(file)
        hits = (_imported(code) & _MODULES if name not in _ALLOWED else set()) if banned == "modules" else (
            _called(code) & (_CALLS | {"allow_pickle"})
        )  # fmt: skip
        if hits:
            found[name] = sorted(hits)
    assert found == {}
