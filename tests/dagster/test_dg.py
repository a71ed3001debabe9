"""The command `dg` in a project that uses the components: found, scaffolded from files, checked, listed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from dagster_dg_cli.cli import create_dg_cli

from lakeidx.dagster import move_pipelines
from lakeidx.dagster.ui import prepare_home
from lakeidx.pipeline_file.model import load_pipeline
from lakeidx.pipeline_file.problems import PipelineFileError

pytestmark = pytest.mark.dagster

ROOT = Path(__file__).parents[2]
PYPROJECT = """
[project]
name = "shop"
version = "0.1.0"
[tool.dg]
directory_type = "project"
[tool.dg.cli]
telemetry.enabled = false
[tool.dg.project]
root_module = "shop"
"""
DEFINITIONS = """
from pathlib import Path
from typing import Any
from dagster import definitions, load_from_defs_folder

@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "landing").mkdir()
    for name, ids in (("a", range(5)), ("b", range(3, 9))):
        pq.write_table(pa.table({"id": list(ids), "v": ["x"] * len(ids)}), tmp_path / "landing" / f"{name}.parquet")
    (tmp_path / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    package = tmp_path / "shop"
    (package / "defs").mkdir(parents=True)
    for file, text in (("__init__.py", ""), ("defs/__init__.py", ""), ("definitions.py", DEFINITIONS)):
        (package / file).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    # The command sets variables of its process.
    with patch.dict(os.environ):
        yield tmp_path
    for name in [n for n in sys.modules if n == "shop" or n.startswith("shop.")]:
        del sys.modules[name]


def dg(*words: str, code: int = 0) -> str:
    program = create_dg_cli()  # type: ignore[no-untyped-call]
    result = CliRunner().invoke(program, list(words), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def test_from_files_to_listed_definitions(project: Path) -> None:
    dg("scaffold", "defs", "lakeidx.dagster.PrimaryKeyTable", "orders", "--from", "landing", "--table", "shop.orders")
    file = project / "shop/defs/orders/defs.yaml"
    assert "table: shop.orders" in file.read_text(encoding="utf-8")
    assert "validated successfully" in dg("check", "yaml")
    listed = dg("list", "defs", "--json")
    for name in ("shop/orders", "shop/orders/ingest", "shop/orders/compaction", "shop__orders__batch"):
        assert f'"{name}"' in listed
    # Longer ones are cut.
    assert not [a["description"] for a in json.loads(listed)["assets"] if a["description"].endswith("…")]
    file.write_text(file.read_text(encoding="utf-8").replace("primaryKeys:", "primaryKey:"), encoding="utf-8")
    said = dg("check", "yaml", code=1)
    line = next(i for i, text in enumerate(file.read_text(encoding="utf-8").splitlines(), 1) if "primaryKey:" in text)
    assert f"defs.yaml:{line} - lakeidx.dagster.PrimaryKeyTable attributes.primaryKey" in said


def test_a_project_gets_one_process_a_run_unless_it_has_an_executor(project: Path) -> None:
    command = ("scaffold", "defs", "lakeidx.dagster.PrimaryKeyTable")
    dg(*command, "orders", "--from", "landing")
    executor = project / "shop/defs/executor.py"
    assert "in_process_executor" in executor.read_text(encoding="utf-8")
    dg("check", "defs")
    made = import_module("shop.definitions").defs()
    assert made.resolve_implicit_global_asset_job_def().executor_def.name == "in_process"
    executor.unlink()
    (project / "shop/runs.py").write_text("# executor: multiprocess_executor\n", encoding="utf-8")
    dg(*command, "items", "--from", "landing")
    assert not executor.exists()


@pytest.mark.parametrize(
    ("component", "given", "what"),
    [
        ("PrimaryKeyTable", ("--from", "nowhere"), "no landing files"),
        ("PrimaryKeyTable", ("--from", "landing", "--key", "no"), "there is no column no; the files have id, v"),
        ("PrimaryKeyTable", ("--from", "landing", "--table", "orders"), "write the table as database.table"),
        ("TableMaintenance", ("--table", "orders"), "write the table as database.table"),
    ],
)
def test_a_mistake_of_the_command_is_one_line_and_leaves_no_folder(
    project: Path, component: str, given: tuple[str, ...], what: str
) -> None:
    """It was a traceback, and its empty folder made the next try say that the name is taken."""
    said = dg("scaffold", "defs", f"lakeidx.dagster.{component}", "orders", *given, code=1)
    assert said.splitlines()[-1].startswith("Error: ")
    assert what in said
    assert not (project / "shop/defs/orders").exists()


@pytest.mark.parametrize("given", [(), ("--warehouse", "other")])
def test_components_of_found_tables_are_scaffolded_as_they_may_be(project: Path, given: tuple[str, ...]) -> None:
    """They got no attributes, of which two are required."""
    dg("scaffold", "defs", "lakeidx.dagster.WarehouseTables", "all", *given)
    dg("scaffold", "defs", "lakeidx.dagster.TableMaintenance", "orders", *given)
    assert "validated successfully" in dg("check", "yaml")
    written = (project / "shop/defs/orders/defs.yaml").read_text(encoding="utf-8")
    assert "table: lake.orders" in written
    assert f"warehouse: {given[1] if given else '${LAKEIDX_WAREHOUSE:-warehouse}'}" in written


OWN = """
import dagster as dg


class Session(dg.ConfigurableResource):
    \"\"\"What this project calls spark.\"\"\"


@dg.asset(ins={"orders": dg.AssetIn(["shop", "orders"], input_manager_key="lakehouse")})
def rows(spark: Session, orders: list) -> int:
    return 1


@dg.definitions
def own():
    from lakeidx.dagster import LakeIdxIOManager

    return dg.Definitions(
        assets=[rows],
        resources={
            "spark": Session(),
            "store": Session(),
            "tables": Session(),
            "io_manager": dg.FilesystemIOManager(),
            "lakehouse": LakeIdxIOManager(warehouse="warehouse"),
        },
        executor=dg.multiprocess_executor,
    )
"""


def test_a_project_keeps_its_own_resources_executor_and_io_manager(project: Path) -> None:
    """Its `spark` was `different resources with same key`, and each load warned of what is beta in Dagster."""
    (project / "shop/defs/own.py").write_text(OWN, encoding="utf-8")
    words = ("scaffold", "defs", "lakeidx.dagster.PrimaryKeyTable")
    dg(*words, "orders", "--from", "landing", "--table", "shop.orders")
    dg(*words, "items", "--table", "shop.items")
    program = "import sys; from dagster_dg_cli.cli import main; sys.exit(main())"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{project}"}

    def run(*given: str, code: int = 0, **settings: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", program, *given],
            capture_output=True,
            text=True,
            env={**environment, **settings},
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert "BetaWarning" not in done.stderr + done.stdout
        assert "PreviewWarning" not in done.stderr + done.stdout
        return done.stdout + (done.stderr if code else "")

    found = {a["asset_key"]: a for a in json.loads(run("list", "defs", "--json"))["assets"]}
    assert {a["group_name"] for k, a in found.items() if k.startswith("shop/") and k.count("/") == 1} == {"shop"}
    assert {a["group_name"] for k, a in found.items() if k.count("/") == 2} == {"shop_stages"}
    for key, asset in found.items():
        assert "\n" not in (asset.get("description") or ""), key
        assert len(asset.get("description") or "") <= 160, key
    # A code server says it, too, and the commands above do not do all that one does.
    served = "from shop.definitions import defs; print(len(defs().get_repository_def().asset_checks_defs_by_key))"
    loaded = subprocess.run(
        [sys.executable, "-c", served], capture_output=True, text=True, env=environment, check=True, cwd=project
    )
    assert int(loaded.stdout) > 30
    assert "BetaWarning" not in loaded.stderr
    # Suggestions are fit to be taken as they are.
    file = project / "shop/defs/orders/defs.yaml"
    text = file.read_text(encoding="utf-8")
    taken = text.replace("  alerts: []\n", "  alerts:\n").replace("\n  # ", "\n  ")
    file.write_text(taken, encoding="utf-8")
    config = load_pipeline(file)
    assert len(config.expectations) == 2
    assert config.max_rejected == "100,5%"
    assert config.alerts[0].slack == "${LAKEIDX_SECRET_SLACK}"
    assert "validated successfully" in dg("check", "yaml", "shop/defs/orders")
    # A build may ask for what does not load.
    items = project / "shop/defs/items/defs.yaml"
    items.write_text(items.read_text(encoding="utf-8").replace("Keys:\n  - id", "Keys:\n  - gone"), encoding="utf-8")
    said = run("check", "defs", code=1, LAKEIDX_REFUSE_LEFT_OUT="1")
    assert "shop/defs/items/defs.yaml: line 12, column 3: primary key column 'gone' does not exist" in said
    assert "shop/defs/orders/defs.yaml:" not in said


def test_this_repository_is_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    # Its settings: no telemetry.
    monkeypatch.setenv("DAGSTER_HOME", str(prepare_home(tmp_path)))
    with patch.dict(os.environ):
        listed = dg("list", "defs", "--json")
    for name in ("nycflights__flights__batch", "nycflights__weather__batch"):
        assert f'"{name}"' in listed


def test_pipeline_files_become_components_by_one_command_and_jobs_read_them(project: Path) -> None:
    (project / "pipelines").mkdir()
    source = project / "pipelines" / "orders.yaml"
    text = (
        "# what it is\ntable: shop.orders  # its name\nwarehouse: ${LAKEIDX_WAREHOUSE:-wh}\nlanding: {path: landing}\n"
        "description: |\n  two\n   lines\nfields:\n- {name: id, type: BIGINT}\nprimaryKeys: [id]\noptions: {bucket: -1}\n"
    )
    source.write_text(text, encoding="utf-8")
    before = load_pipeline(source)
    assert move_pipelines.main([str(project / "pipelines"), str(project / "shop/defs")]) == 0
    made = project / "shop/defs/orders/defs.yaml"
    assert not source.exists()
    assert "  # what it is\n  table: shop.orders  # its name\n" in made.read_text(encoding="utf-8")
    assert load_pipeline(made) == before
    dg("check", "yaml")
    assert '"shop/orders"' in dg("list", "defs", "--json")
    wrong = made.read_text(encoding="utf-8").replace("BIGINT", "BIGIN")
    made.write_text(wrong + "  resources: project\n", encoding="utf-8")
    with pytest.raises(PipelineFileError, match="line 11: "):
        load_pipeline(made)


def test_a_file_that_cannot_be_moved_leaves_all_where_they_are(tmp_path: Path, capsys: Any) -> None:
    for name, text in (("a", "table: d.a\n"), ("b", "table: '{{ env.NAME }}'\n")):
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    assert move_pipelines.main([str(tmp_path), str(tmp_path / "defs")]) == 2
    assert "b.yaml" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.yaml", "b.yaml"]
