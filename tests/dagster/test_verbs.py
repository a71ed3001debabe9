"""Verbs as jobs with run config: what they do to the table, and what they say of it."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from lakeidx.dagster.names import asset_job_name, table_id
from lakeidx.dagster.ui import prepare_home
from lakeidx.testing.limits import HANGS_SECONDS
from tests.dagster.pipelines import QUIET, Deployment

pytestmark = pytest.mark.dagster


def filled(tmp_path: Path, changes: dict[str, Any] | None = None) -> Deployment:
    deployment = Deployment(tmp_path, changes or {})
    deployment.land("a.parquet", [(p, k, f"v{k}") for p in (1, 2) for k in range(5)])
    deployment.run("a.parquet")
    return deployment


def settings(deployment: Deployment, verb: str, config: dict[str, Any]) -> dict[str, Any]:
    return {**QUIET, "ops": {f"{table_id(deployment.config)}__{verb}": {"config": config}}}


def facts(result: Any) -> dict[str, Any]:
    """Metadata of the table's observation, {} without one."""
    found = result.filter_events(lambda e: e.event_type_value == "ASSET_OBSERVATION")
    seen = [e.asset_observation_data.asset_observation for e in found]
    assert [o.asset_key.path for o in seen] in ([], [["d", "t"]])
    return {k.removeprefix("lakeidx/"): v.value for o in seen for k, v in o.metadata.items()}


def said(result: Any) -> dict[str, Any]:
    """Metadata of the op's output."""
    (out,) = result.filter_events(lambda e: e.is_successful_output)
    return {k.removeprefix("lakeidx/"): v.value for k, v in out.event_specific_data.metadata.items()}


def run(deployment: Deployment, verb: str, **config: Any) -> dg.ExecuteInProcessResult:
    job = deployment.defs.resolve_job_def(asset_job_name(deployment.config, verb))
    return job.execute_in_process(
        run_config=settings(deployment, verb, config), instance=deployment.instance, raise_on_error=False
    )


def failure(result: Any) -> str:
    (failed,) = result.filter_events(lambda e: e.is_step_failure)
    return str(failed.event_specific_data.user_failure_data.description)


def like_the_plan(plan: dict[str, Any], done: dict[str, Any]) -> bool:
    """Whether what a verb did is told in the form of its plan: the same words, rows by kind and partition, files, a sample."""
    assert (plan["dryRun"], done["dryRun"]) == (True, False)
    assert set(plan) - {"note"} <= set(done)
    told = ("inserts", "updates", "deletes", "moved", "buckets", "beyond")
    assert [plan[n] for n in told] == [done[n] for n in told]
    for name in ("partitions", "sample"):
        assert [r.data for r in plan[name].records] == [r.data for r in done[name].records]
    return all(d[n] > 0 for d in (plan, done) for n in ("seconds", "memoryBytes", "dataBytes", "dataFiles"))


ALL = {(p, k): f"v{k}" for p in (1, 2) for k in range(5)}


def test_rows_are_deleted_and_updated_by_keys_or_by_a_condition(tmp_path: Path) -> None:
    deployment = filled(tmp_path)
    dry = run(deployment, "delete_rows", where="p = 1 and k < 3", dry_run=True)
    plan = said(dry)
    assert (plan["deletes"], facts(dry)) == (3, {})
    assert [(r.data["partition"], r.data["deletes"]) for r in plan["partitions"].records] == [("p=1", 3)]
    assert len(plan["sample"].records) == 3
    assert deployment.content() == ALL

    done = facts(run(deployment, "delete_rows", where="p = 1 and k < 3"))
    assert like_the_plan(plan, done)
    assert (done["deletes"], done["snapshot_id"], done["verb"]) == (3, 2, "delete_rows")
    assert done["asked"] == {"where": "p = 1 and k < 3"}
    assert done["seconds"] > 0
    assert done["bytes_written"] > 0
    left = {key: v for key, v in ALL.items() if key[0] == 2 or key[1] >= 3}
    assert deployment.content() == left

    done = facts(run(deployment, "delete_rows", keys=[{"p": 2, "k": 0}, {"p": 1, "k": 99}]))
    assert done["deletes"] == 1
    del left[2, 0]

    changed: dict[str, Any] = {"set": {"v": "v || '!'"}, "where": "k = 4"}
    plan = said(run(deployment, "update_rows", **changed, dry_run=True))
    update = run(deployment, "update_rows", **changed)
    assert plan["updates"] == 2
    assert like_the_plan(plan, facts(update))
    assert like_the_plan(plan, said(update))
    by_key = run(deployment, "update_rows", set={"v": "v || '?'"}, keys=[{"p": 2, "k": 1}, {"p": 7, "k": 1}])
    assert facts(by_key)["updates"] == 1
    left |= {(1, 4): "v4!", (2, 4): "v4!", (2, 1): "v1?"}
    assert deployment.content() == left

    nothing = run(deployment, "update_rows", set={"v": "'x'"}, where="k = 77")
    assert (said(nothing)["note"], facts(nothing)) == ("no such row: nothing is written", {})
    assert deployment.table.snapshots().column("id")[-1] == 5


def update_job(folder: str) -> dg.JobDefinition:
    """The job of updates of a deployment, for runs that make it anew."""
    deployment = Deployment(Path(folder))
    return deployment.defs.resolve_job_def(asset_job_name(deployment.config, "update_rows"))


def test_an_update_that_is_repeated_after_a_failure_changes_rows_once(tmp_path: Path) -> None:
    deployment = filled(tmp_path)
    job = deployment.defs.resolve_job_def(asset_job_name(deployment.config, "update_rows"))
    config = settings(deployment, "update_rows", {"set": {"v": "v || '+'"}})
    first = job.execute_in_process(run_config=config, instance=deployment.instance)
    # It had committed when its process was killed.
    deployment.instance.report_run_failed(first.dagster_run)
    again = dg.execute_job(
        dg.build_reconstructable_job("tests.dagster.test_verbs", "update_job", (str(tmp_path),)),
        instance=deployment.instance,
        run_config=config,
        reexecution_options=dg.ReexecutionOptions(parent_run_id=first.dagster_run.run_id),
    )
    assert facts(again)["already_committed"]
    assert deployment.content() == {key: f"{v}+" for key, v in ALL.items()}


def test_a_delete_beyond_a_limit_is_held_until_the_job_of_held_batches_releases_it(tmp_path: Path) -> None:
    deployment = filled(tmp_path, {"limits": {"deletes": "20%"}})
    held = run(deployment, "delete_rows", where="k < 2")
    assert not held.success
    assert "4 deletes are 40.0% of the table's 10 rows" in failure(held)
    assert deployment.content() == ALL
    (batch,) = deployment.table.held_batches()
    job = deployment.defs.resolve_job_def(asset_job_name(deployment.config, "held_batch"))
    config = settings(deployment, "held_batch", {"batch": batch["batch"], "decision": "release"})
    assert job.execute_in_process(run_config=config, instance=deployment.instance).success
    assert deployment.content() == {key: v for key, v in ALL.items() if key[1] >= 2}
    assert facts(run(deployment, "delete_rows", where="k < 4", limits={"deletes": "90%"}))["deletes"] == 4


def test_partitions_are_dropped_and_older_states_made_the_newest(tmp_path: Path) -> None:
    deployment = filled(tmp_path)
    assert said(run(deployment, "drop_partitions", where="p = 1", dry_run=True))["partitions"] == ["p=1"]
    done = facts(run(deployment, "drop_partitions", partitions=["p=1"]))
    assert (done["partitions"], done["snapshot_id"]) == (["p=1"], 2)
    assert deployment.content() == {key: v for key, v in ALL.items() if key[0] == 2}

    def call(procedure: str, *, dry_run: bool = False, **arguments: Any) -> Any:
        return run(deployment, "call_procedure", procedure=procedure, arguments=arguments, dry_run=dry_run)

    assert facts(call("create_tag", tag="one", snapshot=1))["verb"] == "call_procedure"
    assert facts(call("create_branch", branch="trial", tag="one"))["snapshot"] == 1
    assert facts(call("replace_tag", tag="one", snapshot=2))["asked"]["procedure"] == "replace_tag"
    assert "the table has snapshots 2 to 2, which branch 'trial' lacks" in failure(call("fast_forward", branch="trial"))
    assert said(call("delete_branch", branch="trial", dry_run=True))["action"] == "deleted"
    assert facts(call("delete_branch", branch="trial"))["branch"] == "trial"
    assert facts(call("delete_tag", tag="one"))["tag"] == "one"
    assert "create_tag takes tag (str)" in failure(call("create_tag", dry_run=True, tag="one"))
    kept = facts(run(deployment, "roll_back", snapshot=1, keep_history=True))
    assert (kept["snapshot_id"], kept["snapshots_gone"], deployment.content()) == (3, [], ALL)
    assert said(run(deployment, "roll_back", snapshot=2, dry_run=True))["snapshots_gone"] == [3]
    assert facts(run(deployment, "roll_back", snapshot=2))["snapshot_id"] == 2
    assert said(run(deployment, "roll_back", snapshot=1, dry_run=True))["snapshots_gone"] == [2]
    assert facts(run(deployment, "roll_back", snapshot=1))["snapshot_id"] == 1
    assert deployment.content() == ALL


@pytest.mark.parametrize(
    ("verb", "config", "message"),
    [
        ("delete_rows", {}, "delete takes keys, or a condition"),
        ("delete_rows", {"keys": []}, "an empty list has no columns"),
        ("delete_rows", {"keys": [{"k": 1}]}, "'p'"),
        ("delete_rows", {"where": "nobody = 1"}, "nobody"),
        ("delete_rows", {"where": "k = 1", "limits": {"deletes": "many"}}, "many"),
        ("update_rows", {"set": {"v": "w +"}}, "v"),
        ("update_rows", {"set": {"k": "k + 1"}}, "k"),
        ("update_rows", {"set": {"v": "'x'"}, "where": "k = 1", "keys": [{"p": 1, "k": 1}]}, "update takes keys, or"),
        ("drop_partitions", {}, "give the partitions to drop"),
        ("roll_back", {}, "snapshot"),
        ("roll_back", {"snapshot": 77}, "77"),
    ],
)
def test_config_that_is_wrong_is_one_line_and_changes_nothing(
    tmp_path: Path, verb: str, config: dict[str, Any], message: str
) -> None:
    deployment = filled(tmp_path)
    text = failure(run(deployment, verb, **config))
    assert text.startswith(("invalid_input: ", "not_found: "))
    assert message in text
    assert len(text.splitlines()) == 1
    assert deployment.content() == ALL


def test_a_table_has_the_jobs_that_suit_it(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, {"primaryKeys": [], "partitionKeys": [], "options": {"bucket": -1}})
    jobs = {j.name for j in deployment.defs.get_repository_def().get_all_jobs()}
    assert "d__t__roll_back_job" in jobs
    assert not jobs & {f"d__t__{v}_job" for v in ("delete_rows", "update_rows", "merge_rows", "drop_partitions")}


LOCATION = """
    import sys
    from pathlib import Path

    import dagster as dg
    import pyarrow as pa

    from lakeidx.dagster.folder import build_definitions
    from lakeidx.dagster.resources import SparkResource

    days = dg.StaticPartitionsDefinition(["mon", "tue"])


    @dg.asset(key_prefix="team")
    def changes() -> pa.Table:
        return pa.table({"p": pa.array([1, 1, 2], pa.int32()), "k": [0, 50, 1], "v": ["new", "more", None]})


    @dg.asset(key_prefix="team", partitions_def=days)
    def by_day(context) -> pa.Table:
        return pa.table({"p": pa.array([1], pa.int32()), "k": [0], "v": [context.partition_key]})


    defs = dg.Definitions.merge(
        dg.Definitions(assets=[changes, by_day, dg.AssetSpec("elsewhere")]),
        build_definitions(Path(__file__).parent / "pipelines", spark=SparkResource(engine="local", parallelism=1)),
    )
"""


@dataclass
class Events:
    """What a run of another process has written into the instance."""

    events: list[dg.DagsterEvent]

    def filter_events(self, wanted: Callable[[dg.DagsterEvent], bool]) -> list[dg.DagsterEvent]:
        return [e for e in self.events if wanted(e)]


def test_an_upstream_asset_is_merged(tmp_path: Path) -> None:
    deployment = filled(tmp_path)
    file = tmp_path / "location.py"
    file.write_text(textwrap.dedent(LOCATION), encoding="utf-8")
    home = prepare_home(tmp_path)
    with dg.DagsterInstance.from_config(str(home)) as instance:

        def merge(**config: Any) -> Events:
            run_config = tmp_path / "run.yaml"
            run_config.write_text(yaml.safe_dump(settings(deployment, "merge_rows", config)), encoding="utf-8")
            name, before = asset_job_name(deployment.config, "merge_rows"), len(instance.get_runs())
            subprocess.run(
                [sys.executable, "-m", "dagster", "job", "execute", "-f", file, "-j", name, "-c", run_config],
                env={**os.environ, "DAGSTER_HOME": str(home)}, timeout=HANGS_SECONDS, capture_output=True, check=False,
            )  # fmt: skip
            newest, *others = instance.get_runs()
            assert len(others) == before
            return Events([e.dagster_event for e in instance.all_logs(newest.run_id) if e.dagster_event is not None])

        location = runpy.run_path(str(file))
        for name, key in (("changes", None), ("by_day", "mon"), ("by_day", "tue")):
            assert dg.materialize([location[name]], instance=instance, partition_key=key).success
        when = ["MATCHED AND source.v IS NULL THEN DELETE", "MATCHED THEN UPDATE SET *", "NOT MATCHED THEN INSERT *"]
        plan = said(merge(source="team/changes", when=when, dry_run=True))
        assert [plan[n] for n in ("inserts", "updates", "deletes")] == [1, 1, 1]
        assert deployment.content() == ALL
        done = facts(merge(source="team/changes", when=when))
        assert like_the_plan(plan, done)
        assert [done[n] for n in ("inserts", "updates", "deletes")] == [1, 1, 1]
        expected = ALL | {(1, 0): "new", (1, 50): "more"}
        del expected[2, 1]
        assert deployment.content() == expected

        assert facts(merge(source="team/by_day", partition="tue"))
        assert deployment.content() == expected | {(1, 0): "tue"}

        # A table of a pipeline file is read as it is now.
        told = facts(
            merge(source="d/t", on="target.p = source.p and target.k = source.k", when=["MATCHED THEN DELETE"])
        )
        assert told["deletes"] == len(expected)
        assert deployment.content() == {}

        for wrong, message in (
            ({"source": "team/nobody"}, "source team/nobody: this code location has no such asset"),
            ({"source": "d/t", "partition": "mon"}, "partition mon: d/t is a table"),
            ({"source": "team/changes", "on": "nobody"}, "on nobody: the source has p, k, v"),
        ):
            text = failure(merge(**wrong))
            assert text.startswith("invalid_input: ")
            assert message in text
            assert len(text.splitlines()) == 1
