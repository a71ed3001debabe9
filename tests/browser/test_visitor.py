"""The demo as a visitor clicks through it: a new month, a bad file, a failing check, its repair, a backfill; in order."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest

from tests.browser.conftest import DagsterUI
from tests.browser.test_ui import LOCATION, picture

pytestmark = pytest.mark.browser
BATCH = "nycflights__weather__batch"
WEATHER = "assets/nycflights/weather"
PRESSURE = "pressure_in_millibars"


def land(ui: DagsterUI, page: Any, job: str) -> None:
    """Press the button of a demo job."""
    page.goto(f"{ui.url}/{LOCATION}/jobs/{job}/playground")
    page.get_by_role("button", name="Launch Run").last.click()
    ui.wait_for_runs(page, 1, job=job)


def materialize(ui: DagsterUI, page: Any, months: str, count: int) -> dict[str, Any]:
    """Materialize partitions of the weather; the run that did it."""
    late = pytest.importorskip("playwright.sync_api").TimeoutError
    asked = page.get_by_placeholder("ex: 2013-01")
    # A page that is still loading may draw the button anew while it is clicked; a visitor clicks again.
    for seconds in (30, 60, 120, 240, 480):
        page.goto(f"{ui.url}/{LOCATION}/jobs/{BATCH}")
        page.get_by_role("button", name="Materialize all").first.click()
        with contextlib.suppress(late):
            asked.wait_for(timeout=1000 * seconds)
            break
    asked.fill(months)
    page.keyboard.press("Enter")
    page.get_by_role("button", name=re.compile("^Launch")).last.click()
    run = ui.wait_for_runs(page, count, job=BATCH, may_fail=True)[0]
    page.goto(f"{ui.url}/runs/{run['runId']}")
    return run


def test_a_new_month_lands(ui: DagsterUI, page: Any) -> None:
    page.goto(f"{ui.url}/{LOCATION}/jobs/demo_1_new_month")
    page.get_by_text("Lands the next month of weather").first.wait_for()
    picture(ui, page, "demo-job")
    land(ui, page, "demo_1_new_month")
    assert materialize(ui, page, "2013-01", 1)["status"] == "SUCCESS"


def test_a_bad_file_fails_a_check_and_does_not_reach_the_table(ui: DagsterUI, page: Any) -> None:
    land(ui, page, "demo_2_bad_file")
    assert materialize(ui, page, "2013-02", 2)["status"] == "FAILURE"
    page.get_by_text("Failure").first.wait_for()
    page.goto(f"{ui.url}/{WEATHER}/ingest?view=checks")
    page.get_by_text(PRESSURE, exact=True).first.click()
    page.get_by_text("FAILED: expect_column_values_to_be_between").first.wait_for()
    picture(ui, page, "demo-failing-check")
    page.get_by_text("rows_rejected", exact=True).first.click()
    page.get_by_text("lakeidx/rejected_rows").first.wait_for()
    picture(ui, page, "demo-rejected-rows")


def test_the_file_is_repaired_and_the_rest_is_a_backfill(ui: DagsterUI, page: Any) -> None:
    land(ui, page, "demo_3_repair")
    assert materialize(ui, page, "2013-02", 3)["status"] == "SUCCESS"
    page.goto(f"{ui.url}/{WEATHER}/ingest?view=checks")
    page.get_by_text(PRESSURE, exact=True).first.click()
    page.get_by_text("Succeeded").first.wait_for()
    picture(ui, page, "demo-repaired-check")
    land(ui, page, "demo_4_rest_of_the_year")
    assert materialize(ui, page, "[2013-03...2013-12]", 4)["status"] == "SUCCESS"
    page.goto(f"{ui.url}/{WEATHER}?view=events")
    page.get_by_role("columnheader", name="rows in", exact=True).first.wait_for()
    picture(ui, page, "demo-year", settle_ms=3000, height=700)
    land(ui, page, "nycflights__weather__verification_job")
    page.goto(f"{ui.url}/{WEATHER}/verification?view=events")
    # A year is three buckets, the first two of them full.
    page.get_by_role("row").filter(has_text="lakeidx/plot_rows_per_bucket").get_by_text("Show Markdown").click()
    page.locator("img[src^='data:image/svg+xml;base64']").last.wait_for()
    picture(ui, page, "table-plots")
