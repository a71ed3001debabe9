"""Cross-partition tables: a key lives in one partition at a time, and the rule over keys says when it does not."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.quality.load import load_evidence
from lakeidx.quality.result import RuleResult
from lakeidx.quality.verify import verify
from lakeidx.table.commit.changes import CommitRequest, TableChanges
from lakeidx.table.commit.commit_changes import commit_changes
from lakeidx.table.view import load_view
from lakeidx.tasks.runner import LocalRunner
from lakeidx.types import DataType, Root
from tests.kit.small_tables import table_fields, table_spec
from tests.kit.upserts import upsert_table


def write(table: Table, batch_id: str, p: list[int], k: list[int]) -> None:
    rows = pa.table({"p": pa.array(p, pa.int32()), "k": pa.array(k, pa.int64()), "v": pa.array(["x"] * len(k))})
    upsert_table(make_context(table.metadata, batch_id, runner=LocalRunner(1)), rows)


def result(table: Table, name: str) -> RuleResult:
    found = verify(load_evidence(Table.open(table.uri).metadata))
    return next(r for r in found if r.name == name)


def test_a_key_in_two_partitions(tmp_path: Path) -> None:
    spec = table_spec("p INT NOT NULL, k BIGINT NOT NULL, v STRING", ["k"], partitions=["p"], options={"bucket": "-1"})
    table = Table.create(f"{tmp_path}/wh/d.db/t", spec)
    write(table, "b1", [1, 1, 2], [7, 8, 9])
    write(table, "b2", [2], [8])  # moves
    assert result(table, "primary_key_once").passed
    # A writer that knows nothing of other partitions: the file of partition 1 appears in partition 3 as well.
    view = load_view(table.metadata, Table.open(table.uri).snapshot)
    one = with_arity(encode_row([1], [DataType(Root.INT)]), 1)
    three = with_arity(encode_row([3], [DataType(Root.INT)]), 1)
    entry = next(e for e in view.entries if e.partition == one and e.file.row_count == 2)
    source = Path(table.uri) / "p=1" / f"bucket-{entry.bucket}" / entry.file.file_name
    target = Path(table.uri) / "p=3" / "bucket-5" / "data-forged-0.parquet"
    target.parent.mkdir(parents=True)
    shutil.copy(source, target)
    forged = replace(entry, partition=three, bucket=5, file=replace(entry.file, file_name=target.name))
    request = CommitRequest(commit_user="forger", changes=TableChanges(append=(forged,)))
    commit_changes(Table.open(table.uri).metadata, request)
    found = result(table, "primary_key_once")
    assert not found.passed
    assert found.metrics["keys_in_several_buckets"] == 2
    assert {tuple(s["partitions"]) for s in found.sample} == {("p=1", "p=3"), ("p=2", "p=3")}


def test_buckets_that_the_key_chooses_have_no_target(tmp_path: Path) -> None:
    options = {"dynamic-bucket.target-row-num": "3", "index.type": "bucket", "hoodie.bucket.index.num.buckets": "2"}
    fields = table_fields("p INT, k BIGINT NOT NULL, v STRING")
    spec = {"fields": fields, "primaryKeys": ["k"], "partitionKeys": [], "options": {"bucket": "-1", **options}}
    table = Table.create(f"{tmp_path}/wh/d.db/t", spec)
    write(table, "b1", [1] * 40, list(range(40)))
    found = result(table, "bucket_rows_within_target")
    assert found.passed
    assert found.metrics["largest_bucket_rows"] > 3
