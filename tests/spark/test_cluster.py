"""The pipeline under Dagster on a real cluster: standalone master and workers, Spark Connect, S3. Only settings differ.

Driver, master, workers and Spark Connect are on machines with addresses of their own (network namespaces, where there are any).
Every run is a process of its own, started as an operator would: `dagster job execute` with environment variables.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from lakeidx.api.table import Table
from lakeidx.dagster.ui import prepare_home
from lakeidx.storage import open_store
from lakeidx.testing.limits import HANGS_SECONDS
from tests.dagster.pipelines import pipeline_dict
from tests.kit.s3_server import S3Server, run_s3_server
from tests.kit.small_tables import content
from tests.kit.spark_archive import SPARK_HOME
from tests.kit.spark_cluster import SparkCluster, spark_cluster

__all__ = ["spark_cluster"]
pytestmark = [pytest.mark.spark, pytest.mark.s3]
ROOT = Path(__file__).parents[2]
EXPECTED = {(k % 2, k): f"b{k}" if k >= 40 else f"a{k}" for k in range(90)}


class Deployed:
    """A pipeline file and a Dagster home; landing files and warehouse wherever `place` says."""

    def __init__(self, folder: Path, cluster: SparkCluster, server: S3Server) -> None:
        place = server.fresh_uri("lake")
        (folder / "pipelines").mkdir(parents=True)
        settings = pipeline_dict(folder)
        settings |= {"warehouse": f"{place}/warehouse"}
        settings["landing"] = {"path": f"{place}/landing", "pattern": "*", "settle_seconds": 0}
        settings["options"] = {"bucket": -1, "dynamic-bucket.target-row-num": 20}
        self.pipeline = folder / "pipelines" / "t.yaml"
        self.pipeline.write_text(yaml.safe_dump(settings))
        self.place, self.storage, self.folder, self.cluster = place, server.storage_options, folder, cluster
        self.home = prepare_home(folder)
        self.land()

    def land(self) -> None:
        """A Parquet file that is taken by reference, and CSV that tasks must read."""
        store = open_store(self.place, self.storage)
        columns = {"p": pa.array([k % 2 for k in range(60)], pa.int32()), "k": range(60)}
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({**columns, "v": [f"a{k}" for k in range(60)]}), sink)
        store.put(f"{self.place}/landing/a.parquet", sink.getvalue().to_pybytes())
        lines = [f"{k % 2},{k},b{k}" for k in range(40, 90)]
        store.put(f"{self.place}/landing/b.csv", ("p,k,v\n" + "\n".join(lines) + "\n").encode())

    def run(self, **settings: str) -> subprocess.CompletedProcess[str]:
        """Both landing files as one run of the batch job, with settings as environment variables."""
        with dg.DagsterInstance.from_config(str(self.home)) as instance:
            instance.add_dynamic_partitions("d__t__files", ["a.parquet", "b.csv"])
        tags = {"dagster/asset_partition_range_start": "a.parquet", "dagster/asset_partition_range_end": "b.csv"}
        return self.run_job("d__t__batch", "--tags", json.dumps(tags), **settings)

    def run_job(self, name: str, *more: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """A job, with settings as environment variables."""
        command = [sys.executable, "-m", "dagster", "job", "execute", "-m", "lakeidx.dagster.definitions"]
        command += ["-j", name, *more]
        named = {"DAGSTER_HOME": str(self.home), "LAKEIDX_PIPELINES": str(self.pipeline.parent), **settings}
        return self.on_driver(command, **named)

    def on_driver(self, command: list[str], **settings: str) -> subprocess.CompletedProcess[str]:
        """A command on the driver's machine."""
        return subprocess.run(
            self.cluster.network.command("driver", command),
            cwd=ROOT, env=self.cluster.environment(**settings), capture_output=True, text=True, check=False, timeout=HANGS_SECONDS,
        )  # fmt: skip

    def content(self) -> dict[tuple[int, int], str | None]:
        """The table's rows; a key that comes twice is an error."""
        return content(Table.open(f"{self.place}/warehouse/d.db/t", self.storage))

    def checks(self) -> dict[str, bool]:
        """Verdicts of the last run's checks."""
        with dg.DagsterInstance.from_config(str(self.home)) as instance:
            run = instance.get_runs(limit=1)[0]
            assert run.status is dg.DagsterRunStatus.SUCCESS
            events = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
            found = [e.dagster_event.asset_check_evaluation_data for e in events if e.dagster_event]
            return {e.check_name: e.passed for e in found}


@pytest.fixture(scope="module")
def server(spark_cluster: SparkCluster) -> Iterator[S3Server]:
    """An S3 server that all machines reach."""
    with run_s3_server(spark_cluster.network.here) as running:
        yield running


@pytest.fixture
def on_s3(tmp_path: Path, spark_cluster: SparkCluster, server: S3Server) -> Deployed:
    return Deployed(tmp_path, spark_cluster, server)


def assert_passed(deployed: Deployed, done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr[-3000:]
    assert deployed.content() == EXPECTED
    verdicts = deployed.checks()
    assert {"keys_in_place", "files_whole", "batch_rows_accounted", "staged_rows_committed"} <= set(verdicts)
    assert all(verdicts.values())


@pytest.mark.share(0)  # test_a_worker_lost_in_every_stage runs all of it on the same cluster, too
def test_on_a_standalone_cluster_with_tables_on_s3(
    spark_cluster: SparkCluster, on_s3: Deployed, server: S3Server
) -> None:
    done = on_s3.run(
        LAKEIDX_SPARK_MASTER=spark_cluster.master,
        LAKEIDX_SPARK_PARALLELISM="2",
        LAKEIDX_SPARK_CONFIG=json.dumps(spark_cluster.application()),
        **server.environment,
    )
    assert_passed(on_s3, done)
    assert spark_cluster.log("master").count("Registered app lakeidx") == 1


def test_over_spark_connect_with_tables_on_s3(spark_cluster: SparkCluster, on_s3: Deployed, server: S3Server) -> None:
    spark_cluster.mend()
    address = spark_cluster.start_connect({})
    try:
        done = on_s3.run(LAKEIDX_SPARK_REMOTE=address, LAKEIDX_SPARK_PARALLELISM="2", **server.environment)
    finally:
        spark_cluster.kill("connect")
    assert_passed(on_s3, done)


def test_a_worker_lost_in_every_stage(spark_cluster: SparkCluster, on_s3: Deployed, server: S3Server) -> None:
    spark_cluster.mend()
    of_tasks = {f"spark.executorEnv.{name}": value for name, value in server.environment.items()}
    config = json.dumps(spark_cluster.application() | of_tasks)
    command = [sys.executable, "-m", "tests.spark.losing_executors", str(on_s3.folder), on_s3.place]
    with spark_cluster.mending():
        done = on_s3.on_driver([*command, spark_cluster.master, config], **server.environment)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["success"] == [True, True, True]
    assert said["red"] == []
    assert said["marks"] == [
        "bucket_assignment combine", "bucket_assignment split", "compaction task", "index_write combine",
        "index_write split", "ingest task", "verify task",
    ]  # fmt: skip
    assert on_s3.content() == EXPECTED
    table = Table.open(f"{on_s3.place}/warehouse/d.db/t", on_s3.storage)
    assert [table.metadata.load_snapshot(i).commit_kind for i in table.metadata.snapshot_ids()] == ["APPEND", "COMPACT"]


#: Runs the script that follows; where a file of its name lies beside, it dies once when its work is done, before it could say so.
DIES_ONCE = """
import os, runpy, signal, sys
script = sys.argv[1]
mark = os.path.join(os.path.dirname(__file__), os.path.basename(script))
if os.path.exists(mark):
    os.remove(mark)
    import lakeidx.jobs.pipes as pipes
    pipes.JobPipes.report = lambda self, report: os.kill(os.getpid(), signal.SIGKILL)
sys.argv = sys.argv[1:]
runpy.run_path(script, run_name="__main__")
"""


@pytest.mark.share(0)  # tests/dagster/test_submitted.py submits jobs on one machine
def test_stages_and_checks_as_submitted_jobs(spark_cluster: SparkCluster, on_s3: Deployed, server: S3Server) -> None:
    spark_cluster.mend()
    before = spark_cluster.log("master").count("Registered app lakeidx")
    dies = on_s3.folder / "submit"
    dies.mkdir()
    (dies / "dies_once.py").write_text(DIES_ONCE)
    (dies / "index_write.py").touch()
    # A job finds its credentials where it runs, and so do its tasks.
    of_tasks = {f"spark.executorEnv.{name}": value for name, value in server.environment.items()}
    # Each job is an application of its own; what two machines do together the tests above have seen.
    settings_of_jobs = {**spark_cluster.application(), **of_tasks, "spark.cores.max": "1"}
    conf = [f"--conf={key}={value}" for key, value in settings_of_jobs.items()]
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", spark_cluster.master, *conf]
    settings = {
        "LAKEIDX_ENGINE": "submit",
        "LAKEIDX_SPARK_SUBMIT": shlex.join([*command, f"{dies}/dies_once.py"]),
        **server.environment,
    }
    done = on_s3.run(**settings)
    assert_passed(on_s3, done)
    # The killed job was submitted again, and found its work done: Spark was not asked a second time.
    assert not (dies / "index_write.py").exists()
    assert done.stderr.count("STEP_UP_FOR_RETRY") == 1
    verified = on_s3.run_job("d__t__verification_job", **settings)
    assert verified.returncode == 0, verified.stderr[-3000:]
    assert {"hash_in_one_bucket", "primary_key_once", "files_readable"} <= {n for n, ok in on_s3.checks().items() if ok}
    registered = spark_cluster.log("master").count("Registered app lakeidx") - before
    assert registered >= 3, "the jobs have not run on the cluster"
