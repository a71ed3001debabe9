"""The Checks tab after each kind of run, as a browser shows it: the list and a check's page say the same, and what is so.

The tests build on each other, in order: a deployment is used, not reset.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.dagster.assets.stages import commit_checks
from lakeidx.dagster.names import asset_keys
from lakeidx.dagster.ui import prepare_home
from tests.browser.conftest import DagsterUI, serve
from tests.browser.test_ui import picture
from tests.dagster.pipelines import Deployment

pytestmark = pytest.mark.browser
LOCATION = "lakeidx.dagster.definitions"
LAUNCH = "mutation($p: ExecutionParams!) {launchPipelineExecution(executionParams: $p) {__typename}}"
AGAIN = "mutation($p: ReexecutionParams!) {launchPipelineReexecution(reexecutionParams: $p) {__typename}}"
#: What stands in the list beside a check's name, with its picture.
GOOD, WARNED, BROKEN = ("Succeeded", "check_circle"), ("Failed", "warning_outline"), ("Failed", "cancel")
_LISTED = """() => Object.fromEntries([...document.querySelectorAll('[class*=MiddleTruncate_container]')]
  .filter(name => name.parentElement.parentElement.querySelector('[role=img]'))
  .map(name => [name.title, [name.nextElementSibling?.textContent ?? '',
                             name.parentElement.parentElement.querySelector('[role=img]').ariaLabel]]))"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DagsterUI, Deployment, Deployment, Deployment]]:
    """A UI over the tables d.t, partitioned by a column, d.u, which is not, and d.w, whose stages are inside it."""
    work = tmp_path_factory.mktemp("checks")
    instance = dg.DagsterInstance.from_config(str(prepare_home(work)))
    there = {"type": "expect_column_values_to_not_be_null", "args": {"column": "v"}}
    few = {"type": "expect_column_max_to_be_between", "args": {"column": "deletes", "max_value": 20}}
    few |= {"on": "batches", "severity": "warn", "name": "few_deletes"}
    t = Deployment(work / "t", {"expectations": [{**there, "name": "v_is_there"}, few]}, instance)
    u = Deployment(work / "u", {"table": "d.u", "partitionKeys": [], "options": {"bucket": 2}}, instance)
    w = Deployment(
        work / "w", {"table": "d.w", "lineage": "table", "expectations": [{**there, "name": "v_is_there"}]}, instance
    )
    (work / "pipelines").mkdir()
    for d in (t, u, w):
        text = (d.folder / "pipelines" / "t.yaml").read_text(encoding="utf-8")
        (work / "pipelines" / f"{d.config.table_name}.yaml").write_text(text, encoding="utf-8")
    with serve(work, LAKEIDX_PIPELINES=str(work / "pipelines")) as ui:
        yield ui, t, u, w


def see(ui: DagsterUI, page: Any, asset: str, *, names: set[str], wrong: dict[str, tuple[str, str]]) -> None:
    """Look at the list, and at the pages of a check that is as it should be and of all others.

    names   of all checks; those that are not `wrong` are good
    """
    page.goto(f"{ui.url}/assets/{asset}?view=checks")
    page.get_by_text(min(names), exact=True).first.wait_for()
    page.wait_for_timeout(1500)
    listed = {name: tuple(shown) for name, shown in page.evaluate(_LISTED).items() if name in names}
    assert listed == {name: wrong.get(name, GOOD) for name in names}
    for name in [*sorted(wrong)[:2], *sorted(names - wrong.keys())[:1]]:
        page.locator(f"[title='{name}']").first.click()
        page.get_by_text("Execution history", exact=True).wait_for()
        page.get_by_text("Evaluation result", exact=True).wait_for()
        page.get_by_text("Failed" if name in wrong else "Passed", exact=True).last.wait_for()


def rules(d: Deployment) -> set[str]:
    return {spec.name for spec in commit_checks(d.config)}


def materialize(ui: DagsterUI, page: Any, d: Deployment, key: str, runs: int) -> dict[str, Any]:
    """Materialize the stages and the table from their assets, as the button of a graph does; the run."""
    d.know(key)
    chosen = [{"path": list(k.path)} for k in asset_keys(d.config)]
    job = {"repositoryLocationName": LOCATION, "repositoryName": "__repository__", "pipelineName": "__ASSET_JOB"}
    tags = {"tags": [{"key": "dagster/partition", "value": key}]}
    ui.ask(LAUNCH, p={"mode": "default", "selector": {**job, "assetSelection": chosen}, "executionMetadata": tags})
    return ui.wait_for_runs(page, runs, job="__ASSET_JOB", may_fail=True)[0]


def test_a_failed_ingest_of_a_table_without_rows_judges_nothing(shop: Any, page: Any) -> None:
    ui, t, *_ = shop
    pq.write_table(pa.table({"other": [1]}), t.landing / "bad.parquet")
    assert materialize(ui, page, t, "bad.parquet", 1)["status"] == "FAILURE"
    see(ui, page, "d/t", names=rules(t), wrong={})
    page.get_by_text("Not judged: no run has reached d/t yet.").first.wait_for()


def test_one_partition(shop: Any, page: Any) -> None:
    ui, t, *_ = shop
    t.land("a.parquet", [(1, k, "a") for k in range(30)])
    assert materialize(ui, page, t, "a.parquet", 2)["status"] == "SUCCESS"
    see(ui, page, "d/t", names=rules(t), wrong={})
    see(ui, page, "d/t/ingest", names={"rows_rejected", "v_is_there"}, wrong={})


def test_a_failed_ingest_leaves_the_checks_as_they_were(shop: Any, page: Any) -> None:
    ui, t, *_ = shop
    assert materialize(ui, page, t, "bad.parquet", 3)["status"] == "FAILURE"
    see(ui, page, "d/t", names=rules(t), wrong={})
    see(ui, page, "d/t/bucket_assignment", names={"batch_rows_accounted"}, wrong={})
    picture(ui, page, "checks-after-failed-ingest")


def test_an_execution_again_from_the_failure(shop: Any, page: Any) -> None:
    ui, t, *_ = shop
    t.land("bad.parquet", [(1, 50, "mended")])
    ui.ask(AGAIN, p={"parentRunId": ui.runs()[0]["runId"], "strategy": "FROM_FAILURE"})
    assert ui.wait_for_runs(page, 4, job="__ASSET_JOB", may_fail=True)[0]["status"] == "SUCCESS"
    see(ui, page, "d/t", names=rules(t), wrong={})
    assert len(t.content()) == 31


def test_a_range_in_one_run(shop: Any, page: Any) -> None:
    ui, t, *_ = shop
    for name in ("r1.parquet", "r2.parquet", "r3.parquet"):
        t.land(name, [(1, 60, name)])
    t.know("r2.parquet")
    assert t.run("r1.parquet", "r3.parquet").success
    see(ui, page, "d/t", names=rules(t), wrong={})
    see(ui, page, "d/t/bucket_assignment", names={"batch_rows_accounted"}, wrong={})
    see(ui, page, "d/t/ingest", names={"rows_rejected", "v_is_there"}, wrong={})


def test_a_backfill_of_a_range_that_a_run_of_the_landing_sensor_overtakes(shop: Any, page: Any) -> None:
    """Its checks are planned while it waits, and those of the other run are reported before."""
    ui, t, *_ = shop
    names = ("q1.parquet", "q2.parquet", "q3.parquet")
    for name in names:
        t.land(name, [(1, 65, name)])
    t.know(*names)
    chosen = [{"path": list(k.path)} for k in asset_keys(t.config)]
    job = {"repositoryLocationName": LOCATION, "repositoryName": "__repository__", "pipelineName": "__ASSET_JOB"}
    ends = {"dagster/asset_partition_range_start": names[0], "dagster/asset_partition_range_end": names[2]}
    tags = {"tags": [{"key": k, "value": v} for k, v in ends.items()]}
    before = sum(r["pipelineName"] == "__ASSET_JOB" for r in ui.runs())
    ui.ask(LAUNCH, p={"mode": "default", "selector": {**job, "assetSelection": chosen}, "executionMetadata": tags})
    assert t.run(names[1]).success
    done = ui.wait_for_runs(page, before + 1, job="__ASSET_JOB", may_fail=True)[0]
    assert done["status"] == "SUCCESS"
    see(ui, page, "d/t", names=rules(t), wrong={})
    see(ui, page, "d/t/bucket_assignment", names={"batch_rows_accounted"}, wrong={})
    see(ui, page, "d/t/ingest", names={"rows_rejected", "v_is_there"}, wrong={})


def test_a_run_per_partition(shop: Any, page: Any) -> None:
    ui, t, *_ = shop
    for name in ("s1.parquet", "s2.parquet"):
        t.land(name, [(1, 70, name)])
        assert t.run(name).success
    see(ui, page, "d/t", names=rules(t), wrong={})
    see(ui, page, "d/t/ingest", names={"rows_rejected", "v_is_there"}, wrong={})


def test_an_unpartitioned_table(shop: Any, page: Any) -> None:
    ui, _, u, _ = shop
    u.land("a.parquet", [(1, k, "a") for k in range(3)])
    u.land("b.parquet", [(1, 1, "b")])
    pq.write_table(pa.table({"other": [1]}), u.landing / "c.parquet")
    assert u.run("a.parquet", "b.parquet").success
    assert not u.run("c.parquet", raise_on_error=False).success
    see(ui, page, "d/u", names=rules(u), wrong={})


def test_a_later_stage_that_failed_is_executed_again(shop: Any, page: Any) -> None:
    """A run whose ingest went well and whose write failed begins, again from the failure, where it stopped."""
    ui, t, *_ = shop
    t.land("later.parquet", [(1, 80, "later")])
    warehouse = t.folder / "wh" / "d.db" / "t"
    manifests = warehouse / "manifest"
    manifests.rename(warehouse / "gone")
    before = len(ui.runs())
    failed = materialize(ui, page, t, "later.parquet", sum(r["pipelineName"] == "__ASSET_JOB" for r in ui.runs()) + 1)
    assert (failed["status"], len(ui.runs())) == ("FAILURE", before + 1)
    see(ui, page, "d/t", names=rules(t), wrong={})
    (warehouse / "gone").rename(manifests)
    ui.ask(AGAIN, p={"parentRunId": failed["runId"], "strategy": "FROM_FAILURE"})
    done = ui.wait_for_runs(
        page, sum(r["pipelineName"] == "__ASSET_JOB" for r in ui.runs()), job="__ASSET_JOB", may_fail=True
    )[0]
    assert done["status"] == "SUCCESS"
    steps = "query($id: ID!) {runOrError(runId: $id) {... on Run {stepStats {stepKey status}}}}"
    ran = {s["stepKey"] for s in ui.ask(steps, id=done["runId"])["runOrError"]["stepStats"]}
    assert "d__t__ingest" not in ran
    assert {"d__t__index_write", "d__t__commit"} <= ran
    assert t.content()[1, 80] == "later"
    see(ui, page, "d/t", names=rules(t), wrong={})


def test_a_table_whose_stages_are_inside_it(shop: Any, page: Any) -> None:
    ui, _, _, w = shop
    w.land("a.parquet", [(1, k, "a") for k in range(3)])
    pq.write_table(pa.table({"other": [1]}), w.landing / "b.parquet")
    runs = sum(r["pipelineName"] == "__ASSET_JOB" for r in ui.runs())
    assert materialize(ui, page, w, "a.parquet", runs + 1)["status"] == "SUCCESS"
    names = rules(w) | {"rows_rejected", "v_is_there", "batch_rows_accounted"}
    see(ui, page, "d/w", names=names, wrong={})
    failed = materialize(ui, page, w, "b.parquet", runs + 2)
    assert failed["status"] == "FAILURE"
    see(ui, page, "d/w", names=names, wrong={})
    w.land("b.parquet", [(1, 50, "mended")])
    ui.ask(AGAIN, p={"parentRunId": failed["runId"], "strategy": "FROM_FAILURE"})
    assert ui.wait_for_runs(page, runs + 3, job="__ASSET_JOB", may_fail=True)[0]["status"] == "SUCCESS"
    see(ui, page, "d/w", names=names, wrong={})
    assert len(w.content()) == 4
    page.goto(f"{ui.url}/assets/d/w?view=lineage")
    page.get_by_text("landing", exact=True).first.wait_for()
    assert not page.get_by_text("index_write", exact=True).count()
    picture(ui, page, "lineage-table", settle_ms=3000)


@pytest.mark.parametrize(("table", "told"), [("t", ("inserts", "updates", "deletes")), ("u", ("upserts", "deletes"))])
def test_what_a_run_did_is_one_glance_and_a_plot(shop: Any, page: Any, table: str, told: tuple[str, ...]) -> None:
    ui, *deployments = shop
    d: Deployment = next(d for d in deployments if d.config.table_name == table)
    for n in range(4):
        d.land(f"glance{n}.parquet", [(1, k, f"{n}") for k in range(3 + n)] + [(1, 2, None)], ["+I"] * (3 + n) + ["-D"])
        assert d.run(f"glance{n}.parquet").success
    page.goto(f"{ui.url}/assets/d/{table}?view=events")
    page.get_by_role("columnheader", name="rows in", exact=True).wait_for()
    figures = ("rows_in", *told, "rows_rejected", "files_written", "buckets_touched", "snapshot_id", "seconds")
    for name in figures:
        page.get_by_text(f"lakeidx/{name}", exact=True).first.wait_for()
    for name in {"inserts", "updates", "upserts"} - set(told):
        assert not page.get_by_text(f"lakeidx/{name}", exact=True).count()
    picture(ui, page, f"run-glance-{table}")
    page.goto(f"{ui.url}/assets/d/{table}?view=overview")
    page.get_by_text("lakeidx/rows_in", exact=True).first.wait_for()
    page.get_by_text("Plots", exact=True).first.click()
    page.locator("canvas").first.wait_for()
    for name in figures:
        page.get_by_text(f"lakeidx/{name}", exact=True).first.wait_for()
    page.get_by_text("lakeidx/rows_in", exact=True).first.scroll_into_view_if_needed()
    picture(ui, page, f"run-plots-{table}", settle_ms=3000)


def test_a_failing_warning(shop: Any, page: Any) -> None:
    ui, t, *_ = shop
    t.land("w.parquet", [(1, k, "w") for k in range(25)] + [(1, 99, "x")], ["-D"] * 25 + ["?"])
    assert t.run("w.parquet").success
    see(ui, page, "d/t", names=rules(t), wrong={"few_deletes": WARNED})
    picture(ui, page, "checks-warning")
    see(ui, page, "d/t/ingest", names={"rows_rejected", "v_is_there"}, wrong={"rows_rejected": WARNED})
    page.locator("[title='rows_rejected']").first.click()
    page.get_by_text("lakeidx/rejected_path").wait_for()
    picture(ui, page, "checks-rows-rejected")


def test_a_failing_error_before_the_commit(shop: Any, page: Any) -> None:
    ui, t, *_ = shop
    t.land("n.parquet", [(1, 1, None)])
    assert not t.run("n.parquet", raise_on_error=False).success
    see(ui, page, "d/t/ingest", names={"rows_rejected", "v_is_there"}, wrong={"v_is_there": BROKEN})
    see(ui, page, "d/t", names=rules(t), wrong={"few_deletes": WARNED})


def test_a_failing_error(shop: Any, page: Any) -> None:
    ui, t, *_ = shop
    index: Path = next((t.folder / "wh").rglob("index/index-*"))
    for file in (t.folder / "wh").rglob("bucket-0/*.parquet"):
        file.unlink()
    assert index.exists()
    t.land("e.parquet", [(1, 3, "e")])
    assert not t.run("e.parquet", raise_on_error=False).success
    page.goto(f"{ui.url}/assets/d/t?view=checks")
    page.locator("[title='files_whole']").first.click()
    page.get_by_text("FAILED: ").first.wait_for()
    listed = page.evaluate(_LISTED)
    assert tuple(listed["files_whole"]) == BROKEN
    assert tuple(listed["staged_rows_committed"]) == GOOD
    picture(ui, page, "checks-failed")
