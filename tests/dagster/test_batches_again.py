"""Batches that come again after a rollback or a drop of the table, that lose a conflict, or whose rows are all rejected."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from lakeidx.batch.context import make_context
from lakeidx.maintenance.rollback import roll_back_table
from tests.dagster.pipelines import Deployment, metrics, red_checks
from tests.dagster.test_submitted import submitting
from tests.kit.small_tables import rows as arrow_rows
from tests.kit.upserts import upsert_table

pytestmark = pytest.mark.dagster


def rows(low: int, high: int, text: str) -> list[tuple[int, int, str | None]]:
    return [(1, k, f"{text}{k}") for k in range(low, high)]


def test_a_partition_that_was_rolled_back_is_loaded_again(tmp_path: Path) -> None:
    d = Deployment(tmp_path)
    d.land("a.parquet", rows(0, 3, "a"))
    d.land("b.parquet", rows(3, 6, "b"))
    d.run("a.parquet")
    d.run("b.parquet")
    roll_back_table(d.table.metadata, d.table.schema, snapshot_id=1)
    again = d.run("b.parquet")
    assert again.success
    assert d.content() == {(1, k): f"{'a' if k < 3 else 'b'}{k}" for k in range(6)}
    assert metrics(again, "commit")["already_committed"] is False
    assert metrics(d.run("b.parquet"), "commit")["already_committed"] is True


def test_a_table_that_was_dropped_is_loaded_again(tmp_path: Path) -> None:
    d = Deployment(tmp_path)
    d.land("a.parquet", rows(0, 3, "a"))
    d.run("a.parquet")
    shutil.rmtree(d.table.uri)
    assert d.run("a.parquet").success
    assert d.content() == {(1, k): f"a{k}" for k in range(3)}


@pytest.mark.parametrize("deployed", [Deployment, submitting], ids=["in the run", "as a job"])
def test_the_assets_show_the_attempt_that_was_committed(tmp_path: Path, deployed: Callable[[Path], Deployment]) -> None:
    """A commit that ran as a job was once shown as if its batch had been committed before, and as its first attempt."""
    d = Deployment(tmp_path)
    d.land("a.parquet", rows(0, 3, "a"))
    d.run("a.parquet")
    d.land("b.parquet", rows(2, 5, "b"))
    d.run("b.parquet", selection=["ingest", "bucket_assignment", "index_write"])
    upsert_table(make_context(d.table.metadata, "other"), arrow_rows([(1, 4, "other")]))
    result = deployed(tmp_path).run("b.parquet", selection=["commit"])
    commit = metrics(result, "commit")
    assert (commit["attempt"], commit["replans"], commit["already_committed"]) == (2, 1, False)
    assert (commit["inserts"], commit["updates"]) == (1, 2)
    seen = [e.asset_observation_data.asset_observation for e in result.all_events if e.is_asset_observation]
    assert {o.asset_key.path[-1]: o.metadata["lakeidx/attempt"].value for o in seen} == {
        "bucket_assignment": 2,
        "index_write": 2,
    }
    assert {o.partition for o in seen} == {"b.parquet"}


def test_upkeep_between_the_stages_of_a_batch_changes_nothing_for_it(tmp_path: Path) -> None:
    """Upkeep has a pool of its own, so it may come at any point of a batch."""
    d = Deployment(tmp_path, {"lookup_store": True})
    for name in ("a", "b"):
        d.land(f"{name}.parquet", rows(0, 12, name))
    d.run("a.parquet")
    d.run("b.parquet", selection=["ingest", "bucket_assignment", "index_write"])
    for upkeep, config in (("compaction", {"full": True}), ("lookup_store", {}), ("snapshot_expiry", {})):
        result = d.run_asset(upkeep, **config)
        assert result.success
        assert red_checks(result) == set()
    result = d.run("b.parquet", selection=["commit"])
    assert "replans" not in metrics(result, "commit")
    assert [d.table.metadata.load_snapshot(n).commit_kind.value for n in (1, 2, 3)] == ["APPEND", "COMPACT", "APPEND"]
    assert red_checks(d.run_asset("verification")) == set()
    assert d.content() == {(1, k): f"b{k}" for k in range(12)}


def test_a_run_whose_rows_are_all_rejected_fails(tmp_path: Path) -> None:
    d = Deployment(tmp_path, {"max_rejected": "50%"})
    d.land("a.parquet", rows(0, 3, "a"), ["+I", "no kind", "+I"])
    assert d.run("a.parquet").success
    d.land("b.parquet", rows(0, 3, "b"), ["x"] * 3)
    d.land("c.parquet", rows(0, 3, "c"), ["x", "x", "+I"])
    for key in ("b.parquet", "c.parquet"):
        result = d.run(key, raise_on_error=False)
        assert not result.success
        failed = [e for e in result.all_events if e.event_type is dg.DagsterEventType.STEP_FAILURE]
        assert "rows rejected and" in str(failed[0].event_specific_data)
    assert d.content() == {(1, 0): "a0", (1, 2): "a2"}
