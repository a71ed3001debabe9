"""Overwriting a table with deletion vectors, or a first-row table, emptied it for readers until somebody compacted."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.batch.committed_batch import read_reports
from lakeidx.batch.upsert import make_context, upsert_table
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.pipeline_file.batch_checks import check_batch
from lakeidx.table.view import load_view
from lakeidx.tasks.runner import LocalRunner
from tests.kit.small_tables import content, make_table, rows, upsert

HIDING = {"deletion vectors": {"deletion-vectors.enabled": "true"}, "first-row": {"merge-engine": "first-row"}}


def levels(table: Table) -> set[int]:
    return {e.file.level for e in load_view(table.metadata, table.metadata.latest_snapshot()).entries}


@pytest.fixture(params=HIDING)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    made = make_table(tmp_path, options={**HIDING[request.param], "bucket": "2"})
    upsert(made, [(1, k, "old") for k in range(4)] + [(2, 1, "kept")])
    run_compaction(made.metadata, LocalRunner(1), full=True)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["partitions", "table"])
def test_new_rows_are_seen_at_once(table: Table, mode: str) -> None:
    context = make_context(table.metadata, "b", overwrite=mode)
    upsert_table(context, rows([(1, k, "new") for k in range(2, 6)]))
    expected = {(1, k): "new" for k in range(2, 6)} | ({(2, 1): "kept"} if mode == "partitions" else {})
    assert content(table) == expected
    assert levels(table) == {table.schema.table_options.max_levels - 1}
    assert [r.passed for r in check_batch(table.metadata, read_reports(context.files))] == [True, True]
    upsert(table, [(1, 3, "later"), (1, 9, "later")])
    run_compaction(table.metadata, LocalRunner(1), full=True)
    first_row = table.schema.table_options.merge_engine == "first-row"
    assert content(table) == expected | {(1, 3): "new" if first_row else "later", (1, 9): "later"}


def test_files_that_overlap_stay(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
    from lakeidx.batch.stages.given_rows import stage_table
    from lakeidx.batch.stages.index_write import run_index_write
    from lakeidx.batch.upsert import commit_batch

    context = make_context(table.metadata, "b", overwrite="table")
    stage_table(context.files, table.schema, rows([(1, k, "new") for k in range(4)] * 2))
    run_bucket_assignment(context, 1)
    run_index_write(context, 1, budget_bytes=1)
    commit_batch(context)
    assert 0 in levels(table) or content(table) == {(1, k): "new" for k in range(4)}
    run_compaction(table.metadata, LocalRunner(1), full=True)
    assert content(table) == {(1, k): "new" for k in range(4)}


def test_the_option_turns_it_off(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"overwrite-upgrade": "false", "bucket": "2"})
    upsert(table, [(1, k, "new") for k in range(4)], overwrite="table")
    assert levels(table) == {0}


def test_files_with_deletes_stay(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"bucket": "1"})
    values = [(1, 1, "a"), (1, 2, "b")]
    upsert_table(make_context(table.metadata, "b", overwrite="table"), rows(values, ["+I", "-D"]))
    assert levels(table) == {0}
    assert content(table) == {(1, 1): "a"}
