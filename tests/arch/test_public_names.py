"""No dead doors: what has a public name is used by the product, is described to users, or is listed here with what it is for."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tests.arch.sources import MODULES, ROOT, nodes, parsed

#: Public names that only tests use, with what for; the test that uses each is looked for.
FOR_TESTS = {
    "lakeidx.bucket_assignment.hash_map:HashMap.memory_bytes": "the bound on memory of an assignment",
    "lakeidx.bucket_assignment.hash_set:HashFilter.memory_bytes": "the bound on memory of finding keys",
    "lakeidx.lookup.keys.order:KeyOrder.unsigned_bytes": "the order of stores whose keys are no rows",
}  # fmt: skip
#: Public names that libraries or users call and no page describes, with who.
FOR_OTHERS = {
    "lakeidx.file_index.registry:register_file_index": "users, for a type without an entry point",
    "lakeidx.predicate.builder:Column.is_not_null": "users, who write predicates",
    "lakeidx.predicate.builder:Column.not_in": "users, who write predicates",
    "lakeidx.storage.probe:forget_probes": "the shipped store contract",
    "lakeidx.storage.files:OutputFile.seekable": "pyarrow asks the files that it writes to",
}


def public(tree: ast.Module) -> Iterator[str]:
    """Functions, classes and constants of a module, and methods of its classes.

    Methods of classes with a base from elsewhere are left out: a library calls those.
    """
    for node in tree.body:
        for name in _names(node):
            if not name.startswith("_"):
                yield name
        if isinstance(node, ast.ClassDef) and not _has_a_base_from_elsewhere(node):
            methods = (m.name for m in node.body if isinstance(m, (ast.FunctionDef, ast.AsyncFunctionDef)))
            yield from (f"{node.name}.{m}" for m in methods if not m.startswith("_"))


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [t.id for t in targets if isinstance(t, ast.Name)]


def _has_a_base_from_elsewhere(node: ast.ClassDef) -> bool:
    bases = {ast.unparse(b).split("[")[0] for b in node.bases}
    return bool(bases - _classes() - {"Protocol", "Generic", "Enum", "IntEnum", "StrEnum"})


@cache
def _classes() -> frozenset[str]:
    return frozenset(n.name for file in MODULES.values() for n in nodes(file) if isinstance(n, ast.ClassDef))


def named(code: Iterable[ast.AST]) -> Counter[str]:
    """How often code names what: as a name, an attribute, an import, a keyword or a text (of `getattr` and lazy imports)."""
    out: Counter[str] = Counter()
    for node in code:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            out[node.id] += 1
        elif isinstance(node, ast.Attribute):
            out[node.attr] += 1
        elif isinstance(node, ast.ImportFrom):
            out.update(alias.name for alias in node.names)
        elif isinstance(node, ast.keyword) and node.arg:
            out[node.arg] += 1
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            out.update(re.findall(r"\w+", node.value) if re.fullmatch(r"[\w.:]+", node.value) else ())
    return out


@cache
def _named_in(file: Path) -> Counter[str]:
    return named(nodes(file))


def _naming(files: Iterable[Path], words: Iterable[str]) -> Iterator[Path]:
    """Files that have one of some words at all: only they are worth parsing."""
    any_of = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b")
    yield from (f for f in files if any_of.search(f.read_text(encoding="utf-8")))


def _own() -> dict[str, Path]:
    """The modules of the product without the test kit, which is for tests."""
    return {module: file for module, file in MODULES.items() if not module.startswith("lakeidx.testing")}


@cache
def _used() -> Counter[str]:
    out: Counter[str] = Counter()
    for file in _own().values():
        # To hand a name on is no use of it.
        handed_on = (ast.ImportFrom, ast.Constant) if file.name == "__init__.py" else ()
        out.update(named(n for n in nodes(file) if not isinstance(n, handed_on)) if handed_on else _named_in(file))
    return out


@cache
def _described() -> frozenset[str]:
    """Words of pages, and of the entry points that name plug-ins."""
    pages = [ROOT / "README.md", ROOT / "pyproject.toml", *(ROOT / "docs").rglob("*.md")]
    return frozenset(word for page in pages for word in re.findall(r"\w+", page.read_text(encoding="utf-8")))


@cache
def _dead() -> frozenset[str]:
    """Public names that the product defines and never names, and that no page describes."""
    found = {(module, name) for module, file in _own().items() for name in public(parsed(file))}
    last = {(module, name): name.rsplit(".", 1)[-1] for module, name in found}
    return frozenset(f"{m}:{n}" for (m, n), word in last.items() if not _used()[word] and word not in _described())


def test_every_public_name_is_used_described_or_there_for_tests() -> None:
    assert not sorted(_dead() - set(FOR_TESTS) - set(FOR_OTHERS))


def test_names_that_are_there_for_tests_are_used_by_them_and_by_nobody_else() -> None:
    assert not sorted({*FOR_TESTS, *FOR_OTHERS} - _dead()), "used or gone by now: take it out of the lists"
    wanted = {n: n.rpartition(":")[2].rsplit(".", 1)[-1] for n in FOR_TESTS}
    words = {w for f in _naming((ROOT / "tests").rglob("test_*.py"), wanted.values()) for w in _named_in(f)}
    assert not [n for n, word in wanted.items() if word not in words]


def test_what_only_its_own_module_uses_is_private() -> None:
    """Functions and constants; a class may be public because a public function takes or returns it."""
    where: dict[str, set[Path]] = {}
    for file in MODULES.values():
        for word in _named_in(file):
            where.setdefault(word, set()).add(file)
    alone: dict[str, str] = {}
    for module, file in MODULES.items():
        stood = [n for n in parsed(file).body if not isinstance(n, ast.ClassDef)]
        names = [n for node in stood for n in _names(node) if not n.startswith("_")]
        names = [n for n in names if (n.islower() or (n.isupper() and len(n) > 1)) and where.get(n, set()) <= {file}]
        alone |= {f"{module}:{n}": n for n in names if n not in _described()}
    others = (f for d in ("tests", "bench", "tools") for f in (ROOT / d).rglob("*.py"))
    words = {w for f in _naming(others, alone.values()) for w in _named_in(f)} if alone else set()
    assert not sorted({n for n, word in alone.items() if word not in words} - set(FOR_OTHERS))


def test_the_rule_sees_what_it_is_about() -> None:
    tree = ast.parse(
        "X = 1\ndef f(): pass\nclass A:\n    def g(self): pass\nclass B(io.RawIOBase):\n    def h(self): pass"
    )
    assert list(public(tree)) == ["X", "f", "A", "A.g", "B"]
    assert not named(ast.walk(tree))["g"]
    assert named(ast.walk(ast.parse("a.g()")))["g"] == 1


def test_what_follows_from_a_schema_is_kept_under_a_name_of_one_module() -> None:
    """`TableSchema.once` gives what is kept under a name, whoever computed it: another module's name is another's value."""
    users: dict[str, set[str]] = {}
    for module, file in MODULES.items():
        for call in nodes(file):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "once":
                name = call.args[0].values[0] if isinstance(call.args[0], ast.JoinedStr) else call.args[0]
                assert isinstance(name, ast.Constant), f"{module}:{call.lineno}: a name begins with a literal"
                users.setdefault(str(name.value), set()).add(module)
    assert {"table_index"} <= set(users)
    assert not {name: modules for name, modules in users.items() if len(modules) > 1}
