"""Batches that limits or checks hold, through Dagster: what readers see, what the run says, and who decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakeidx.dagster.assets.publish import DECISION_TAG
from lakeidx.dagster.names import batch_job_name, table_id
from lakeidx.errors import BatchHeldError
from tests.dagster.pipelines import QUIET, Deployment, metrics, red_checks

pytestmark = pytest.mark.dagster
ROWS_ON_TABLE = {
    "type": "expect_table_row_count_to_be_between", "args": {"max_value": 25}, "on": "table", "name": "few_rows",
}  # fmt: skip
FIGURES = {
    "type": "expect_column_values_to_be_between", "args": {"column": "inserts", "max_value": 15}, "on": "batches",
    "name": "small_batches",
}  # fmt: skip


def rows(first: int, count: int, v: str = "a") -> list[tuple[int, int, str | None]]:
    return [(1, k, v) for k in range(first, first + count)]


def observed(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    found = [e.asset_observation_data.asset_observation for e in result.get_asset_observation_events()]
    return {k: v.value for o in found if o.asset_key.path[-1] == "commit" for k, v in o.metadata.items()}


def again(deployment: Deployment, key: str, decision: str) -> dg.ExecuteInProcessResult:
    job = deployment.defs.resolve_job_def(batch_job_name(deployment.config))
    return job.execute_in_process(
        run_config=QUIET, instance=deployment.instance, partition_key=key, tags={DECISION_TAG: decision}
    )


def decide(deployment: Deployment, batch: str, decision: str, *, success: bool = True) -> dict[str, Any]:
    name = f"{table_id(deployment.config)}__held_batch"
    job = deployment.defs.resolve_job_def(f"{name}_job")
    config = {**QUIET, "ops": {name: {"config": {"batch": batch, "decision": decision}}}}
    result = job.execute_in_process(run_config=config, instance=deployment.instance, raise_on_error=False)
    assert result.success == success
    return observed(result)


@pytest.mark.parametrize("by", ["job", "tag"])
@pytest.mark.parametrize("decision", ["release", "discard"])
def test_a_batch_beyond_a_limit_waits_for_a_decision(tmp_path: Path, by: str, decision: str) -> None:
    deployment = Deployment(tmp_path, {"limits": {"updates": "50%"}})
    deployment.land("a.parquet", rows(0, 10))
    deployment.run("a.parquet")
    deployment.land("b.parquet", rows(0, 8, "b"))
    held = deployment.run("b.parquet", raise_on_error=False)
    assert not held.success
    said = observed(held)
    batch = said["lakeidx/batch_id"]
    assert "8 updates are 80.0% of the table's 10 rows" in said["lakeidx/held"]
    # Others go on, and the batch waits however often its run is tried.
    deployment.land("c.parquet", rows(20, 2, "c"))
    assert deployment.run("c.parquet").success
    with pytest.raises(dg.Failure, match="batch_held"):
        deployment.run("b.parquet")
    assert [b["batch"] for b in deployment.table.held_batches()] == [batch]
    if by == "job":
        assert decide(deployment, batch, decision)["lakeidx/decision"] == decision
    assert again(deployment, "b.parquet", decision).success
    old = {(1, k): "a" for k in range(10)} | {(1, k): "c" for k in range(20, 22)}
    assert deployment.content() == old | ({(1, k): "b" for k in range(8)} if decision == "release" else {})
    assert not deployment.table.held_batches()
    # A range that has its file, too, does not bring its rows again, or after all.
    deployment.land("d.parquet", rows(30, 1, "d"))
    deployment.know("d.parquet")
    assert deployment.run("a.parquet", "d.parquet").success
    assert deployment.content() == old | {(1, 30): "d"} | (
        {(1, k): "b" for k in range(8)} if decision == "release" else {}
    )


@pytest.mark.parametrize(
    ("expected", "red"), [(ROWS_ON_TABLE, "few_rows"), (FIGURES, "small_batches")], ids=["table", "batches"]
)
def test_a_batch_that_fails_a_check_is_not_published(tmp_path: Path, expected: dict[str, Any], red: str) -> None:
    deployment = Deployment(tmp_path, {"publish": "after_checks", "expectations": [expected]})
    deployment.land("a.parquet", rows(0, 10))
    good = deployment.run("a.parquet")
    assert not red_checks(good)
    assert metrics(good, "t")["rows_in"] == 10
    before = deployment.table.snapshots()
    deployment.land("b.parquet", rows(5, 25, "b"))
    held = deployment.run("b.parquet", raise_on_error=False)
    assert not held.success
    assert red_checks(held) == {red}
    assert list(deployment.table.snapshots()) == list(before)
    batch = observed(held)["lakeidx/batch_id"]
    assert f"check {red}" in observed(held)["lakeidx/held"]
    (listed,) = deployment.table.held_batches()
    assert f"check {red}: FAILED" in listed["why"]
    # It is inspectable: the table as it would be.
    found = deployment.table.scan(batch=batch).to_arrow().to_pylist()
    assert {(r["p"], r["k"]): r["v"] for r in found} == {(1, k): "a" for k in range(5)} | {
        (1, k): "b" for k in range(5, 30)
    }
    released = again(deployment, "b.parquet", "release")
    assert released.success
    assert len(deployment.content()) == 30


def test_a_check_that_only_warns_publishes(tmp_path: Path) -> None:
    expected = {**ROWS_ON_TABLE, "severity": "warn"}
    deployment = Deployment(tmp_path, {"publish": "after_checks", "expectations": [expected]})
    deployment.land("a.parquet", rows(0, 30))
    result = deployment.run("a.parquet")
    assert result.success
    assert red_checks(result) == {"few_rows"}
    assert len(deployment.content()) == 30


def test_a_batch_that_others_overtake_is_judged_again_where_it_is_placed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = Deployment(tmp_path, {"publish": "after_checks", "expectations": [ROWS_ON_TABLE]})
    deployment.land("a.parquet", rows(0, 10))
    deployment.run("a.parquet")
    deployment.land("b.parquet", rows(10, 10, "b"))
    deployment.run("b.parquet", selection=["ingest", "bucket_assignment", "index_write"])
    # Together they are too many.
    deployment.table.upsert([{"p": 1, "k": k, "v": "other"} for k in range(100, 110)])
    assert not deployment.run("b.parquet", raise_on_error=False).success
    assert len(deployment.content()) == 20
    (listed,) = deployment.table.held_batches()
    with pytest.raises(BatchHeldError, match="few_rows"):
        deployment.table.upsert([{"p": 1, "k": 1, "v": ""}], batch_id=listed["batch"])
    assert deployment.table.held_batch(listed["batch"]).as_dict()["planned_on_snapshot"] == 2


def test_a_job_says_what_it_does_not_know(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    deployment.land("a.parquet", rows(0, 3))
    deployment.run("a.parquet")
    assert decide(deployment, "nobody", "release", success=False) == {}
