"""Batches through all stages: the same rows however small the budget; stages that are missing, or of another release."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.batch.context import make_context
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.stages.given_rows import stage_table
from lakeidx.batch.stages.index_write import run_index_write
from lakeidx.batch.stages.ingest import run_ingest
from lakeidx.batch.upsert import commit_batch
from lakeidx.codec.containers.checksum import seal
from lakeidx.errors import InvalidInputError
from lakeidx.landing.read import LandingOptions
from lakeidx.tasks.runner import LocalRunner
from tests.kit.small_tables import content, make_table, rows
from tests.kit.upserts import upsert_files, upsert_table


@pytest.mark.parametrize("budget", [1, 2000, 1 << 30])
def test_a_small_budget_makes_more_files_and_the_same_rows(tmp_path: Path, budget: int) -> None:
    table = make_table(tmp_path, options={"dynamic-bucket.target-row-num": "1000000"})
    path = tmp_path / "f.csv"
    values = [(1, int(k), f"v{i}") for i, k in enumerate(np.random.default_rng(3).integers(0, 80, 400))]
    stages = make_context(table.metadata, "b")
    files = []
    for n in range(4):
        path = tmp_path / f"f{n}.csv"
        path.write_text("p,k,v\n" + "".join(f"{p},{k},{v}\n" for p, k, v in values[n * 100 : (n + 1) * 100]))
        files.append(str(path))

    run_ingest(stages.files, table.schema, files, LandingOptions(), LocalRunner(1))
    run_bucket_assignment(stages)
    written = run_index_write(stages, 1, budget_bytes=budget)
    commit_batch(stages)
    # Four blocks arrive: each is a file, or two fill one, or all fit.
    least, most = {1: (4, 4), 2000: (2, 4)}.get(budget, (1, 1))
    assert least <= written.data_files <= most
    assert content(table) == {(p, k): v for p, k, v in values}


@pytest.mark.slow
def test_repeating_text_by_reference_is_the_same_as_staged(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("p", pa.int32(), False), pa.field("k", pa.int64(), False), pa.field("v", pa.string())])
    n = 3000
    values = [None if k % 11 == 0 else "xyz"[k % 3] for k in range(n)]
    given_rows = pa.table({"p": [1] * n, "k": range(n), "v": values}, schema=schema)
    files = []
    for number, part in enumerate(
        (given_rows, given_rows.slice(1000, 500).set_column(2, "v", pa.array([f"long {i}" for i in range(500)])))
    ):
        path = tmp_path / f"f{number}.parquet"
        pq.write_table(part.cast(schema), path, row_group_size=700)
        files.append(str(path))
    one = make_table(tmp_path / "one", options={"dynamic-bucket.target-row-num": "900"})
    result = upsert_files(make_context(one.metadata, "b"), files)
    assert all(p.by_reference for p in result.ingest.parts)
    two = make_table(tmp_path / "two", options={"dynamic-bucket.target-row-num": "900"})
    for number, file in enumerate(files):
        upsert_table(make_context(two.metadata, f"b{number}"), pq.read_table(file))
    assert content(one) == content(two)
    assert content(one)[(1, 1000)] == "long 0"


def test_stages_name_the_one_that_is_missing(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    context = make_context(table.metadata, "b")
    with pytest.raises(InvalidInputError, match="stage ingest of batch 'b' has not run"):
        run_bucket_assignment(context)
    stage_table(context.files, table.schema, rows([(1, 1, "a")]))
    with pytest.raises(InvalidInputError, match="stage bucket_assignment of batch 'b' has not run"):
        run_index_write(context, 1)


def test_a_batch_that_an_older_release_has_assigned_is_refused(tmp_path: Path) -> None:
    """Its files of targets are one per part; the reports of such a batch stay readable."""
    table = make_table(tmp_path)
    context = make_context(table.metadata, "b")
    stage_table(context.files, table.schema, rows([(1, 1, "a")]))
    assigned = run_bucket_assignment(context)
    old = {**assigned.model_dump(mode="json", exclude={"placing_tasks", "in_tasks"}), "stretches": [[[[0, 1]]]]}
    path = next(f.path for f in table.store.walk(context.files.root) if f.name == "bucket_assignment.json")
    table.store.put(path, seal(json.dumps(old).encode()))
    again = make_context(table.metadata, "b")
    assert run_bucket_assignment(again).rows == 1
    with pytest.raises(InvalidInputError, match="batch 'b' was assigned by another release of lakeidx: run it again"):
        run_index_write(again, 1)
