"""Dagster's daemon as a process of its own: backfills as many runs, upkeep beside them, failed runs that the sensor explains."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.assets.graph.asset_graph_subset import AssetGraphSubset
from dagster._core.execution.asset_backfill import AssetBackfillStatus, PartitionedAssetBackfillStatus
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill

from lakeidx.dagster.names import STAGES, asset_keys
from lakeidx.dagster.sensors.landing import RANGE_END, RANGE_START
from lakeidx.dagster.ui import prepare_home
from lakeidx.testing.limits import HANGS_SECONDS
from tests.dagster.pipelines import Deployment

pytestmark = pytest.mark.dagster
ROOT = Path(__file__).parents[2]
MANY = ("a.parquet", "b.parquet")
#: The daemon, which looks for backfills each half minute, looks each three seconds. It does not start a new server of the code each
#: minute: the code stays as it is.
DAEMON = """
import sys
import dagster._daemon.controller as controller
from dagster._daemon.cli import main
controller.DEFAULT_DAEMON_INTERVAL_SECONDS = 3
controller.RELOAD_WORKSPACE_INTERVAL = 86_400
sys.argv[0] = "dagster-daemon"
main()
"""
#: The code location: work that a file `hold-JOB` names says that it has begun, and waits until the file is gone. The sensor of
#: failed runs is on from the beginning.
LOCATION = """
import time
from functools import partial
from pathlib import Path
import dagster as dg
from lakeidx.dagster import folder
from lakeidx.dagster.resources import SparkResource

HERE = Path(__file__).parent
folder.build_failed_run_sensor = partial(folder.build_failed_run_sensor, default_status=dg.DefaultSensorStatus.RUNNING)


class Held(SparkResource):
    def submitted(self, context, job, arguments, pipeline, **extras):
        if (HERE / f"hold-{job}").exists():
            (HERE / f"began-{job}-{context.run_id}").touch()
            while (HERE / f"hold-{job}").exists():
                time.sleep(0.05)
        return super().submitted(context, job, arguments, pipeline, **extras)


defs = folder.build_definitions(HERE / "pipelines", spark=Held(engine="local", parallelism=1))
"""


@dataclass
class Daemon:
    """A deployment whose runs are started by the daemon."""

    deployment: Deployment
    log: Path

    @property
    def instance(self) -> dg.DagsterInstance:
        return self.deployment.instance

    def backfill(self, name: str, *keys: str) -> None:
        """Ask for partitions of all stages, as the UI does."""
        self.deployment.know(*keys)
        graph = self.deployment.defs.resolve_asset_graph()
        self.instance.add_backfill(
            PartitionBackfill.from_asset_partitions(
                backfill_id=name,
                asset_graph=graph,
                partition_names=list(keys),
                asset_selection=asset_keys(self.deployment.config),
                backfill_timestamp=time.time(),
                tags={},
                dynamic_partitions_store=self.instance,
                all_partitions=False,
                title=None,
                description=None,
                run_config=None,
            )
        )

    def upkeep(self, name: str, asset: str) -> None:
        """Ask for an asset without partitions, as the UI does."""
        key = dg.AssetKey(["d", "t", asset])
        self.instance.add_backfill(
            PartitionBackfill.from_asset_graph_subset(
                backfill_id=name,
                backfill_timestamp=time.time(),
                tags={},
                dynamic_partitions_store=self.instance,
                asset_graph_subset=AssetGraphSubset(non_partitioned_asset_keys={key}),  # type: ignore[call-arg]
                title=None,
                description=None,
                run_config=None,
            )
        )

    def hold(self, *jobs: str) -> None:
        """Let work wait when it begins."""
        for job in jobs:
            (self.deployment.folder / f"hold-{job}").touch()

    def release(self, *jobs: str) -> None:
        """Let work go on."""
        for job in jobs:
            (self.deployment.folder / f"hold-{job}").unlink()

    def began(self, job: str) -> list[str]:
        """Ids of the runs that have begun some work while it was held."""
        mark = f"began-{job}-"
        return [f.name.removeprefix(mark) for f in self.deployment.folder.glob(f"{mark}*")]

    def progress(self, backfill: str, stage: str) -> dict[AssetBackfillStatus, int]:
        """Partitions of a stage by what has become of them, as the page of a backfill shows it."""
        found = self.instance.get_backfill(backfill)
        assert found is not None
        graph = self.deployment.defs.resolve_asset_graph()
        seen = found.get_asset_backfill_data(graph).get_backfill_status_per_asset_key(graph)
        (of_stage,) = (s for s in seen if s.asset_key == dg.AssetKey(["d", "t", stage]))
        assert isinstance(of_stage, PartitionedAssetBackfillStatus)
        assert of_stage.num_targeted_partitions == len(MANY)
        return {status: count for status, count in of_stage.partitions_counts_by_status.items() if count}

    def spans(self, backfill: str) -> list[tuple[float, float]]:
        """From when to when the steps of a backfill's runs went, in order."""
        found = []
        for run in self.runs(backfill):
            started: dict[str, float] = {}
            for entry in self.instance.all_logs(run.run_id):
                event = entry.dagster_event
                if event is None or event.step_key is None:
                    continue
                if event.event_type is dg.DagsterEventType.STEP_START:
                    started[event.step_key] = entry.timestamp
                elif event.event_type is dg.DagsterEventType.STEP_SUCCESS:
                    found.append((started[event.step_key], entry.timestamp))
        return sorted(found)

    def runs(self, backfill: str) -> list[dg.DagsterRun]:
        """Runs of a backfill."""
        found = self.instance.get_runs(dg.RunsFilter(tags={"dagster/backfill": backfill}))
        return sorted(found, key=lambda r: r.tags.get(RANGE_START, ""))

    def errors(self) -> str:
        """What the daemon and its runs have said of errors."""
        return "\n".join(line for line in self.log.read_text().splitlines() if "Error: " in line or "FAILURE" in line)

    def wait(self, done: Callable[[], bool]) -> None:
        """Wait until something holds."""
        end = time.monotonic() + HANGS_SECONDS
        while time.monotonic() < end:
            if done():
                return
            time.sleep(0.5)
        raise AssertionError(f"it did not happen; the daemon said\n{self.log.read_text()[-3000:]}")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("daemon")
    home = prepare_home(folder)
    settings = home / "dagster.yaml"
    # The same settings as on a laptop, only quicker.
    watched = re.sub(r"(poll_interval_seconds|free_slots_after_run_end_seconds): 30", r"\1: 3", settings.read_text())
    assert watched.count(": 3\n") == 2
    settings.write_text(watched)
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("LAKEIDX_", "DAGSTER_"))}
    environment = {
        **plain,
        "DAGSTER_HOME": str(home),
    }
    with dg.DagsterInstance.from_config(str(home)) as instance:
        changes = {"partitions": {"per_run": 1}, "retries": {"max_retries": 0}}
        deployment = Deployment(folder, changes, instance=instance)
        location = folder / "location.py"
        location.write_text(LOCATION)
        log = folder / "daemon.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-c", DAEMON, "run", "-f", str(location)],
                cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        try:
            daemon = Daemon(deployment, log)
            # Asked for at once; tests wait for what they are about.
            for i, name in enumerate("zab"):
                deployment.land(f"{name}.parquet", [(1, k, name) for k in range(10 * (i - 1), 10 * (i - 1) + 15)])
            (deployment.landing / "bad.parquet").write_bytes(b"no parquet")
            assert deployment.run("z.parquet").success
            daemon.hold("compaction", "commit")
            daemon.upkeep("beside", "compaction")
            # Two runs at a time: the compaction is one of them.
            daemon.wait(lambda: bool(daemon.began("compaction")))
            daemon.backfill("many", *MANY)
            daemon.backfill("bad", "bad.parquet")
            yield daemon
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(HANGS_SECONDS)


def test_upkeep_continues_beside_a_batch_and_the_backfill_shows_how_far_it_is(daemon: Daemon) -> None:
    done, working = AssetBackfillStatus.MATERIALIZED, AssetBackfillStatus.IN_PROGRESS
    daemon.wait(lambda: bool(daemon.began("commit")))
    # At this moment a compaction and a batch of the same table are in the middle of their steps.
    assert (len(daemon.began("compaction")), len(daemon.began("commit"))) == (1, 1)
    daemon.wait(lambda: daemon.progress("many", "ingest").get(done, 0) > 0)
    assert daemon.progress("many", "commit") == {working: len(MANY)}
    # The other batch cannot come to its commit: this one has the table's slot.
    assert len(daemon.began("commit")) == 1
    daemon.release("compaction")
    daemon.wait(lambda: [r.status for r in daemon.runs("beside")] == [dg.DagsterRunStatus.SUCCESS])
    assert len(daemon.began("commit")) == 1, "the compaction has ended while the batch was at its commit"
    daemon.release("commit")
    daemon.wait(lambda: daemon.progress("many", "commit") == {done: len(MANY)})


def test_a_backfill_as_many_runs(daemon: Daemon) -> None:
    ended = (BulkActionStatus.COMPLETED_SUCCESS, BulkActionStatus.COMPLETED_FAILED, BulkActionStatus.FAILED)
    daemon.wait(lambda: getattr(daemon.instance.get_backfill("many"), "status", None) in ended)
    runs = daemon.runs("many")
    assert [(r.tags[RANGE_START], r.tags[RANGE_END]) for r in runs] == [(key, key) for key in MANY]
    assert [r.status for r in runs] == [dg.DagsterRunStatus.SUCCESS] * 2, daemon.errors()
    # Runs of one table may go on side by side, in any order; each is a batch and a snapshot, and no key comes twice.
    assert daemon.deployment.table.metadata.snapshot_ids() == [1, 2, 3]
    assert set(daemon.deployment.content()) == {(1, k) for k in range(-10, 25)}


def test_writers_of_one_table_take_turns(daemon: Daemon) -> None:
    """Steps that share the table's pool never run at the same time, in whichever run they are."""
    spans = daemon.spans("many")
    assert len(spans) == 2 * (len(STAGES) + 1), "four stages and one step of checks in each run"
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    upkeep, _ = daemon.spans("beside")
    assert any(start < upkeep[1] and upkeep[0] < end for start, end in spans)


def test_a_run_whose_process_is_killed_is_started_again(daemon: Daemon) -> None:
    d = daemon.deployment
    before = d.content()
    d.land("k.parquet", [(1, k, "k") for k in range(20, 40)])
    daemon.backfill("killed", "k.parquet")
    pids: list[int] = []

    def staged() -> bool:
        """The first run has ingested; its process is in the next stage, or between two."""
        for run in daemon.runs("killed"):
            events = [e.dagster_event for e in daemon.instance.all_logs(run.run_id) if e.dagster_event is not None]
            pids.extend(int(n) for e in events for n in re.findall(r"in process \(pid: (\d+)\)", e.message or ""))
            if pids and any(e.event_type is dg.DagsterEventType.STEP_SUCCESS for e in events):
                return True
        return False

    daemon.wait(staged)
    os.kill(pids[0], signal.SIGKILL)
    daemon.wait(lambda: dg.DagsterRunStatus.SUCCESS in [r.status for r in daemon.runs("killed")])
    runs = sorted(daemon.runs("killed"), key=lambda r: "dagster/parent_run_id" in r.tags)
    assert [r.status for r in runs] == [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS]
    assert runs[1].tags["dagster/parent_run_id"] == runs[0].run_id
    assert d.content() == before | {(1, k): "k" for k in range(20, 40)}
    assert d.table.metadata.snapshot_ids() == [1, 2, 3, 4]


def test_a_failed_run_is_explained_by_the_sensor(daemon: Daemon) -> None:
    daemon.wait(lambda: [r.status for r in daemon.runs("bad")] == [dg.DagsterRunStatus.FAILURE])
    daemon.wait(lambda: "lakeidx/error_kind" in daemon.runs("bad")[0].tags)
    tags = daemon.runs("bad")[0].tags
    assert (tags["lakeidx/error_kind"], tags["lakeidx/alert"]) == ("corrupt_file", "yes")
    assert "restore the file" in tags["lakeidx/what_to_do"]
    assert not [r for r in daemon.runs("many") if "lakeidx/alert" in r.tags]
