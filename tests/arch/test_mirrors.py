"""Every module has a test file of its own, or is listed with where it is tested."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.arch.sources import MODULES, ROOT, nodes
from tests.arch.tested_elsewhere import ELSEWHERE

TESTS = ROOT / "tests"
#: Modules that are started by name: module or test -> what it starts.
STARTED = {
    "lakeidx.cli.main": {m for m in MODULES if m.startswith("lakeidx.cli.")},
    "lakeidx.spark.datasource": {
        "lakeidx.spark.table_reader",
        "lakeidx.spark.stream_reader",
        "lakeidx.spark.table_writer",
    },
    "lakeidx.dagster.ui": {"lakeidx.dagster.definitions"},
    "dagster_project.definitions": {"dagster_project.defs.pipelines", "dagster_project.defs.demo"},
    "tests/dagster/test_stage_jobs.py": {m for m in MODULES if m.startswith("lakeidx.jobs.")},
    "tests/spark/test_frame_upsert.py": {"lakeidx.spark.frame_upsert"},
    "tests/spark/test_cluster.py": {m for m in MODULES if m.startswith("lakeidx.jobs.")},
    "tests/unit/maintenance/test_snapshot_expiry_job.py": {"lakeidx.jobs.snapshot_expiry"},
    "tests/unit/compaction/test_rewrite.py": {"lakeidx.testing.peak_memory"},
    "tests/browser/test_ui.py": {"dagster_project.definitions", "dagster_project.flights.run", "lakeidx.dagster.ui"},
    "tests/browser/test_visitor.py": {"dagster_project.definitions", "lakeidx.dagster.ui"},
    "tests/unit/dagster/test_deploy_files.py": {"lakeidx.dagster.definitions"},
}


def own_file(module: str) -> Path:
    """Where the tests of a module belong."""
    parts = module.removeprefix("lakeidx.").split(".")
    return TESTS / "unit" / Path(*parts[:-1]) / f"test_{parts[-1]}.py"


def modules_with_code() -> set[str]:
    """All modules but packages themselves and what `python -m` starts."""
    return {m for m, file in MODULES.items() if file.name not in ("__init__.py", "__main__.py")}


@cache
def imported(file: Path) -> frozenset[str]:
    """Modules of the project and test modules that a file imports, in functions and for types, too."""
    out: set[str] = set()
    for node in nodes(file):
        if isinstance(node, ast.ImportFrom) and node.module:
            out |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
        elif isinstance(node, ast.Import):
            out |= {a.name for a in node.names}
    return frozenset(out)


@cache
def file_of(name: str) -> Path | None:
    """The file of a module of the product or of the tests; None for other modules, and for what modules hold."""
    if not name.startswith("tests."):
        return MODULES.get(name)
    helper = ROOT / Path(*name.split(".")).with_suffix(".py")
    return helper if helper.exists() else None


@cache
def reached(test: str) -> frozenset[str]:
    """Modules that a test file reaches by imports, however long the way."""
    seen: set[str] = set()
    todo = {*imported(TESTS / test), *STARTED.get(f"tests/{test}", ())}
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        file = file_of(name)
        if file is not None:
            todo |= imported(file) | STARTED.get(name, set())
    return frozenset(seen)


def test_every_module_is_tested_where_a_reader_finds_it() -> None:
    without = {m for m in modules_with_code() if not own_file(m).exists()}
    assert without == set(ELSEWHERE), "give the module a test file, or list where it is tested; take out what has one"


def test_the_files_listed_reach_their_modules() -> None:
    wrong = {(m, t) for m, tests in ELSEWHERE.items() for t in tests if not (TESTS / t).exists() or m not in reached(t)}
    assert not sorted(wrong)
    assert all(ELSEWHERE.values())


def test_a_module_that_is_not_imported_is_not_reached() -> None:
    assert "lakeidx.data.orders" not in reached("unit/codec/containers/test_lzo.py")
    assert "lakeidx.table.commit.commit_changes" not in reached("unit/codec/containers/test_lzo.py")
    assert "lakeidx.codec.containers.lzo" in reached("unit/codec/containers/test_lzo.py")
