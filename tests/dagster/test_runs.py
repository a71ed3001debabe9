"""Runs of a table's job: partitions, ranges, runs again, overwrites, late files, rejected rows, metadata."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg
import pyarrow.parquet as pq
import pytest

from lakeidx.format.snapshot import Snapshot
from tests.dagster.pipelines import QUIET, Deployment, metrics, red_checks

pytestmark = pytest.mark.dagster


def newest(d: Deployment) -> Snapshot:
    assert d.table.snapshot is not None
    return d.table.snapshot


def rows(low: int, high: int, text: str, p: int = 1) -> list[tuple[int, int, str | None]]:
    return [(p, k, f"{text}{k}") for k in range(low, high)]


@pytest.fixture
def json_logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What lakeidx logs comes as lines of JSON; its logger is as before after that."""
    logger = logging.getLogger("lakeidx")
    before = logger.handlers, logger.level, logger.propagate
    monkeypatch.setenv("LAKEIDX_LOG_FORMAT", "json")
    yield
    logger.handlers, logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def test_a_run_logs_table_batch_stage_and_snapshot(
    tmp_path: Path, json_logs: None, capsys: pytest.CaptureFixture[str]
) -> None:
    d = Deployment(tmp_path)
    d.land("a.parquet", rows(0, 25, "a"))
    result = d.run("a.parquet")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    ended = [line for line in lines if line["logger"] == "lakeidx.batch.artifacts"]
    assert [(line["stage"], line.get("snapshot")) for line in ended] == [
        ("ingest", None), ("bucket_assignment", None), ("index_write", None), ("commit", 1)
    ]  # fmt: skip
    batch = metrics(result, "ingest")["batch_id"]
    assert {(line["table"], line["batch"]) for line in ended} == {(d.table.uri, batch)}


def test_a_batch_goes_through_all_stages_and_its_checks_pass(tmp_path: Path) -> None:
    d = Deployment(tmp_path)
    d.land("a.parquet", rows(0, 25, "a"))
    result = d.run("a.parquet")
    assert result.success
    assert d.content() == {(1, k): f"a{k}" for k in range(25)}
    assert red_checks(result) == set()
    evaluated = {e.check_name for e in result.get_asset_check_evaluations()}
    assert evaluated == {
        "rows_rejected", "batch_rows_accounted", "files_whole", "keys_in_place", "staged_rows_committed"
    }  # fmt: skip
    commit = metrics(result, "commit")
    assert (commit["data_bytes_written"] > 0, commit["new_buckets"], commit["partition_row_count"]) == (True, 3, 25)
    assert commit.keys().isdisjoint({"inserts", "snapshot_id", "replans"}), "the table says it"
    assert metrics(result, "index_write")["write_amplification"] > 0
    (table,) = [e for e in result.get_asset_materialization_events() if e.asset_key == dg.AssetKey(["d", "t"])]
    materialized = table.step_materialization_data.materialization
    assert materialized.metadata["lakeidx/snapshot_id"].value == 1
    assert not any(isinstance(v, dg.TableSchemaMetadataValue) for v in materialized.metadata.values())
    assert materialized.metadata["dagster/row_count"].value == 25
    page = {n.removeprefix("lakeidx/"): str(v.value) for n, v in materialized.metadata.items()}
    assert (page["buckets"], page["data_files"]) == ("3", "3")
    assert (page["commit_kind"], page["record_versions"]) == ("APPEND", "25")
    run = [line.strip("| ").split(" | ") for line in page["run"].splitlines()]
    assert dict(zip(run[0], run[2], strict=True)).items() >= {
        ("rows in", "25"), ("inserts", "25"), ("updates", "0"), ("deletes", "0"), ("rows rejected", "0"),
        ("files written", "3"), ("buckets touched", "3"), ("snapshot", "1"),
    }  # fmt: skip
    assert float(page["seconds"]) > 0
    assert int(page["bytes_written"]) > 0
    (source,) = (
        d.defs.resolve_asset_graph().get(dg.AssetKey(["d", "t"])).metadata["dagster/code_references"].code_references
    )
    assert source.file_path == str(tmp_path / "pipelines" / "t.yaml")
    assert materialized.tags["dagster/data_version"] == newest(d).uuid  # type: ignore[index]
    assert {e.asset_key for e in result.get_asset_check_evaluations()} == {
        dg.AssetKey(["d", "t"]), dg.AssetKey(["d", "t", "ingest"]), dg.AssetKey(["d", "t", "bucket_assignment"]),
    }  # fmt: skip


def test_fixed_buckets_say_upserts_and_no_inserts_that_nobody_counted(tmp_path: Path) -> None:
    d = Deployment(tmp_path, {"options": {"bucket": 2}})
    d.land("a.parquet", rows(0, 3, "a"))
    d.land("b.parquet", [(1, 0, "b"), (1, 1, "b")], ["+I", "-D"])
    d.run("a.parquet")
    done = d.run("b.parquet")
    said = metrics(done, "t")
    assert (said["upserts"], said["deletes"]) == (1, 1)
    assert said.keys().isdisjoint({"inserts", "updates"})
    assert metrics(d.run("b.parquet"), "t")["run"] == "The batch was in the table already: nothing was done."


def test_a_partition_that_is_run_again_changes_nothing_unless_asked_to(tmp_path: Path) -> None:
    d = Deployment(tmp_path)
    d.land("a.parquet", rows(0, 5, "a"))
    d.land("b.parquet", rows(3, 8, "b"))
    d.run("a.parquet")
    d.run("b.parquet")
    before = d.content()
    again = d.run("a.parquet")
    assert again.success
    assert d.content() == before
    assert newest(d).id == 2
    asked = d.run("a.parquet", overwrite="partitions")
    assert asked.success
    assert d.content() == {(1, k): f"a{k}" for k in range(5)}
    assert newest(d).commit_kind.value == "OVERWRITE"


def test_an_overwrite_that_the_table_cannot_take_leaves_the_batch_of_its_partition(tmp_path: Path) -> None:
    d = Deployment(tmp_path, {"partitionKeys": []})
    d.land("a.parquet", rows(0, 5, "a"))
    d.run("a.parquet")
    refused = d.run("a.parquet", overwrite="partitions", raise_on_error=False, selection=["ingest"])
    assert not refused.success
    assert d.run("a.parquet", selection=["commit"]).success
    assert newest(d).id == 1


def test_a_range_is_one_batch_and_its_partitions_count_as_committed(tmp_path: Path) -> None:
    d = Deployment(tmp_path)
    for i, name in enumerate(("a", "b", "c")):
        d.land(f"{name}.parquet", rows(2 * i, 2 * i + 4, name))
    result = d.run("a.parquet", "b.parquet", "c.parquet")
    assert result.success
    assert red_checks(result) == set()
    assert newest(d).id == 1
    assert d.content() == {(1, k): f"{'a' if k < 2 else 'b' if k < 4 else 'c'}{k}" for k in range(8)}
    # A partition of the range, run alone later, must not bring its older rows back.
    assert d.run("a.parquet").success
    assert newest(d).id == 1
    assert d.content()[1, 3] == "b3"


def test_late_files_of_an_old_partition_are_upserted_without_the_rows_that_came_before(tmp_path: Path) -> None:
    d = Deployment(tmp_path, {"partitions": {"by": "daily", "start": "2026-01-01", "key": r"(\d{4}-\d{2}-\d{2})"}})
    d.land("f-2026-01-01-a.parquet", rows(0, 4, "first"))
    d.land("f-2026-01-02-a.parquet", rows(2, 6, "second"))
    d.run("2026-01-01")
    d.run("2026-01-02")
    d.land("f-2026-01-01-late.parquet", rows(5, 9, "late"))
    assert d.run("2026-01-01").success
    expected = {(1, k): f"{'first' if k < 2 else 'second' if k < 5 else 'late'}{k}" for k in range(9)}
    assert d.content() == expected
    assert newest(d).id == 3


def test_a_file_that_comes_again_with_other_content_is_a_new_batch(tmp_path: Path) -> None:
    d = Deployment(tmp_path)
    d.land("a.parquet", rows(0, 3, "a"))
    d.run("a.parquet")
    d.land("a.parquet", rows(0, 4, "again"))
    assert d.run("a.parquet").success
    assert d.content() == {(1, k): f"again{k}" for k in range(4)}


def test_rejected_rows_are_counted_and_shown(tmp_path: Path) -> None:
    d = Deployment(tmp_path)
    d.land("a.parquet", [(1, 1, "x")] * 3, ["+I", "?", "+U"])
    result = d.run("a.parquet")
    assert metrics(result, "ingest")["rows_rejected"] == 1
    (check,) = [c for c in result.get_asset_check_evaluations() if not c.passed]
    assert (check.check_name, check.severity) == ("rows_rejected", dg.AssetCheckSeverity.WARN)
    assert check.description == "1 of 3 rows rejected: kind (1). The others are staged."
    found: dict[str, Any] = {name.removeprefix("lakeidx/"): m.value for name, m in check.metadata.items()}
    assert [r.data for r in found["reject_reasons"].records] == [{"reason": "kind", "rows": 1}]
    assert found["rejected_rows"].records[0].data["reason"].startswith("kind:")
    assert found["rejected_rows"].records[0].data["line"] == 2
    assert pq.read_table(found["rejected_path"]).num_rows == 1


@pytest.mark.parametrize("limit", [{"max_rejected": "30%"}, {"strict": True}, {"max_rejected": 0}])
def test_a_batch_that_rejects_too_many_rows_fails_the_check_and_stops(tmp_path: Path, limit: dict[str, Any]) -> None:
    d = Deployment(tmp_path, limit)
    d.land("a.parquet", [(1, k, "x") for k in range(4)], ["+I", "?", "+U", "!"])
    result = d.run("a.parquet", raise_on_error=False)
    assert not result.success
    (check,) = result.get_asset_check_evaluations()
    assert (check.check_name, check.passed, check.severity) == ("rows_rejected", False, dg.AssetCheckSeverity.ERROR)
    assert str(check.description).startswith("2 of 4 rows rejected: kind (2). The batch was refused: ")
    assert pq.read_table(str(check.metadata["lakeidx/rejected_path"].value)).num_rows == 2
    assert d.table.snapshot is None


def test_deletes_leave_stale_hashes_as_a_warning(tmp_path: Path) -> None:
    d = Deployment(tmp_path)
    d.land("a.parquet", rows(0, 6, "a"))
    d.land("b.parquet", rows(0, 3, "a"), ["-D"] * 3)
    d.run("a.parquet")
    result = d.run("b.parquet")
    assert result.success
    assert d.content() == {(1, k): f"a{k}" for k in range(3, 6)}
    assert red_checks(result) == set(), "one batch says little of them"
    verified = d.run_asset("verification")
    assert red_checks(verified) == {"stale_hashes"}
    (page,) = [e.step_materialization_data.materialization for e in verified.get_asset_materialization_events()]
    for plot in ("rows_per_bucket", "levels_per_bucket", "batch_history"):
        text = str(page.metadata[f"lakeidx/plot_{plot}"].value)
        assert text.startswith("![") and "data:image/svg+xml;base64," in text  # noqa: PT018


def test_static_and_monthly_partitions(tmp_path: Path) -> None:
    d = Deployment(
        tmp_path / "s", {"partitions": {"by": "static", "values": ["north", "south"], "key": r"^(north|south)-"}}
    )
    d.land("north-1.parquet", rows(0, 2, "n"))
    d.land("south-1.parquet", rows(2, 4, "s"))
    assert d.run("north").success
    assert len(d.content()) == 2
    assert d.run("north", "south").success
    assert len(d.content()) == 4
    m = Deployment(tmp_path / "m", {"partitions": {"by": "monthly", "start": "2026-01-01", "key": r"(\d{4})(\d{2})"}})
    m.land("x202601.parquet", rows(0, 2, "n"))
    assert m.run("2026-01").success
    assert len(m.content()) == 2


def test_verification_and_expiry_jobs(tmp_path: Path) -> None:
    d = Deployment(tmp_path, {"options": {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}})
    for name in ("a", "b", "c"):
        d.land(f"{name}.parquet", rows(0, 12, name))
        d.run(f"{name}.parquet")
    verified = d.run_asset("verification")
    assert verified.success
    assert red_checks(verified) == set()
    assert metrics(verified, "verification")["row_count"] == 12
    dry = d.run_asset("snapshot_expiry", dry_run=True)
    assert metrics(dry, "snapshot_expiry")["snapshots_expired"] == 2
    assert d.table.metadata.snapshot_ids() == [1, 2, 3]
    done = d.run_asset("snapshot_expiry")
    assert done.success
    assert d.table.metadata.snapshot_ids() == [3]
    assert d.content() == {(1, k): f"c{k}" for k in range(12)}
    assert red_checks(d.run_asset("verification")) == set()


def test_compaction_keeps_rows_and_its_checks_pass(tmp_path: Path) -> None:
    d = Deployment(tmp_path)
    for name in ("a", "b", "c"):
        d.land(f"{name}.parquet", rows(0, 12, name))
    d.run("a.parquet", "b.parquet", "c.parquet")
    before = d.content()
    plan = metrics(d.run_asset("compaction", full=True, dry_run=True), "compaction")
    result = d.run_asset("compaction", full=True)
    assert result.success
    assert red_checks(result) == set()
    done = metrics(result, "compaction")
    assert done["buckets"] == 2
    told = ("buckets", "files_in", "files_out", "rows_in", "rows_out", "bytes_in", "bytes_out")
    assert [plan[n] for n in told] == [done[n] for n in told]
    assert all(m["seconds"] > 0 and m["memory"] > 0 for m in (plan, done))
    assert newest(d).commit_kind.value == "COMPACT"
    assert d.content() == before
    (seen,) = [e.asset_observation_data.asset_observation for e in result.all_events if e.is_asset_observation]
    assert seen.asset_key == dg.AssetKey(["d", "t"])
    assert seen.tags["dagster/data_version"] == newest(d).identity
    assert seen.metadata["dagster/row_count"].value == 12


def test_the_lookup_store_follows_a_commit_and_the_stages_an_ingest_that_was_run_alone(tmp_path: Path) -> None:
    """As the automation sensor asks the conditions, once it is turned on."""
    d = Deployment(tmp_path, {"lookup_store": True})
    for name in ("a", "b"):
        d.land(f"{name}.parquet", rows(0, 5, name))
        d.know(f"{name}.parquet")
    lookup, assignment = (dg.AssetKey(["d", "t", n]) for n in ("lookup_store", "bucket_assignment"))
    at_first = dg.evaluate_automation_conditions(d.defs, d.instance)
    assert at_first.total_requested == 0
    d.run("a.parquet")
    committed = dg.evaluate_automation_conditions(d.defs, d.instance, cursor=at_first.cursor)
    assert committed.get_num_requested(lookup) == 1
    assert committed.total_requested == 1
    d.run("b.parquet", selection=["ingest"])
    alone = dg.evaluate_automation_conditions(d.defs, d.instance, cursor=committed.cursor)
    assert alone.get_requested_partitions(assignment) == {"b.parquet"}
    assert alone.get_num_requested(lookup) == 0


def test_a_batch_follows_the_asset_that_writes_its_files(tmp_path: Path) -> None:
    """As the automation sensor asks the conditions, with the asset of another code location in the graph."""
    export = dg.AssetSpec("export", partitions_def=dg.DailyPartitionsDefinition("2026-01-01"))
    partitions = {"by": "daily", "start": "2026-01-01", "key": r"(\d{4}-\d{2}-\d{2})"}
    d = Deployment(tmp_path, {"landing": {"asset": "export"}, "partitions": partitions})
    both = dg.Definitions.merge(d.defs, dg.Definitions(assets=[export]))
    day = "2026-01-02"

    def exported() -> None:
        d.instance.report_runless_asset_event(dg.AssetMaterialization("export", partition=day))

    at_first = dg.evaluate_automation_conditions(both, d.instance)
    assert at_first.total_requested == 0
    d.land(f"{day}.parquet", rows(0, 5, "a"))
    exported()
    after = dg.evaluate_automation_conditions(both, d.instance, cursor=at_first.cursor)
    stages = [dg.AssetKey(["d", "t", n]) for n in ("ingest", "bucket_assignment", "index_write", "commit")]
    # One run takes the day through all stages, though it is not the newest one.
    assert {tuple(after.get_requested_partitions(k)) for k in (*stages, dg.AssetKey(["d", "t"]))} == {(day,)}
    assert after.total_requested == 5
    assert d.run(day).success
    assert d.content() == {(1, k): f"a{k}" for k in range(5)}
    done = dg.evaluate_automation_conditions(both, d.instance, cursor=after.cursor)
    assert done.total_requested == 0
    exported()
    again = dg.evaluate_automation_conditions(both, d.instance, cursor=done.cursor)
    assert (again.total_requested, set(again.get_requested_partitions(stages[0]))) == (5, {day})


@pytest.mark.parametrize("asset", ["compaction", "snapshot_expiry", "verification"])
def test_upkeep_of_a_table_without_a_batch_succeeds_with_a_note(tmp_path: Path, asset: str) -> None:
    d = Deployment(tmp_path)
    (made,) = d.run_asset(asset).get_asset_materialization_events()
    assert "the first batch makes it" in str(
        made.step_materialization_data.materialization.metadata["lakeidx/note"].value
    )
    d.land("a.parquet", [(1, 1, "a")])
    d.run("a.parquet")
    shutil.rmtree(d.config.uri)
    # A table that had batches and is gone is an error.
    assert not d.run_asset(asset).success


def test_a_run_that_repeats_a_failed_one_does_not_say_what_that_one_said(tmp_path: Path) -> None:
    d = Deployment(tmp_path)
    d.land("a.parquet", [(1, 1, "a")])
    d.know("a.parquet")
    job = d.defs.resolve_job_def("d__t__batch")
    said = {"lakeidx/error_kind": "killed", "lakeidx/alert": "yes", "lakeidx/what_to_do": "run again"}
    tags = {**said, "dagster/parent_run_id": str(uuid4()), "dagster/root_run_id": str(uuid4())}
    done = job.execute_in_process(instance=d.instance, partition_key="a.parquet", tags=tags, run_config=QUIET)
    run = d.instance.get_run_by_id(done.run_id)
    assert run is not None
    assert (run.tags["lakeidx/error_kind"], run.tags["lakeidx/alert"]) == ("none", "no")


def test_a_run_stores_nothing_twice(tmp_path: Path) -> None:
    d = Deployment(tmp_path)
    d.land("a.parquet", [(1, 1, "a")])
    done = d.run("a.parquet")
    outputs = [e for e in done.all_events if e.event_type_value == "STEP_OUTPUT"]
    assert outputs
    assert not any(e.step_output_data.metadata for e in outputs)
    tables = [
        (e.check_name, name)
        for e in done.get_asset_check_evaluations()
        for name, value in e.metadata.items()
        if isinstance(value, dg.TableMetadataValue)
    ]
    assert tables == []
