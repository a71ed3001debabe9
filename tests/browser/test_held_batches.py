"""A batch that failed a check before it was published, as the browser shows it: a red check, and why the stage stopped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from lakeidx.dagster.ui import prepare_home
from tests.browser.conftest import DagsterUI, serve
from tests.browser.test_ui import picture
from tests.dagster.pipelines import Deployment

pytestmark = pytest.mark.browser
_OBSERVED = """{assetOrError(assetKey: {path: ["shop", "orders", "commit"]}) {... on Asset {assetObservations(limit: 1) {
  metadataEntries {label ... on TextMetadataEntry {text}}}}}}"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DagsterUI, Deployment]]:
    """A UI over a table that publishes after its checks, and has a batch that was held."""
    work = tmp_path_factory.mktemp("held")
    few = {
        "type": "expect_table_row_count_to_be_between",
        "args": {"max_value": 1000},
        "on": "table",
        "name": "few_rows",
    }
    settings = {"table": "shop.orders", "publish": "after_checks", "limits": {"deletes": "5%"}, "expectations": [few]}
    d = Deployment(work / "t", settings, dg.DagsterInstance.from_config(str(prepare_home(work))))
    for name, first, count in (("monday.parquet", 0, 600), ("tuesday.parquet", 600, 700)):
        d.land(name, [(1, k, "a") for k in range(first, first + count)])
        d.run(name, raise_on_error=False)
    with serve(work, LAKEIDX_PIPELINES=str(d.folder / "pipelines")) as ui:
        yield ui, d


def test_a_held_batch_is_seen(shop: Any, page: Any) -> None:
    ui, d = shop
    (held,) = d.table.held_batches()
    assert d.table.scan().to_arrow().num_rows == 600
    page.goto(f"{ui.url}/assets/shop/orders?view=checks")
    page.locator("[title='few_rows']").first.click()
    page.get_by_text("Evaluation result", exact=True).wait_for()
    page.get_by_text("Failed", exact=True).last.wait_for()
    picture(ui, page, "held-batch")
    page.goto(f"{ui.url}/assets/shop/orders/commit?view=lineage")
    # The step that publishes, and the table behind it, have one of their two batches.
    page.get_by_text("50% filled (1 failed)").nth(1).wait_for()
    picture(ui, page, "held-batch-graph", settle_ms=5000, height=720)
    said = ui.ask(_OBSERVED)["assetOrError"]["assetObservations"][0]["metadataEntries"]
    assert {"label": "lakeidx/batch_id", "text": held["batch"]} in said
