"""A commit that ran as a job was shown in Dagster as if its batch had been committed before, and as its first attempt."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.batch.context import make_context
from tests.dagster.pipelines import Deployment, metrics
from tests.dagster.test_submitted import submitting
from tests.kit.small_tables import rows as arrow_rows
from tests.kit.upserts import upsert_table

pytestmark = pytest.mark.dagster


def test_the_committed_attempt_of_a_job_is_shown(tmp_path: Path) -> None:
    local, deployed = Deployment(tmp_path), submitting(tmp_path)
    local.land("a.parquet", [(1, k, "a") for k in range(3)])
    assert local.run("a.parquet", selection=["ingest", "bucket_assignment", "index_write"]).success
    upsert_table(make_context(local.table.metadata, "other"), arrow_rows([(1, 2, "other")]))
    done = deployed.run("a.parquet", selection=["commit"])
    commit = metrics(done, "commit")
    assert (commit["attempt"], commit["replans"], commit["already_committed"]) == (2, 1, False)
    assert (commit["inserts"], commit["updates"]) == (2, 1)
    seen = [e.asset_observation_data.asset_observation for e in done.all_events if e.is_asset_observation]
    assert {o.asset_key.path[-1]: o.metadata["lakeidx/attempt"].value for o in seen} == {
        "bucket_assignment": 2,
        "index_write": 2,
    }
