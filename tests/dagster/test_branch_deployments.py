"""A branch deployment writes to a branch of the table: production does not see it, and a name of git's is one of a branch."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from lakeidx.api.table import Table
from tests.dagster.pipelines import Deployment, red_checks

pytestmark = pytest.mark.dagster
BRANCH = "${DAGSTER_CLOUD_GIT_BRANCH:-main}"


def keys(table: Table) -> list[int]:
    return sorted(r["k"] for r in table.scan().to_arrow().to_pylist())


def test_a_branch_deployment_writes_to_a_branch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    production = Deployment(tmp_path, {"branch": BRANCH})
    production.land("a.parquet", [(1, 1, "a")])
    assert production.run("a.parquet").success

    monkeypatch.setenv("DAGSTER_CLOUD_GIT_BRANCH", "feature/new rule")
    lost = Deployment(tmp_path, {"branch": BRANCH})
    with pytest.raises(dg.Failure, match="feature-new-rule"):
        lost.run("a.parquet")
    branch = Deployment(tmp_path, {"branch": BRANCH, "create_branch": True})
    assert branch.config.uri.endswith("$branch_feature-new-rule")
    branch.land("b.parquet", [(1, 2, "b")])
    assert not red_checks(branch.run("b.parquet"))
    monkeypatch.delenv("DAGSTER_CLOUD_GIT_BRANCH")
    assert (keys(branch.table), keys(production.table)) == ([1, 2], [1])
    # A batch of the same file counts on each of the two.
    assert production.run("b.parquet").success
    assert keys(production.table) == [1, 2]
    production.table.delete_branch("feature-new-rule")
    assert keys(production.table) == [1, 2]
