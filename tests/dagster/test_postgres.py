"""PostgreSQL as Dagster's storage, with the settings of deploy/dagster.yaml; the server is real."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
import yaml

from tests.dagster.pipelines import Deployment, red_checks
from tests.kit.postgres_server import postgres

__all__ = ["postgres"]
pytestmark = pytest.mark.postgres
ROOT = Path(__file__).parents[2]


@pytest.fixture
def home(postgres: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Dagster home with the production settings; only the port differs."""
    settings = (ROOT / "deploy" / "dagster.yaml").read_text().replace("port: 5432", f"port: {postgres}")
    instance = yaml.safe_load(settings)
    # The store of what runs print is another server; `test_deployment.py` has it.
    del instance["compute_logs"]
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(instance))
    for name, value in (("HOST", "127.0.0.1"), ("USER", "dagster"), ("PASSWORD", "lakeidx"), ("DB", "postgres")):
        monkeypatch.setenv(f"DAGSTER_POSTGRES_{name}", value)
    return tmp_path


def test_a_pipeline_on_postgresql(home: Path, tmp_path: Path) -> None:
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert "Postgres" in type(instance.event_log_storage).__name__
        d = Deployment(tmp_path / "deployment", instance=instance)
        d.land("a.parquet", [(1, k, f"a{k}") for k in range(20)])
        result = d.run("a.parquet")
        assert result.success
        assert red_checks(result) == set()
        key = d.defs.resolve_asset_graph().get_all_asset_keys()
        commit = next(k for k in key if k.path[-1] == "commit")
        assert instance.get_latest_materialization_event(commit) is not None
        assert instance.get_dynamic_partitions("d__t__files") == ["a.parquet"]
        assert instance.get_runs_count() == 1
