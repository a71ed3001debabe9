"""The sdist and the wheel: built as `make dist` does, installed into an environment that has nothing, and used."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import lakeidx
from tests.kit.once import made_once
from tests.packaging.linked_packages import link_requirements

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow
#: All that an installed wheel adds to the names that Python imports; Spark finds its data source by the second.
TOP_LEVEL = ("lakeidx", "pyspark_lakeidx")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one sdist and the wheel that was built from it."""

    def make(out: Path) -> None:
        tree = tmp_path_factory.mktemp("tree") / "lakeidx"
        # A copy: setuptools writes lakeidx.egg-info beside the sources, which other tests import meanwhile.
        shutil.copytree(
            ROOT, tree, ignore=shutil.ignore_patterns(".git", ".venv", ".work", ".*_cache", "*.egg-info", "dist")
        )
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(tree)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    return made_once(tmp_path_factory, "dist", make)


def sources() -> set[str]:
    """Files of the packages, as the wheel must have them."""
    packages, named = TOP_LEVEL, ("py.typed", "kernels.txt")
    files = (f for p in packages for f in (ROOT / p).rglob("*") if f.suffix in (".py", ".jinja") or f.name in named)
    return {str(f.relative_to(ROOT)) for f in files}


def test_the_wheel_holds_every_module_and_nothing_else(dist: Path) -> None:
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
        info = f"lakeidx-{lakeidx.__version__}.dist-info/"
        entry_points = wheel.read(info + "entry_points.txt").decode()
    assert "[dagster_dg_cli.registry_modules]\nlakeidx = lakeidx.dagster\n" in entry_points
    assert {n.partition("/")[0] for n in names if not n.startswith(info)} == set(TOP_LEVEL)
    assert {n for n in names if not n.startswith(info)} == sources()
    assert {info + "licenses/LICENSE", info + "licenses/NOTICE"} <= names


def test_the_sdist_is_the_source_tree(dist: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = [
        "Makefile",
        "LICENSE",
        "requirements.lock",
        "docs/design.md",
        "deploy/Containerfile",
        "pipelines/flights.yaml",
    ]
    folders = {"dagster_project/definitions.py", "jobs/run.py", "tests/packaging/test_distribution.py"}
    assert sources() | set(wanted) | folders <= names
    assert not [n for n in names if "__pycache__" in n or n.startswith((".work", ".venv"))]


#: Prints components and tables that Dagster finds, and from where lakeidx came; the repository's folder cannot be imported.
DAGSTER = """
import sys
sys.modules["dagster_project"] = None
import lakeidx
from dagster.components.core.package_entry import discover_entry_point_package_objects
from lakeidx.dagster.definitions import defs
print(lakeidx.__file__)
print(*(f"{key.namespace}.{key.name}" for key in discover_entry_point_package_objects() if "lakeidx" in key.namespace))
print(*sorted(job.name for job in defs.jobs))
"""
PIPELINE = """
table: shop.orders
warehouse: warehouse
landing: {path: landing}
fields: [{name: id, type: BIGINT}]
primaryKeys: [id]
options: {bucket: -1}
"""


def test_dagster_needs_nothing_of_the_repository(dist: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
        wheel.extractall(site)
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines/orders.yaml").write_text(PIPELINE, encoding="utf-8")
    plain = {k: v for k, v in bare_environment().items() if not k.startswith("LAKEIDX_")}
    command = [sys.executable, "-c", DAGSTER]
    done = subprocess.run(
        command, cwd=tmp_path, env={**plain, "PYTHONPATH": str(site)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    place, components, jobs = done.stdout.splitlines()
    assert place == str(site / "lakeidx/__init__.py")
    names = ("FeedTables", "PrimaryKeyTable", "TableMaintenance", "WarehouseTables")
    assert sorted(components.split()) == [f"lakeidx.dagster.{n}" for n in names]
    assert "shop__orders__batch" in jobs.split()


def bare_environment() -> dict[str, str]:
    """Environment variables without those by which the source tree or this environment's packages could help out."""
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command `lakeidx` of a fresh environment that holds the wheel and what it depends on, no extra."""

    def make(folder: Path) -> None:
        home = folder / "venv"
        venv.create(home, with_pip=False)
        pip = [sys.executable, "-m", "pip", "--python", str(home / "bin/python"), "install", "--quiet", "--no-compile"]
        command = [*pip, "--no-index", "--no-deps", str(next(dist.glob("*.whl")))]
        done = subprocess.run(command, env=bare_environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (site,) = home.glob("lib/python*/site-packages")
        linked = link_requirements("lakeidx", site)
        assert {"numba", "pyarrow", "llvmlite"} <= linked
        assert not {"pyspark", "dagster", "duckdb", "polars", "pytest"} & linked

    return made_once(tmp_path_factory, "environment", make) / "venv/bin/lakeidx"


TABLE = (
    "import lakeidx; t = lakeidx.Table.create('lake/db.db/t', {'fields': [{'name': 'id', 'type': 'BIGINT'}],"
    " 'primaryKeys': ['id'], 'options': {'bucket': '-1', **OPTIONS}}); "
)
NEEDING = {
    "spark": ["from lakeidx.spark import register", TABLE.replace("**OPTIONS", "") + "t.compact(runner='spark')"],
    "dagster": ["from lakeidx.dagster import PrimaryKeyTable"],
    "duckdb": ["import lakeidx.duckdb; lakeidx.duckdb.attach('lake')"],
    "polars": ["import lakeidx.polars; lakeidx.polars.scan(None)"],
    "hbase": [
        TABLE.replace("**OPTIONS", "'index.type': 'hbase', 'hoodie.index.hbase.table': 't'") + "t.upsert([{'id': 1}])"
    ],
    "test": ["import lakeidx.testing.store_contract"],
}


@pytest.mark.share(0.3)
@pytest.mark.parametrize(("extra", "program"), [(e, p) for e, programs in NEEDING.items() for p in programs])
def test_an_error_that_needs_an_extra_names_it(installed: Path, tmp_path: Path, extra: str, program: str) -> None:
    command = [str(installed.with_name("python")), "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=bare_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"pip install 'lakeidx[{extra}]'" in done.stderr.splitlines()[-1], done.stderr


def test_an_empty_environment_can_use_the_wheel(installed: Path, tmp_path: Path) -> None:
    environment = bare_environment()

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [str(installed), *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    schema = {
        "fields": [{"name": "id", "type": "BIGINT"}, {"name": "name", "type": "STRING"}],
        "primaryKeys": ["id"],
        "options": {"bucket": "-1"},
    }
    (tmp_path / "schema.json").write_text(json.dumps(schema), encoding="utf-8")
    (tmp_path / "first.jsonl").write_text('{"id": 1, "name": "Ada"}\n{"id": 2, "name": "Alan"}\n', encoding="utf-8")
    (tmp_path / "second.jsonl").write_text('{"id": 2, "name": "Grace"}\n', encoding="utf-8")
    assert run("--version").split() == ["lakeidx", lakeidx.__version__]
    run("table", "create", "lake/db.db/users", "--schema", "schema.json")
    run("upsert", "lake/db.db/users", "first.jsonl")
    run("upsert", "lake/db.db/users", "second.jsonl")
    rows = [json.loads(line) for line in run("scan", "lake/db.db/users", "--format", "jsonl").splitlines()]
    assert sorted(rows, key=lambda row: row["id"]) == [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Grace"}]
