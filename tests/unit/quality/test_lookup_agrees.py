"""Which part of a table the rule over lookup stores looks at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeidx.api.table import Table
from lakeidx.maintenance.lookup_store import run_lookup_store
from lakeidx.quality import lookup_agrees
from lakeidx.quality.lookup_agrees import check_lookup_agrees
from lakeidx.table.scan.table_scan import TableScan, scan_table
from lakeidx.table.view import load_view
from lakeidx.tasks.runner import LocalRunner
from tests.kit.small_tables import filled_table, make_table, upsert


@pytest.mark.slow
def test_all_of_a_table_some_buckets_or_some_rows(tmp_path: Path) -> None:
    table = filled_table(tmp_path, [(p, k, f"{p}-{k}") for p in (1, 2) for k in range(40)])
    run_lookup_store(table.metadata, LocalRunner())
    everything = check_lookup_agrees(table)
    assert everything.passed
    # Eight buckets of ten keys: every key is asked, and one that is not there for each.
    assert (everything.metrics["sections"], everything.metrics["keys_asked"]) == (8, 160)
    assert everything.metrics["data_files_asked"] == 0
    one = (load_view(table.metadata, table.snapshot).entries[0].partition, 0)
    assert check_lookup_agrees(table, buckets={one}).metrics["keys_asked"] == 20
    few = check_lookup_agrees(table, max_rows=25).metrics
    assert (few["sections"], few["keys_asked"]) == (2, 40)
    assert check_lookup_agrees(table, max_rows=1).metrics["sections"] == 1
    assert check_lookup_agrees(table, sample_rows=16).metrics["keys_asked"] == 32
    assert check_lookup_agrees(make_table(tmp_path / "empty")).metrics["sections"] == 0


def test_a_batch_that_commits_meanwhile_is_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = filled_table(tmp_path, [(1, k, "old") for k in range(20)])
    run_lookup_store(table.metadata, LocalRunner())

    def beside(handle: Table, **how: Any) -> TableScan:
        found = scan_table(handle, **how)
        upsert(Table.open(table.uri), [(1, k, "new") for k in range(20)])
        return found

    monkeypatch.setattr(lookup_agrees, "scan_table", beside)
    result = check_lookup_agrees(table)
    assert (result.passed, result.metrics["rows_different"]) == (True, 0)
    assert result.metrics["keys_asked"] == 40
