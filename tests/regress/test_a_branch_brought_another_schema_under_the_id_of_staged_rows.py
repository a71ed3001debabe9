"""A fast-forwarded branch brought another schema under the id of staged rows: it was taken for theirs, and columns read null."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api.table import Table
from lakeidx.batch.context import BatchContext
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.upsert import commit_batch, finish_batch, ingest_rows, make_context, upsert_table, write_attempt
from lakeidx.errors import CommitConflictError
from lakeidx.format.schema.edits import SchemaEdits
from lakeidx.maintenance.alter import alter_table
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.table.expiration.tags import create_tag
from lakeidx.table.metadata import TableMetadata
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.shared_table.foreign import fast_forward, make_branch
from tests.kit.small_tables import branch_of, make_table, upsert

NIGHT = pa.table({"p": pa.array([2], pa.int32()), "k": [1], "main": ["night"]})
FIRST = {"p": 1, "k": 1, "branch": "a"}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Column v is called `branch` in schema 1 of branch x, and `main` in schema 1 of the table."""
    made = make_table(tmp_path)
    upsert(made, [(1, 1, "old")])
    upsert(made, [(1, 1, "a")])
    create_tag(made.metadata, "one")
    make_branch(Path(made.uri), "x", "one")
    alter_table(branch_of(made), SchemaEdits(rename={"v": "branch"}))
    alter_table(made, SchemaEdits(rename={"v": "main"}))
    return made


def seen(table: Table) -> list[dict[str, object]]:
    found: list[dict[str, object]] = Table.open(table.uri).scan().to_arrow().to_pylist()
    return found


def stage(table: Table, stages: int) -> BatchContext:
    context = make_context(table.metadata, "night")
    ingest_rows(context, NIGHT)
    if stages > 1:
        run_bucket_assignment(context)
    if stages > 2:
        write_attempt(context, 1)
    return context


@pytest.mark.parametrize("handle", ["open", "new"])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_it_is_refused_and_runs_anew(table: Table, stages: int, handle: str) -> None:
    context = stage(table, stages)
    fast_forward(Path(table.uri), "x")
    if handle == "new":
        context = make_context(Table.open(table.uri).metadata, "night")
    with pytest.raises(CommitConflictError, match="another schema 1 has taken its place"):
        commit_batch(context) if stages == 3 else finish_batch(context, lambda _: None)
    assert seen(table) == [FIRST]
    again = make_context(Table.open(table.uri).metadata, "night")
    assert not upsert_table(again, NIGHT.rename_columns(["p", "k", "branch"])).already
    assert seen(table) == [FIRST, {"p": 2, "k": 1, "branch": "night"}]


def test_it_is_staged_again_when_it_comes_as_a_whole(table: Table) -> None:
    stage(table, 3)
    fast_forward(Path(table.uri), "x")
    upsert_table(make_context(table.metadata, "night"), NIGHT.rename_columns(["p", "k", "branch"]))
    assert seen(table) == [FIRST, {"p": 2, "k": 1, "branch": "night"}]


def test_a_schema_that_the_branch_does_not_have(table: Table) -> None:
    alter_table(table, SchemaEdits(add={"more": "INT"}))
    context = make_context(table.metadata, "night")
    ingest_rows(context, NIGHT, missing="null")
    fast_forward(Path(table.uri), "x")
    with pytest.raises(CommitConflictError, match="schema 2 was taken away"):
        finish_batch(make_context(Table.open(table.uri).metadata, "night"), lambda _: None)


def test_rows_staged_under_a_schema_of_both_are_committed(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    upsert(table, [(1, 1, "a")])
    context = make_context(table.metadata, "night")
    ingest_rows(context, NIGHT.rename_columns(["p", "k", "v"]))
    create_tag(table.metadata, "one")
    make_branch(Path(table.uri), "x", "one")
    alter_table(branch_of(table), SchemaEdits(rename={"v": "branch"}))
    fast_forward(Path(table.uri), "x")
    finish_batch(make_context(Table.open(table.uri).metadata, "night"), lambda _: None)
    assert seen(table) == [FIRST, {"p": 2, "k": 1, "branch": "night"}]


def test_a_compaction_is_planned_again(table: Table) -> None:
    store = FaultStore(table.store)
    fault = store.fail((), "data-", when="after", act=lambda *_: fast_forward(Path(table.uri), "x"))
    run_compaction(TableMetadata(store, table.paths), LocalRunner(1), full=True)
    assert fault.hits == 1
    assert seen(table) == [FIRST]
