"""The sensors as the daemon runs them: requests, partitions, cursors, reasons to skip."""

from __future__ import annotations

import time
from pathlib import Path
from unittest.mock import patch

import dagster as dg
import pytest

from lakeidx.batch.context import make_context
from lakeidx.dagster.resources import StoreResource
from lakeidx.dagster.sensors.compaction import name_state
from lakeidx.errors import CorruptFileError, NotFoundError
from tests.dagster.pipelines import Deployment
from tests.kit.small_tables import rows as arrow_rows
from tests.kit.upserts import upsert_table

pytestmark = pytest.mark.dagster


def tick(d: Deployment, sensor: str, cursor: str | None = None) -> dg.SensorResult:
    definition = next(s for s in d.defs.sensors or () if s.name == sensor)
    resources = {n: r for n, r in (d.defs.resources or {}).items() if n in definition.required_resource_keys}
    with dg.build_sensor_context(instance=d.instance, cursor=cursor, resources=resources) as context:
        result = definition(context)
    assert isinstance(result, dg.SensorResult)
    return result


def land(d: Deployment, *names: str) -> None:
    for i, name in enumerate(names):
        d.land(f"{name}.parquet", [(1, k, name) for k in range(i, i + 3)])


def test_new_files_become_partitions_and_runs_once(tmp_path: Path) -> None:
    d = Deployment(tmp_path)
    land(d, "a", "b")
    first = tick(d, "d__t__landing_sensor")
    assert [r.partition_key for r in first.run_requests or ()] == ["a.parquet", "b.parquet"]
    assert len({r.run_key for r in first.run_requests or ()}) == 2
    again = tick(d, "d__t__landing_sensor", first.cursor)
    assert again.run_requests == []
    assert "2 landing files" in str(again.skip_reason)
    # The same tick from the same cursor, for instance after a crash of the daemon, asks for the same runs.
    assert [r.run_key for r in tick(d, "d__t__landing_sensor").run_requests or ()] == [
        r.run_key for r in first.run_requests or ()
    ]


def test_a_batch_of_files_is_one_run_over_a_range(tmp_path: Path) -> None:
    d = Deployment(tmp_path, {"landing": {"batching": {"max_files": 3}}})
    land(d, "a", "b", "c")
    request = (tick(d, "d__t__landing_sensor").run_requests or ())[0]
    assert request.partition_key is None
    assert request.tags["dagster/asset_partition_range_start"] == "a.parquet"
    assert request.tags["dagster/asset_partition_range_end"] == "c.parquet"


@pytest.mark.parametrize("by", [None, dg.DailyPartitionsDefinition("2026-01-01")])
def test_files_of_an_asset_become_partitions_each_time_it_was_materialized(
    tmp_path: Path, by: dg.PartitionsDefinition | None
) -> None:
    d = Deployment(tmp_path, {"landing": {"asset": "team/export"}})
    export = dg.AssetSpec(["team", "export"], partitions_def=by)
    ingest = dg.Definitions.merge(d.defs, dg.Definitions(assets=[export])).resolve_asset_graph().get(
        dg.AssetKey(["d", "t", "ingest"])
    )  # fmt: skip
    assert export.key in ingest.parent_keys

    def exported() -> None:
        key = None if by is None else "2026-01-02"
        d.instance.report_runless_asset_event(dg.AssetMaterialization(export.key, partition=key))

    land(d, "a")
    first = tick(d, "d__t__landing_sensor")
    assert [r.partition_key for r in first.run_requests or ()] == ["a.parquet"]
    land(d, "a", "b")
    before = tick(d, "d__t__landing_sensor", first.cursor)
    assert (before.run_requests, before.cursor) == ([], first.cursor)
    assert "team/export was not materialized since the last look, and no file waits" in str(before.skip_reason)
    exported()
    after = tick(d, "d__t__landing_sensor", before.cursor)
    assert "b.parquet" in [r.partition_key for r in after.run_requests or ()]
    (added,) = after.dynamic_partitions_requests or ()
    assert added.partition_keys == ["a.parquet", "b.parquet"]
    exported()
    assert "2 landing files" in str(tick(d, "d__t__landing_sensor", after.cursor).skip_reason)


def test_files_of_an_asset_that_have_not_settled_are_looked_at_again(tmp_path: Path) -> None:
    d = Deployment(tmp_path, {"landing": {"asset": "export", "settle_seconds": 3600}})
    first = tick(d, "d__t__landing_sensor")
    land(d, "a")
    d.instance.report_runless_asset_event(dg.AssetMaterialization("export"))
    seen = tick(d, "d__t__landing_sensor", first.cursor)
    assert (seen.run_requests, tick(d, "d__t__landing_sensor", seen.cursor).run_requests) == ([], [])
    assert "1 landing files, 1 of them" in str(tick(d, "d__t__landing_sensor", seen.cursor).skip_reason)


def test_a_folder_that_cannot_be_listed_is_a_reason_to_skip(tmp_path: Path) -> None:
    d = Deployment(tmp_path, {"landing": {"path": "s3://lake/landing"}})
    definition = next(s for s in d.defs.sensors or () if s.name == "d__t__landing_sensor")
    store = StoreResource(endpoint_url="http://127.0.0.1:9", aws_access_key_id="k", aws_secret_access_key="s")
    context = dg.build_sensor_context(instance=d.instance, cursor=None, resources={"lakeidx_store": store})
    result = definition(context)
    assert isinstance(result, dg.SensorResult)
    assert "cannot be listed" in str(result.skip_reason)
    assert result.cursor is None


def test_the_compaction_sensor_runs_when_sorted_runs_pile_up(tmp_path: Path) -> None:
    d = Deployment(tmp_path)
    name = "d__t__compaction_sensor"
    assert "does not exist" in str(tick(d, name).skip_reason)
    for batch in ("a", "b", "c", "d", "e"):
        d.land(f"{batch}.parquet", [(1, k, batch) for k in range(5)])
        d.run(f"{batch}.parquet")
    found = tick(d, name)
    assert [r.run_key for r in found.run_requests or ()] == [
        f"compaction-of-snapshot-{name_state(d.table.metadata.load_snapshot(5))}"
    ]
    assert d.run_asset("compaction").success
    after = tick(d, name, found.cursor)
    assert not after.run_requests
    assert "needs no compaction" in str(after.skip_reason)
    upsert_table(make_context(d.table.metadata, "by-another-program"), arrow_rows([(1, 9, "other")]))
    other = tick(d, name, after.cursor)
    (seen,) = other.asset_events
    assert (seen.asset_key, seen.metadata["lakeidx/snapshot_id"].value) == (dg.AssetKey(["d", "t"]), 7)
    assert tick(d, name, other.cursor).asset_events == []
    # From there on it looks at what was written since.
    for batch in ("f", "g", "h", "i"):
        d.land(f"{batch}.parquet", [(1, k, batch) for k in range(5)])
        d.run(f"{batch}.parquet")
    assert tick(d, name, after.cursor).run_requests


def test_an_error_that_will_not_pass_turns_the_tick_red(tmp_path: Path) -> None:
    d = Deployment(tmp_path)
    d.land("a.parquet", [(1, 1, "a")])
    d.run("a.parquet")
    Path(d.table.paths.snapshot_path(1)).write_bytes(b"damaged")
    with pytest.raises(CorruptFileError, match="snapshot-1"):
        tick(d, "d__t__compaction_sensor")


def marks_of(d: Deployment) -> list[Path]:
    return sorted(d.folder.rglob("_landing/*"))


@pytest.mark.parametrize("loss", ["removed", "damaged", "cut", "reset"])
def test_lost_marks_load_nothing_twice_and_forget_nothing(tmp_path: Path, loss: str) -> None:
    d = Deployment(tmp_path)
    land(d, "a", "b")
    first = tick(d, "d__t__landing_sensor")
    assert len(str(first.cursor)) < 200
    assert d.run("a.parquet").success
    # The run of b has not begun, and c comes when the marks are gone.
    land(d, "c")
    (marks,) = marks_of(d)
    if loss == "removed":
        marks.unlink()
    elif loss == "damaged":
        marks.write_bytes(marks.read_bytes().replace(b'"seen": "', b'"seen": "A', 1))
    elif loss == "cut":
        marks.write_bytes(marks.read_bytes()[:-9])
    found = tick(d, "d__t__landing_sensor", None if loss == "reset" else first.cursor)
    requests = {r.partition_key: r.run_key for r in found.run_requests or ()}
    assert list(requests) == ["b.parquet", "c.parquet"]
    # The run of b that was asked for is not started again by Dagster, which knows its key.
    assert requests["b.parquet"] == [r.run_key for r in first.run_requests or ()][1]
    assert tick(d, "d__t__landing_sensor", found.cursor).run_requests == []


def test_marks_of_a_tick_that_was_not_recorded_are_not_the_only_ones(tmp_path: Path) -> None:
    d = Deployment(tmp_path)
    land(d, "a")
    first = tick(d, "d__t__landing_sensor")
    land(d, "b")
    lost = tick(d, "d__t__landing_sensor", first.cursor)
    assert [r.run_key for r in tick(d, "d__t__landing_sensor", first.cursor).run_requests or ()] == [
        r.run_key for r in lost.run_requests or ()
    ]
    cursor = lost.cursor
    for name in ("c", "e", "f"):
        land(d, name)
        time.sleep(0.02)
        cursor = tick(d, "d__t__landing_sensor", cursor).cursor
    # Those of the cursor, of the one before, and of a tick that comes from neither.
    assert len(marks_of(d)) <= 3


def test_a_folder_that_is_gone_is_an_error_and_comes_back_with_nothing_new(tmp_path: Path) -> None:
    d = Deployment(tmp_path)
    land(d, "a")
    first = tick(d, "d__t__landing_sensor")
    d.landing.rename(tmp_path / "unmounted")
    with pytest.raises(NotFoundError, match="landing: the folder does not exist"):
        tick(d, "d__t__landing_sensor", first.cursor)
    # A mount point is there without its files.
    d.landing.mkdir()
    empty = tick(d, "d__t__landing_sensor", first.cursor)
    d.landing.rmdir()
    (tmp_path / "unmounted").rename(d.landing)
    assert tick(d, "d__t__landing_sensor", empty.cursor).run_requests == []


def test_a_file_that_is_dated_in_the_future_is_named_and_taken(tmp_path: Path) -> None:
    d = Deployment(tmp_path)
    d.land("a.parquet", [(1, 1, "a")], mtime=time.time() + 10**7)
    definition = next(s for s in d.defs.sensors or () if s.name == "d__t__landing_sensor")
    resources = {n: r for n, r in (d.defs.resources or {}).items() if n in definition.required_resource_keys}
    with dg.build_sensor_context(instance=d.instance, resources=resources) as context:
        said: list[str] = []
        with patch.object(context.log, "warning", said.append):
            result = definition(context)
    assert isinstance(result, dg.SensorResult)
    assert [r.partition_key for r in result.run_requests or ()] == ["a.parquet"]
    (line,) = said
    assert line.startswith("dated in the future, taken all the same: a.parquet (20")


def test_upkeep_does_not_queue_up_behind_a_backlog(tmp_path: Path) -> None:
    d = Deployment(tmp_path)
    for batch in ("a", "b", "c", "d", "e"):
        d.land(f"{batch}.parquet", [(1, k, batch) for k in range(5)])
        d.run(f"{batch}.parquet")
    schedules = {s.name: s for s in d.defs.schedules or ()}
    expiry, orphans = (schedules[f"d__t__{name}_schedule"] for name in ("snapshot_expiry", "orphans"))
    assert isinstance(expiry, dg.ScheduleDefinition)
    assert isinstance(orphans, dg.ScheduleDefinition)
    waiting = [{"dagster/sensor_name": "d__t__compaction_sensor"}, {"dagster/schedule_name": expiry.name}]

    def runs(filters: dg.RunsFilter, limit: int) -> list[dg.DagsterRun]:
        assert list(filters.statuses) == [dg.DagsterRunStatus.QUEUED]
        return [dg.DagsterRun("j", "r")] if filters.tags in waiting else []

    # A run gets into the queue by a daemon.
    with patch.object(d.instance, "get_runs", runs), patch.object(dg.ScheduleEvaluationContext, "instance", d.instance):
        waits = tick(d, "d__t__compaction_sensor")
        late, due = (s.evaluate_tick(dg.build_schedule_context()) for s in (expiry, orphans))
    assert (waits.run_requests, waits.cursor) == ([], None)
    assert "run r of this sensor is still queued" in str(waits.skip_reason)
    assert "run r of this schedule is still queued" in str(late.skip_message)
    (request,) = due.run_requests or ()
    assert request.run_config["ops"]["d__t__snapshot_expiry"]["config"]["remove_orphans"] is True
    jobs = {j.name: j.tags.get("dagster/priority") for j in d.defs.resolve_all_job_defs()}
    assert (jobs["d__t__batch"], jobs["d__t__compaction_job"]) == (None, "1")
