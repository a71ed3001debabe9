"""What a new user does, in a real browser. The tests build on each other, in order: a deployment is used, not reset."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import DagsterUI

pytestmark = pytest.mark.browser
LOCATION = "locations/dagster_project.definitions"
JOB = "nycflights__flights__batch"
COMMIT = "assets/nycflights/flights/commit"
TABLE = "assets/nycflights/flights"


_SHORTER = """([long, short]) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(long, short);
}"""


def picture(ui: DagsterUI, page: Any, name: str, *, settle_ms: int = 1500, height: int = 950) -> None:
    """Keep a picture of the page's top; pages of the UI draw for a moment after their data has come."""
    page.wait_for_timeout(settle_ms)
    # Where this test happens to run is of no interest to a reader.
    page.evaluate(_SHORTER, [str(ui.work), "/lake"])
    page.screenshot(path=str(ui.pictures / f"{name}.png"), clip={"x": 0, "y": 0, "width": 1500, "height": height})


def choose_partitions(page: Any, *names: str) -> None:
    """Tick partitions in the launch dialog."""
    page.get_by_text("Select a partition or create one").click()
    for name in names:
        page.locator("[role=menuitem]").filter(has_text=name).last.click()
    page.keyboard.press("Escape")


def test_the_asset_graph_shows_the_table_and_every_stage(ui: DagsterUI, page: Any) -> None:
    page.goto(f"{ui.url}/{LOCATION}/asset-groups/flights/lineage")
    for stage in ("landing", "ingest", "bucket_assignment", "index_write", "commit", "compaction", "snapshot_expiry"):
        page.get_by_text(stage, exact=True).first.wait_for()
    table = page.locator("foreignObject", has_text=re.compile("^(nycflights/)?flights"))
    table.first.wait_for()
    picture(ui, page, "asset-graph", settle_ms=3000)
    # What serves it is this machine's only: whoever reaches it can start runs.
    assert ui.listens_on() <= {"127.0.0.1", "::1"}
    assert "127.0.0.1" in ui.listens_on()


def test_observing_the_landing_folder_makes_files_partitions(ui: DagsterUI, page: Any) -> None:
    page.goto(f"{ui.url}/assets/nycflights/flights/landing")
    page.get_by_role("button", name="Observe").first.click()
    ui.wait_for_runs(page, 1, job="__ASSET_JOB")
    # Only the files that lie there: nothing was seeded.
    page.goto(f"{ui.url}/assets/nycflights/flights/ingest?view=partitions")
    for name in ("2013-01-1-scheduled.parquet", "2013-02-2-actual.parquet"):
        page.get_by_text(name).first.wait_for(state="attached")


def test_one_partition_is_materialized_and_succeeds(ui: DagsterUI, page: Any) -> None:
    page.goto(f"{ui.url}/{LOCATION}/jobs/{JOB}")
    page.get_by_role("button", name="Materialize all").first.click()
    choose_partitions(page, "2013-01-1-scheduled.parquet")
    picture(ui, page, "launch-one-partition", settle_ms=500)
    page.get_by_role("button", name=re.compile("^Launch")).last.click()
    run = ui.wait_for_runs(page, 1, job=JOB)[0]
    page.goto(f"{ui.url}/runs/{run['runId']}")
    page.get_by_text("Success").first.wait_for()
    picture(ui, page, "run-succeeded", settle_ms=3000)


def test_checks_and_plots_stand_on_the_asset_page(ui: DagsterUI, page: Any) -> None:
    page.goto(f"{ui.url}/{TABLE}?view=checks")
    for check in ("files_whole", "keys_in_place", "staged_rows_committed"):
        page.get_by_text(check, exact=True).first.wait_for()
    page.get_by_text("keys_in_place", exact=True).first.click()
    page.get_by_text("Succeeded").first.wait_for()
    picture(ui, page, "asset-checks")
    page.goto(f"{ui.url}/{COMMIT}?view=events")
    page.get_by_text("lakeidx/new_buckets").first.wait_for()
    picture(ui, page, "commit-metadata")
    page.goto(f"{ui.url}/{TABLE}")
    page.get_by_text("lakeidx/rows_in", exact=True).first.wait_for()
    page.get_by_text("lakeidx/how_to_use", exact=True).first.wait_for()
    picture(ui, page, "table-page")


def test_a_backfill_of_three_partitions(ui: DagsterUI, page: Any) -> None:
    page.goto(f"{ui.url}/{LOCATION}/jobs/{JOB}")
    page.get_by_role("button", name="Materialize all").first.click()
    choose_partitions(page, "2013-01-2-actual.parquet", "2013-02-1-scheduled.parquet", "2013-02-2-actual.parquet")
    picture(ui, page, "launch-backfill", settle_ms=500)
    page.get_by_role("button", name=re.compile("^Launch")).last.click()
    runs = ui.wait_for_runs(page, 2, job=JOB)
    tags = {t["key"]: t["value"] for t in runs[0]["tags"]}
    # Three partitions that follow each other are one run, one batch, one snapshot.
    assert tags["dagster/asset_partition_range_start"] == "2013-01-2-actual.parquet"
    assert tags["dagster/asset_partition_range_end"] == "2013-02-2-actual.parquet"
    page.goto(f"{ui.url}/runs?view=backfills")
    picture(ui, page, "backfill", settle_ms=3000)
    page.goto(f"{ui.url}/{COMMIT}?view=partitions")
    page.get_by_text("2013-02-2-actual.parquet").first.wait_for(state="attached")
    picture(ui, page, "partitions")


def test_the_landing_sensor_starts_a_run_for_a_new_file(ui: DagsterUI, page: Any) -> None:
    landing = ui.work / "landing" / "flights"
    page.goto(f"{ui.url}/{LOCATION}/sensors/nycflights__flights__landing_sensor")
    page.locator("input[type=checkbox]").first.wait_for(state="attached")
    before = len([r for r in ui.runs() if r["pipelineName"] == JOB])
    # The box itself is drawn outside of view; its label is the switch that one sees.
    page.locator("label:has(input[type=checkbox])").first.click()
    dropped = landing / "2013-03-1-scheduled.parquet"
    shutil.copy(landing / "2013-02-1-scheduled.parquet", dropped.with_suffix(".tmp"))
    Path(dropped.with_suffix(".tmp")).rename(dropped)
    # The sensor, too, is new to the files of the steps before, and finds that they are committed: one run.
    runs = ui.wait_for_runs(page, before + 1, job=JOB)
    started = [t["value"] for r in runs for t in r["tags"] if t["key"] == "dagster/partition"]
    assert "2013-03-1-scheduled.parquet" in started
    page.goto(f"{ui.url}/{LOCATION}/sensors/nycflights__flights__landing_sensor")
    picture(ui, page, "landing-sensor", settle_ms=4000)
    page.goto(f"{ui.url}/runs")
    page.get_by_text("landing_sensor").first.wait_for()
    picture(ui, page, "runs", settle_ms=3000)
