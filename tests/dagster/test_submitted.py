"""Stages submitted as jobs of their own report through Dagster Pipes: logs, reports, failures; a killed one is resumed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakeidx.dagster.failures import ERROR_KIND
from lakeidx.dagster.resources import SparkResource
from tests.dagster.pipelines import Deployment, metrics, red_checks
from tests.dagster.test_job_limit import is_gone

pytestmark = pytest.mark.dagster

# Stands in for spark-submit: runs the script it is given without Spark, and notes which. The file `kill-STAGE` in the working
# folder makes it die once when the stage's work is done, before it could say so.
SUBMIT = """
import os, runpy, signal, subprocess, sys, time
script, marks = sys.argv[2], sys.argv[1]
stage = os.path.basename(script).removesuffix(".py")
with open(os.path.join(marks, "submitted"), "a") as file:
    file.write(stage + "\\n")
if os.path.exists(os.path.join(marks, "hang-" + stage)):
    # What spark-submit starts, and does not end with it.
    os.remove(os.path.join(marks, "hang-" + stage))
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(os.path.join(marks, "child"), "w") as file:
        file.write(str(child.pid))
    time.sleep(600)
sys.argv = [script, *sys.argv[3:], "--engine", "local"]
mark = os.path.join(marks, "kill-" + stage)
if os.path.exists(mark):
    os.remove(mark)
    import lakeidx.jobs.pipes as pipes
    pipes.JobPipes.report = lambda self, report: os.kill(os.getpid(), signal.SIGKILL)
runpy.run_path(script, run_name="__main__")
"""


class _Limited(SparkResource):
    """Gives a time to the job that hangs only: how long the others take says nothing on a busy machine."""

    def run_job(
        self,
        context: dg.AssetExecutionContext | dg.OpExecutionContext,
        job: str,
        arguments: Sequence[str],
        extras: Mapping[str, Any],
    ) -> Sequence[Any]:
        hangs = Path(shlex.split(self.submit)[-1]) / f"hang-{job}"
        seconds = float(hangs.read_text()) if hangs.exists() else 0
        plain = SparkResource(engine="submit", submit=self.submit, submit_seconds=seconds)
        return plain.run_job(context, job, arguments, extras)


def submitting(
    folder: Path, changes: Mapping[str, Any] | None = None, how: type[SparkResource] = SparkResource
) -> Deployment:
    """Return a deployment whose jobs are submitted. Where batches only have to be there, one that runs them itself is quicker."""
    (folder / "submit.py").write_text(SUBMIT)
    command = f"{sys.executable} {folder}/submit.py {folder}"
    return Deployment(folder, changes or {}, spark=how(engine="submit", submit=command))


def submitted(d: Deployment) -> list[str]:
    return (d.folder / "submitted").read_text().split()


def failures(result: dg.ExecuteInProcessResult) -> list[dict[str, Any]]:
    out = []
    for event in result.filter_events(lambda e: e.is_step_failure):
        data = event.step_failure_data.user_failure_data
        out.append({k: v.value for k, v in data.metadata.items()} if data else {})
    return out


def test_a_batch_runs_as_jobs_and_a_killed_one_is_resumed(tmp_path: Path) -> None:
    deployed = submitting(tmp_path)
    deployed.land("a.parquet", [(1, k, "a") for k in range(25)])
    (deployed.folder / "kill-bucket_assignment").touch()
    done = deployed.run("a.parquet")
    assert done.success
    assert submitted(deployed) == [
        "ingest",
        "bucket_assignment",
        "bucket_assignment",
        "index_write",
        "commit",
        "checks",
    ]
    assert red_checks(done) == set()
    assert {"keys_in_place", "staged_rows_committed"} <= {c.check_name for c in done.get_asset_check_evaluations()}
    assert deployed.content() == {(1, k): "a" for k in range(25)}
    assert metrics(done, "ingest")["rows_in"] == 25
    snapshot = deployed.table.snapshot
    assert snapshot is not None
    assert snapshot.id == 1


def test_a_job_says_what_it_has_rejected(tmp_path: Path) -> None:
    deployed = submitting(tmp_path, {"max_rejected": 1})
    deployed.land("a.parquet", [(1, k, "x") for k in range(4)], ["+I", "?", "+U", "!"])
    result = deployed.run("a.parquet", raise_on_error=False)
    (check,) = result.get_asset_check_evaluations()
    assert (check.check_name, check.severity) == ("rows_rejected", dg.AssetCheckSeverity.ERROR)
    assert str(check.description).startswith("2 of 4 rows rejected: kind (2). The batch was refused: ")
    assert failures(result)[-1]["lakeidx/error_kind"] == "invalid_input"


def test_upkeep_and_its_checks_run_as_jobs(tmp_path: Path) -> None:
    local, deployed = Deployment(tmp_path, {"lookup_store": True}), submitting(tmp_path, {"lookup_store": True})
    for name in ("a", "b", "c"):
        local.land(f"{name}.parquet", [(p, k, name) for p in (1, 2) for k in range(12)])
        assert local.run(f"{name}.parquet").success
    compacted = deployed.run_asset("compaction", full=True)
    assert submitted(deployed) == ["compaction", "checks"]
    done = metrics(compacted, "compaction")
    assert (done["buckets"], done["rows_in"], done["rows_out"]) == (4, 72, 24)
    assert (done["snapshot_id"], red_checks(compacted)) == (4, set())
    assert metrics(deployed.run_asset("lookup_store"), "lookup_store")["built"] == 4
    verified = deployed.run_asset("verification")
    assert submitted(deployed) == ["compaction", "checks", "lookup_store", "checks"]
    seen = metrics(verified, "verification")
    assert (seen["row_count"], seen["snapshot_id"], seen["index_hashes"]) == (24, 4, 24)
    assert red_checks(verified) == set()
    # Expiry only lists and deletes: it needs no cluster.
    assert deployed.run_asset("snapshot_expiry").success
    assert len(submitted(deployed)) == 4


def test_what_a_job_finds_is_a_red_check(tmp_path: Path) -> None:
    local, deployed = Deployment(tmp_path), submitting(tmp_path)
    local.land("a.parquet", [(1, k, "a") for k in range(5)])
    assert local.run("a.parquet").success
    (index,) = (Path(deployed.config.uri) / "index").glob("index-*")
    index.write_bytes(index.read_bytes()[:-4])
    verified = deployed.run_asset("verification")
    assert not verified.success
    assert red_checks(verified) == {"referenced_files_exist", "index_files_agree", "live_keys_indexed"}
    assert submitted(deployed)[-1] == "checks"


def test_the_error_of_a_job_is_the_error_of_its_step(tmp_path: Path) -> None:
    deployed = submitting(tmp_path)
    (deployed.landing / "a.parquet").write_bytes(b"no parquet")
    failed = deployed.run("a.parquet", raise_on_error=False)
    assert not failed.success
    (said,) = failures(failed)
    assert said[ERROR_KIND] == "corrupt_file"
    # What will not pass is not submitted again.
    assert submitted(deployed) == ["ingest"]


def test_a_job_that_hangs_is_ended_with_all_it_started_and_submitted_again(tmp_path: Path) -> None:
    # On a slow machine its time may be over before it has begun.
    for seconds in (6, 60, 600):
        (folder := tmp_path / f"{seconds}").mkdir()
        local, limited = Deployment(folder), submitting(folder, how=_Limited)
        local.land("a.parquet", [(1, 1, "a")])
        assert local.run("a.parquet", selection=["ingest", "bucket_assignment"]).success
        (folder / "hang-index_write").write_text(f"{seconds}")
        done = limited.run("a.parquet", selection=["index_write"], raise_on_error=False)
        if (folder / "child").exists():
            break
    assert done.success
    assert submitted(limited) == ["index_write", "index_write"]
    assert local.run("a.parquet", selection=["commit"]).success
    assert limited.content() == {(1, 1): "a"}
    assert is_gone(int((folder / "child").read_text()))
    (retried,) = [e for e in done.all_events if e.event_type_value == "STEP_UP_FOR_RETRY"]
    assert f"the job index_write was stopped after {seconds} s (submit_seconds, LAKEIDX_SUBMIT_SECONDS)" in str(
        retried.event_specific_data
    )
