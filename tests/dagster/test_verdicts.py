"""Verdicts on figures, whatever the figure; and what is shown of the checks of a table after each kind of run."""

from __future__ import annotations

import math
import multiprocessing
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.dagster.assets import publish, stages
from lakeidx.dagster.assets.stages import commit_checks
from lakeidx.dagster.expectations.figures import Figure, figures_of
from lakeidx.dagster.names import STAGES, TABLE, asset_key, partitions_of
from lakeidx.dagster.sensors.failed_runs import build_canceled_run_sensor, build_failed_run_sensor
from lakeidx.errors import CorruptFileError
from lakeidx.pipeline_file.sections import ChecksConfig
from lakeidx.quality.result import RuleResult, Severity
from lakeidx.testing.limits import HANGS_SECONDS
from tests.dagster.pipelines import QUIET, Deployment

pytestmark = pytest.mark.dagster

_SOUND: dict[str, dict[str, float]] = {
    "batch_rows_accounted": {
        "ingested": 10,
        "inserted": 6,
        "updated": 2,
        "deleted": 1,
        "rejected": 1,
        "rows_unaccounted": 0,
    },
    "staged_rows_committed": {"staged": 9, "committed": 7, "superseded": 2, "rows_lost": 0, "rows_too_many": 0},
    "stale_hashes": {"stale_hashes": 1, "hashes": 1000},
    "bucket_skew": {"largest_skew": 1.5},
    "hash_in_one_bucket": {"hashes_in_several_buckets": 0},
}
_BROKEN = [
    ("batch_rows_accounted", "ingested", 11, "ingested = accounted is not met (11, 10)"),
    ("batch_rows_accounted", "rows_unaccounted", 1, "rows_unaccounted = 1 (at most 0)"),
    ("staged_rows_committed", "staged", 8, "staged = committed_or_superseded is not met (8, 9)"),
    ("stale_hashes", "stale_hashes", 900, "stale_share = 0.9 (at most "),
    ("bucket_skew", "largest_skew", math.inf, "largest_skew = inf (at most "),
    ("bucket_skew", "largest_skew", -1.0, "largest_skew = -1.0 (at least 0 and at most "),
    ("bucket_skew", "largest_skew", math.nan, "largest_skew = nan (at most "),
    ("hash_in_one_bucket", "hashes_in_several_buckets", 3, "hashes_in_several_buckets = 3 (at most 0)"),
]


def results() -> list[RuleResult]:
    return [
        RuleResult(name=name, passed=True, severity=Severity.ERROR, metrics=metrics, description="what holds")
        for name, metrics in _SOUND.items()
    ]


def judged(result: RuleResult) -> list[Figure]:
    return figures_of(result, ChecksConfig())


def test_sound_figures_pass() -> None:
    figures = {r.name: judged(r) for r in results()}
    assert all(f.holds for found in figures.values() for f in found)
    assert [f.row["figure"] for f in figures["batch_rows_accounted"]] == [
        "ingested = accounted", "inserted", "updated", "upserted", "deleted", "rejected", "rows_unaccounted",
    ]  # fmt: skip


@pytest.mark.parametrize(("rule", "metric", "value", "says"), _BROKEN)
def test_one_figure_beyond_its_limit_fails_its_check(rule: str, metric: str, value: float, says: str) -> None:
    (sound,) = [r for r in results() if r.name == rule]
    figures = judged(replace(sound, metrics={**sound.metrics, metric: value}))
    (failed,) = [f.broken for f in figures if not f.holds]
    assert failed.startswith(says)


def test_a_rule_without_limits_is_refused() -> None:
    with pytest.raises(KeyError, match="rule unheard_of has no figure with a limit"):
        judged(replace(results()[0], name="unheard_of"))


def shown(d: Deployment, asset: str = TABLE) -> dict[str, tuple[str, str]]:
    """What the UI shows of an asset's checks, by their newest records: the verdict, and its text."""
    keys = list(d.defs.resolve_asset_graph().get(asset_key(d.config, asset)).check_keys)
    found = d.instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    return {
        key.name: (record.status.value, getattr(record.evaluation, "description", None) or "")
        for key, record in found.items()
    }


def verdicts(d: Deployment, asset: str = TABLE) -> set[str]:
    return {verdict for verdict, _ in shown(d, asset).values()}


def run_and_die(folder: str, home: str) -> None:
    """A run of a file that cannot be read, whose process is killed (in a process of its own)."""

    def kill(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    pytest.MonkeyPatch().setattr(stages, "ingest_landing", kill)
    Deployment(Path(folder), instance=dg.DagsterInstance.from_config(home), planned=True).run("b.parquet")


NOT_NULL = {"expectations": [{"type": "expect_column_values_to_not_be_null", "args": {"column": "v"}}]}


@pytest.mark.parametrize("planned", [True, False])
def test_a_run_that_stops_before_the_table_leaves_its_checks_as_they_were(tmp_path: Path, planned: bool) -> None:
    d = Deployment(tmp_path, NOT_NULL, planned=planned)
    d.land("a.parquet", [(1, k, "a") for k in range(3)])
    pq.write_table(pa.table({"other": [1]}), d.landing / "b.parquet")
    # The first run of all: no verdict, and no failure either.
    assert not d.run("b.parquet", raise_on_error=False).success
    none = "Not judged: no run has reached {} yet."
    for asset, key in ((TABLE, "d/t"), ("ingest", "d/t/ingest")):
        assert set(shown(d, asset).values()) == ({("SUCCEEDED", none.format(key))} if planned else set())
    assert d.run("a.parquet").success
    sound = shown(d)
    assert verdicts(d) == {"SUCCEEDED"}
    assert not any(text.startswith("Not judged") for _, text in sound.values())
    assert len(sound) == len(commit_checks(d.config)) == 3
    assert not d.run("b.parquet", raise_on_error=False).success
    assert shown(d) == sound
    # One that blocks before the commit: its own check fails, those of the table stay.
    d.land("c.parquet", [(1, 9, None)])
    assert not d.run("c.parquet", raise_on_error=False).success
    failed = {name: verdict for name, (verdict, _) in shown(d, "ingest").items()}
    assert failed == {"expect_column_values_to_not_be_null__v": "FAILED", "rows_rejected": "SUCCEEDED"}
    assert (shown(d), len(d.content())) == (sound, 3)
    # One that cannot read its file leaves a failed check failed.
    assert not d.run("b.parquet", raise_on_error=False).success
    assert {name: verdict for name, (verdict, _) in shown(d, "ingest").items()} == failed
    # A range in one run judges the whole once, as one partition does.
    for name in ("d.parquet", "e.parquet"):
        d.land(name, [(1, 20, "x")])
    assert d.run("d.parquet", "e.parquet").success
    assert (shown(d), verdicts(d, "ingest")) == (sound, {"SUCCEEDED"})


def test_a_run_that_was_killed_or_canceled_leaves_the_checks_as_they_were(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    d = Deployment(tmp_path, instance=dg.DagsterInstance.from_config(str(home)), planned=True)
    d.land("a.parquet", [(1, k, "a") for k in range(25)] + [(1, 99, "x")], ["+I"] * 25 + ["?"])
    d.land("b.parquet", [(1, 1, "b")])
    assert d.run("a.parquet").success
    before = {asset: shown(d, asset) for asset in (TABLE, "ingest", "bucket_assignment")}
    assert before["ingest"]["rows_rejected"][0] == "FAILED"
    ends: list[tuple[Any, dg.SensorDefinition, dg.DagsterEventType]] = [
        (d.instance.report_run_failed, build_failed_run_sensor(()), dg.DagsterEventType.RUN_FAILURE),
        (d.instance.report_run_canceled, build_canceled_run_sensor(), dg.DagsterEventType.RUN_CANCELED),
    ]
    for report, sensor, kind in ends:
        process = multiprocessing.get_context("spawn").Process(target=run_and_die, args=(str(tmp_path), str(home)))
        process.start()
        process.join(HANGS_SECONDS)
        assert process.exitcode == -signal.SIGKILL
        (run,) = d.instance.get_runs(limit=1)
        report(run)
        ended = d.instance.get_run_by_id(run.run_id)
        assert ended is not None
        assert ended.is_finished
        assert set(shown(d).values()) == {("PLANNED", "")}, "Dagster calls them failed, or skipped"
        (event,) = d.instance.all_logs(run.run_id, of_type=kind)
        assert event.dagster_event is not None
        context = dg.build_run_status_sensor_context("s", event.dagster_event, d.instance, ended)
        sensor(context.for_run_failure() if ended.is_failure else context)
        assert {asset: shown(d, asset) for asset in before} == before
    assert d.run("b.parquet").success
    assert verdicts(d, "ingest") == {"SUCCEEDED"}


def test_a_run_that_was_planned_before_another_one_and_judges_after_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backfill waits in the queue while the landing sensor's run goes on: the list said "Not evaluated" after both."""
    d = Deployment(tmp_path, planned=True)
    by_sensor = Deployment(tmp_path, instance=d.instance)
    d.land("a.parquet", [(1, 1, "a"), (1, 2, "x")], ["+I", "?"])
    d.land("b.parquet", [(1, 1, "b")])
    own, before = vars(stages)["ingest_landing"], [lambda: by_sensor.run("b.parquet")]

    def overtaken(*words: Any, **named: Any) -> Any:
        if before:
            assert before.pop()().success
        return own(*words, **named)

    monkeypatch.setattr(stages, "ingest_landing", overtaken)
    late = d.run("a.parquet")
    assert late.success
    for asset, count in ((TABLE, 3), ("ingest", 1), ("bucket_assignment", 1)):
        graph = d.defs.resolve_asset_graph().get(asset_key(d.config, asset))
        found = d.instance.event_log_storage.get_latest_asset_check_execution_by_key(list(graph.check_keys))
        (newest,) = d.instance.fetch_materializations(graph.key, limit=1).records
        about = [record.evaluation.target_materialization_data for record in found.values() if record.evaluation]
        assert newest.run_id == late.run_id
        assert [a.storage_id for a in about if a] == [newest.storage_id] * count
    assert verdicts(d) == verdicts(d, "bucket_assignment") == {"SUCCEEDED"}
    assert verdicts(d, "ingest") == {"FAILED"}


@pytest.mark.parametrize("planned", [True, False])
def test_checks_of_a_table_that_was_made_and_could_not_be_judged_are_not_called_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planned: bool
) -> None:
    d = Deployment(tmp_path, planned=planned)
    d.land("a.parquet", [(1, 1, "a")])
    d.land("b.parquet", [(1, 1, "b")])
    assert d.run("a.parquet").success

    def fail(*_: Any, **__: Any) -> None:
        raise CorruptFileError("no rule could look")

    monkeypatch.setattr(publish, "batch_results", fail)
    assert not d.run("b.parquet", raise_on_error=False).success
    assert d.content() == {(1, 1): "b"}
    assert set(shown(d).values()) == {("FAILED", "FAILED: it could not be judged: no rule could look")}
    assert verdicts(d, "ingest") == {"SUCCEEDED"}


def test_a_run_with_nothing_to_judge_says_what_was_known(tmp_path: Path) -> None:
    d = Deployment(tmp_path)
    d.land("a.parquet", [(1, 1, "a"), (1, 2, "x")], ["+I", "?"])
    # No batch has made the table.
    assert d.run_asset("verification").success
    assert shown(d, "verification") == {}
    assert d.run("a.parquet").success
    before = {asset: shown(d, asset) for asset in (TABLE, "ingest", "bucket_assignment")}
    assert before["ingest"]["rows_rejected"][0] == "FAILED"
    # "Execute" in the tab runs the checks alone.
    job = d.defs.resolve_implicit_global_asset_job_def()
    checks = d.defs.resolve_asset_graph().get(asset_key(d.config, TABLE)).check_keys
    alone = job.get_subset(asset_selection=set(), asset_check_selection=checks)
    assert alone.execute_in_process(run_config=QUIET, instance=d.instance).success
    assert shown(d) == before[TABLE]
    # A batch whose staging is gone is not staged, and so not judged, again.
    (staged,) = (tmp_path / "wh").rglob("ingest.json")
    shutil.rmtree(staged.parent)
    assert d.run("a.parquet").success
    assert {asset: shown(d, asset) for asset in before} == before


def test_a_failed_check_of_the_table_stops_what_follows_and_is_about_that_snapshot(tmp_path: Path) -> None:
    d = Deployment(tmp_path, {"options": {"bucket": -1}})

    @dg.asset(deps=[asset_key(d.config, TABLE)], partitions_def=partitions_of(d.config))
    def report() -> None: ...

    own = dg.define_asset_job("own", [asset_key(d.config, s) for s in (*STAGES, TABLE)] + [report.key])
    d.defs = dg.Definitions.merge(d.defs, dg.Definitions([report], jobs=[own]))
    job = d.defs.resolve_job_def("own")
    d.land("a.parquet", [(1, 1, "a")])
    d.land("b.parquet", [(1, 1, "b")])
    d.know("a.parquet", "b.parquet")
    first = job.execute_in_process(run_config=QUIET, instance=d.instance, partition_key="a.parquet")
    assert {e.step_key for e in first.all_events if e.is_step_success} == {
        "report", "d__t__checks", *(f"d__t__{s}" for s in STAGES),
    }  # fmt: skip
    (data_file,) = (tmp_path / "wh").rglob("bucket-0/*.parquet")
    data_file.unlink()
    second = job.execute_in_process(
        run_config=QUIET, instance=d.instance, partition_key="b.parquet", raise_on_error=False
    )
    assert not second.success
    assert "report" not in {e.step_key for e in second.all_events if e.is_step_start}
    failed = [c for c in second.get_asset_check_evaluations() if not c.passed]
    assert "files_whole" in {c.check_name for c in failed}
    assert {c.target_materialization_data.run_id for c in failed if c.target_materialization_data} == {second.run_id}
    assert second.retry_attempts_for_node("d__t__commit") == 0
