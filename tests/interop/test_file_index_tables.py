"""Tables that lakeidx wrote, indexed and compacted, read by the released Java Paimon: append tables, rebuilt file indexes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.file_index_rebuild import run_file_index_rebuild, spec_to_build, spec_to_drop
from lakeidx.tasks.runner import LocalRunner
from tests.kit.java_paimon import JavaPaimon

pytestmark = pytest.mark.interop

APPEND = {
    "unaware": {"bucket": "-1"},
    "bucketed": {"bucket": "2", "bucket-key": "a"},
}
BATCHES, ROWS = 3, 40


def make(folder: Path, name: str, options: dict[str, str], keys: list[str]) -> Table:
    """Three batches; values of `a` are spread so that min and max never tell the files apart."""
    spec = {
        "fields": [{"name": "a", "type": "BIGINT"}, {"name": "s", "type": "STRING"}],
        "primaryKeys": keys,
        "options": options,
    }
    table = Table.create(f"{folder}/db.db/{name}", spec)
    for i in range(BATCHES):
        numbers = [j * BATCHES + i for j in range(ROWS)]
        table.upsert(pa.table({"a": numbers, "s": [f"s{n % 5}" for n in numbers]}))
    return table


def java_rows(java: JavaPaimon) -> list[tuple[int, str]]:
    return sorted((row["a"], row["s"]) for row in java.json("read"))


@pytest.mark.parametrize("kind", APPEND)
def test_java_reads_append_tables(tmp_path: Path, kind: str) -> None:
    options = APPEND[kind] | {"file-index.bloom-filter.columns": "a", "file-index.bloom-filter.a.items": "200"}
    table = make(tmp_path, kind, options, [])
    java = JavaPaimon(str(tmp_path), f"db.{kind}")
    expected = [(n, f"s{n % 5}") for n in range(BATCHES * ROWS)]
    assert java_rows(java) == expected
    # Pages are DELTA_BINARY_PACKED here: a bloom filter rules out files, and picks no rows out of them.
    plan, *rows = java.json("find", "a", "31")
    assert [(row["a"], row["s"]) for row in rows] == [(31, "s1")]
    assert plan["files"] < len([f for b in table.scan().plan.buckets for f in b.files()])
    report = run_compaction(table.metadata, LocalRunner(1), full=True)
    assert report.files_in > report.files_out > 0
    assert java_rows(java) == expected
    found = table.scan().to_arrow()
    assert sorted(zip(found["a"].to_pylist(), found["s"].to_pylist(), strict=True)) == expected


def test_java_uses_rebuilt_indexes(tmp_path: Path) -> None:
    options = {"bucket": "-1", "file-index.in-manifest-threshold": "1 mb"}
    table = make(tmp_path, "rebuilt", options | {"file-index.bitmap.columns": "a"}, [])
    drop = run_file_index_rebuild(table.metadata, LocalRunner(1), spec_to_drop("bitmap", ["a"]))
    assert drop.rewritten == BATCHES
    java = JavaPaimon(str(tmp_path), "db.rebuilt")
    plan, *rows = java.json("find", "a", "31")
    assert (plan["files"], len(rows)) == (BATCHES, 1)
    built = run_file_index_rebuild(table.metadata, LocalRunner(1), spec_to_build(table.schema, "bitmap", ["a"]))
    assert built.rewritten == BATCHES
    assert table.metadata.latest_snapshot().commit_kind.value == "COMPACT"  # type: ignore[union-attr]
    plan, *rows = java.json("find", "a", "31")
    assert (plan["files"], len(rows)) == (1, 1)
    assert java_rows(java) == [(n, f"s{n % 5}") for n in range(BATCHES * ROWS)]


def test_java_reads_a_keyed_table_after_a_rebuild(tmp_path: Path) -> None:
    table = make(tmp_path, "keyed", {"bucket": "2"}, ["a"])
    run_compaction(table.metadata, LocalRunner(1), full=True)
    report = run_file_index_rebuild(table.metadata, LocalRunner(1), spec_to_build(table.schema, "bloom-filter", ["s"]))
    assert report.rewritten == 2
    assert all(f.extra_files for b in table.scan().plan.buckets for f in b.files())
    java = JavaPaimon(str(tmp_path), "db.keyed")
    assert java_rows(java) == [(n, f"s{n % 5}") for n in range(BATCHES * ROWS)]
    _, *rows = java.json("find", "s", "s3")
    assert len(rows) == BATCHES * ROWS // 5


def test_java_finds_nan(tmp_path: Path) -> None:
    """Java hands the filter on to parquet-java, which passed the row over by the bounds of the numbers beside it."""
    fields = [{"name": "a", "type": "INT"}, {"name": "d", "type": "DOUBLE"}, {"name": "f", "type": "FLOAT"}]
    table = Table.create(f"{tmp_path}/db.db/nan", {"fields": fields, "options": {"bucket": "-1"}})
    values = [1.0, float("nan"), None, 5.0]
    table.upsert(pa.table({"a": pa.array(range(4), pa.int32()), "d": values, "f": pa.array(values, pa.float32())}))
    java = JavaPaimon(str(tmp_path), "db.nan")
    for column, value, found in (("d", "NaN", [1]), ("f", "NaN", [1]), ("d", "5.0", [3])):
        _, *rows = java.json("find", column, value)
        assert [row["a"] for row in rows] == found
