"""The structure of the code: imports point one way, heavy libraries stay where they belong, modules stay small."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.arch.sources import MODULES, ROOT, parsed

#: Line of each package; a module imports from its own line or lines above.
LAYERS = {
    "lakeidx.errors": 0, "lakeidx.types": 0, "lakeidx.options": 0, "lakeidx.results": 0,
    "lakeidx.plugins": 0,
    "lakeidx.codec": 1, "lakeidx.predicate": 1, "lakeidx.bucket_assignment": 1,
    "lakeidx.format": 2, "lakeidx.storage": 2,
    "lakeidx.file_index": 3,
    "lakeidx.data": 4,
    "lakeidx.tasks": 5, "lakeidx.table": 5,
    "lakeidx.lookup": 6, "lakeidx.key_index": 6,
    "lakeidx.compaction": 7, "lakeidx.quality": 7, "lakeidx.landing": 7,
    "lakeidx.batch": 8,
    "lakeidx.maintenance": 9, "lakeidx.pipeline_file": 9,
    "lakeidx.spark": 10, "lakeidx.cli": 10, "lakeidx.api": 10, "lakeidx.duckdb": 10, "lakeidx.polars": 10,
    "lakeidx.jobs": 11, "lakeidx.dagster": 12, "dagster_project": 13,
    "lakeidx.testing": 14,
}  # fmt: skip

#: Libraries that only some packages may import.
KEPT_TO = {
    "pyspark": ("lakeidx.spark", "lakeidx.jobs"),
    "fsspec": ("lakeidx.storage",),
    "obstore": ("lakeidx.storage",),
    "dagster": ("lakeidx.dagster", "dagster_project"),
    "dagster_pipes": ("lakeidx.jobs",),
    "great_expectations": ("lakeidx.dagster",),
    "typer": ("lakeidx.cli",),
}

#: Parts that the core finds by entry points (`lakeidx.plugins`), and what may import each: itself, and its own commands.
PLUGINS = {
    "lakeidx.key_index.hbase": (),
    "lakeidx.key_index.hudi_table": ("lakeidx.api.hudi",),
    "lakeidx.api.hudi": (),
    "lakeidx.key_index.advice": ("lakeidx.maintenance.advise", "lakeidx.cli.advise_command"),
    "lakeidx.maintenance.advise": ("lakeidx.cli.advise_command",),
    "lakeidx.landing.cdc": ("lakeidx.api.feeds",),
    "lakeidx.api.feeds": ("lakeidx.api.warehouse", "lakeidx.cli.write_commands", "lakeidx.dagster"),
    "lakeidx.spark": ("lakeidx.jobs", "lakeidx.dagster"),
}

#: Packages that others may not import, though their layer is lower: (importing package, what stays out of it).
KEPT_OUT = (("lakeidx.jobs", "lakeidx.cli"), ("lakeidx.jobs", "lakeidx.dagster"))


@cache
def imports(file: Path) -> tuple[tuple[str, bool], ...]:
    """(imported module, whether inside a function) of every import that runs."""
    return tuple(_imports(parsed(file), inside=False))


def _imports(parent: ast.AST, *, inside: bool) -> Iterator[tuple[str, bool]]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.Import):
            yield from ((alias.name, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not used here"
            if node.module:
                yield node.module, inside
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        elif isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield from _imports(node, inside=inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def layer_of(module: str) -> int | None:
    """The line of a module, by its longest known prefix."""
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        found = LAYERS.get(".".join(parts[:end]))
        if found is not None:
            return found
    return None


def test_imports_point_one_way() -> None:
    wrong = []
    for name, file in MODULES.items():
        if name == "lakeidx":
            continue
        mine = layer_of(name)
        assert mine is not None, f"{name} has no line in LAYERS"
        for imported, _ in imports(file):
            theirs = layer_of(imported)
            if theirs is not None and theirs > mine:
                wrong.append(f"{name} (line {mine}) imports {imported} (line {theirs})")
    assert not wrong


#: Most rooms (packages and modules right below lakeidx), and floors: the longest way of imports down from one.
MOST_ROOMS, MOST_FLOORS = 30, 12


def test_the_rooms_stand_on_few_floors_without_a_circle() -> None:
    rooms: dict[str, set[str]] = {}
    for name, file in MODULES.items():
        if name.startswith("lakeidx."):
            mine = rooms.setdefault(name.split(".")[1], set())
            mine |= {i.split(".")[1] for i, _ in imports(file) if i.startswith("lakeidx.")} - {name.split(".")[1]}
    floors, left = 0, {room: below & rooms.keys() for room, below in rooms.items()}
    while left:
        lowest = {room for room, below in left.items() if not below}
        assert lowest, f"these rooms import each other in a circle: {sorted(left)}"
        left = {room: below - lowest for room, below in left.items() if room not in lowest}
        floors += 1
    assert len(rooms) <= MOST_ROOMS, sorted(rooms)
    assert floors <= MOST_FLOORS


def test_libraries_stay_where_they_belong() -> None:
    wrong = []
    for name, file in MODULES.items():
        for imported, _ in imports(file):
            allowed = KEPT_TO.get(imported.split(".")[0])
            if allowed is not None and not name.startswith(allowed):
                wrong.append(f"{name} imports {imported}; only {', '.join(allowed)} may")
    assert not wrong


def test_packages_stay_out_of_those_above_them() -> None:
    wrong = [
        f"{name} imports {imported}"
        for name, file in MODULES.items()
        for imported, _ in imports(file)
        for package, kept_out in KEPT_OUT
        if f"{name}.".startswith(f"{package}.") and f"{imported}.".startswith(f"{kept_out}.")
    ]
    assert not wrong


def test_the_core_imports_no_plug_in() -> None:
    wrong = [
        f"{name} imports {imported}"
        for name, file in MODULES.items()
        for imported, _ in imports(file)
        for plugin, users in PLUGINS.items()
        if f"{imported}.".startswith(f"{plugin}.")
        and not f"{name}.".startswith((f"{plugin}.", *(f"{u}." for u in users)))
    ]
    assert not wrong
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    named = [v.partition(":")[0] for g in entries if g.startswith("lakeidx.") for v in entries[g].values()]
    assert [n for n in named if not f"{n}.".startswith(tuple(f"{p}." for p in PLUGINS))] == []


def test_struct_formats_say_their_byte_order() -> None:
    call = re.compile(r"struct\.(?:un)?pack(?:_from|_into)?\(\s*f?[\"']([^\"']*)")
    wrong = []
    for name, file in MODULES.items():
        for found in call.findall(file.read_text(encoding="utf-8")):
            if not found.startswith(("<", ">")):
                wrong.append(f"{name}: struct format {found!r} must begin with < or >")
    assert not wrong


def test_every_module_says_what_it_is() -> None:
    assert not [n for n, f in MODULES.items() if parsed(f).body and not ast.get_docstring(parsed(f))]


def test_no_import_cycles() -> None:
    graph = {
        name: {i for i, inside in imports(file) if i in MODULES and not inside and i != name}
        for name, file in MODULES.items()
        if file.name != "__init__.py"
    }
    state: dict[str, int] = {}

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert state.get(name) != 1, f"cycle: {' -> '.join((*trail, name))}"
        if state.get(name) == 2:
            return
        state[name] = 1
        for child in graph.get(name, ()):
            visit(child, (*trail, name))
        state[name] = 2

    for name in graph:
        visit(name, ())


def test_nothing_names_a_machine_or_a_registry() -> None:
    words = re.compile(r"/work/(?:main|shared|plan|\.)|/root/|pypi\.org|repo1?\.maven|registry\.npmjs")
    for folder in ("lakeidx", "jobs", "dagster_project", "deploy", "docs", "tools", "bench", "pipelines", "tests"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in (".py", ".md", ".yaml", ".yml", ".toml", ".sh", ".txt") and "golden/" not in str(file):
                if file == Path(__file__):
                    continue
                found = words.search(file.read_text(encoding="utf-8", errors="replace"))
                assert not found, f"{file.relative_to(ROOT)} names {found.group(0)!r}"
